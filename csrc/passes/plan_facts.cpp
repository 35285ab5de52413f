// One forward sweep for uses, one backward sweep that carries the outputs' demands through views
// and updates:
//
//   %1 = scatter_update %cache, %slots, %a     state(%1) = %cache: both updates may be made in the
//   %2 = scatter_update %1, %more, %b          caller's buffer
//   return state %2 -> %cache
//
// A value that a result shows is never written into an input's buffer: the caller gets its own.
#include "passes/plan_facts.h"

#include "passes/layout.h"

namespace poot::passes {

namespace {

using ir::Eqn;
using ir::OpKind;
using ir::ValueId;

void collect_uses(const ir::Graph& graph, std::vector<ValueFacts>& facts) {
  for (uint32_t i = 0; i < graph.eqns().size(); ++i) {
    for (const ir::Operand& o : graph.eqns()[i].inputs) {
      if (!ir::is_value(o)) continue;
      ValueFacts& f = facts[std::get<ValueId>(o).index];
      f.used = true;
      f.last_use = i;
    }
  }
}

void collect_outputs(const ir::Graph& graph, std::vector<ValueFacts>& facts) {
  for (const ir::GraphOutput& out : graph.outputs()) {
    ValueFacts& f = facts[out.value.index];
    f.used = true;
    f.last_use = kEnd;
    if (out.kind != ir::OutputKind::Result) continue;
    f.escapes = true;
    const Window wanted{
        graph.type(out.value).shape,
        out.layout ? out.layout->strides : contiguous_strides(graph.type(out.value).shape), 0};
    if (!f.strides && !is_broadcast(wanted)) f.strides = wanted.strides;
  }
}

// The strides of the operand that give its view the wanted ones.
std::optional<Shape> through_view(const ir::Graph& graph, const Eqn& eqn, ValueId operand,
                                  const Shape& strides) {
  const Shape& from = graph.type(operand).shape;
  if (eqn.op == ir::OpCode::reshape)
    return reshape_strides({graph.type(eqn.outs[0]).shape, strides, 0}, from);
  if (eqn.op != ir::OpCode::transpose) return std::nullopt;
  Shape out(from.size());
  const auto& perm = eqn.attr<std::vector<int64_t>>("perm");
  for (size_t i = 0; i < perm.size(); ++i) out[perm[i]] = strides[i];
  return out;
}

void carry_back(const ir::Graph& graph, std::vector<ValueFacts>& facts) {
  for (size_t i = graph.eqns().size(); i-- > 0;) {
    const Eqn& eqn = graph.eqns()[i];
    if (eqn.inputs.empty() || !ir::is_value(eqn.inputs[0])) continue;
    const ValueId operand = std::get<ValueId>(eqn.inputs[0]);
    ValueFacts& from = facts[operand.index];
    const ValueFacts& to = facts[eqn.outs[0].index];
    if (eqn.info().kind == OpKind::View && to.escapes) {
      from.escapes = true;
      from.last_use = kEnd;
      if (to.strides && !from.strides)
        from.strides = through_view(graph, eqn, operand, *to.strides);
    } else if (eqn.info().kind == OpKind::Update && to.state && !to.escapes && !from.state &&
               !graph.is_input(operand)) {
      from.state = to.state;
    }
  }
}

}  // namespace

std::vector<ValueFacts> value_facts(const ir::Graph& graph) {
  std::vector<ValueFacts> facts(graph.value_count());
  collect_uses(graph, facts);
  collect_outputs(graph, facts);
  for (const ir::GraphOutput& out : graph.outputs()) {
    ValueFacts& f = facts[out.value.index];
    if (out.kind == ir::OutputKind::StateNext && !f.state && !graph.is_input(out.value))
      f.state = out.state_input;
  }
  carry_back(graph, facts);
  for (ValueFacts& f : facts) {
    if (f.escapes) f.state = ValueId();
  }
  return facts;
}

}  // namespace poot::passes
