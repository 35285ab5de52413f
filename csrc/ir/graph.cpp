// Accessors and small value types of the graph.
#include "ir/graph.h"

#include "ir/reduce_order.h"

namespace poot::ir {

std::string TensorType::str() const {
  std::string s(name(dtype));
  s += '[';
  for (size_t i = 0; i < shape.size(); ++i) s += (i ? "," : "") + shape[i].str();
  return s + ']';
}

TensorType Graph::type(const Operand& o) const {
  if (const ValueId* v = std::get_if<ValueId>(&o)) return type(*v);
  return {std::get<Scalar>(o).dtype, {}};
}

bool adds_unrounded(const Eqn& e) {
  return e.op == OpCode::reduce_sum && e.attrs.size() == e.info().attrs.size() &&
         e.text("order") == name(ReduceOrder::sequential_fma);
}

int32_t product_of(const Graph& graph, const Eqn& e) {
  if (!adds_unrounded(e) || !is_value(e.inputs[0])) return -1;
  const int32_t d = graph.def(std::get<ValueId>(e.inputs[0]));
  return d >= 0 && graph.eqns()[static_cast<size_t>(d)].op == OpCode::mul ? d : -1;
}

std::vector<uint32_t> use_counts(const Graph& graph) {
  std::vector<uint32_t> uses(graph.value_count(), 0);
  for (const Eqn& e : graph.eqns())
    for (const Operand& o : e.inputs)
      if (const ValueId* v = std::get_if<ValueId>(&o)) ++uses.at(v->index);
  for (const GraphOutput& o : graph.outputs()) ++uses.at(o.value.index);
  return uses;
}

}  // namespace poot::ir
