#include "ir/reduce_order.h"

#include "ir/graph.h"

namespace poot::ir {

bool adds_unrounded(const Eqn& e) {
  return e.op == OpCode::reduce_sum && e.attrs.size() == e.info().attrs.size() &&
         e.text("order") == name(ReduceOrder::sequential_fma);
}

int32_t product_of(const Graph& graph, const Eqn& e) {
  if (!adds_unrounded(e) || !is_value(e.inputs[0])) return -1;
  const int32_t d = graph.def(std::get<ValueId>(e.inputs[0]));
  return d >= 0 && graph.eqns()[static_cast<size_t>(d)].op == OpCode::mul ? d : -1;
}

}  // namespace poot::ir
