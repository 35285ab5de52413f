// Accessors and small value types of the graph.
#include "ir/graph.h"

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

std::vector<uint32_t> use_counts(const Graph& graph) {
  std::vector<uint32_t> uses(graph.value_count(), 0);
  for (const Eqn& e : graph.eqns())
    for (const Operand& o : e.inputs)
      if (const ValueId* v = std::get_if<ValueId>(&o)) ++uses.at(v->index);
  for (const GraphOutput& o : graph.outputs()) ++uses.at(o.value.index);
  return uses;
}

}  // namespace poot::ir
