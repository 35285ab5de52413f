// The body's equations are made anew in the graph, operands mapped from body values:
//
//   %2, %3 = fused(%0, %1) { ... %c = add %a, %b; %d = neg %c; return %c, %d }
//   %4 = add %0, %1
//   %5 = neg %4                       and %2 -> %4, %3 -> %5
#include "compiler/split_regions.h"

namespace poot::compiler {

namespace {

using ir::Eqn;
using ir::Operand;
using ir::ValueId;

void inline_body(ir::GraphEdit& edit, const Eqn& region, std::vector<Eqn>& out) {
  const ir::Graph& body = *region.body;
  std::vector<Operand> map(body.value_count(), Operand(ValueId()));
  for (size_t i = 0; i < body.inputs().size(); ++i) map[body.inputs()[i].index] = region.inputs[i];
  for (const Eqn& e : body.eqns()) {
    std::vector<Operand> operands;
    for (const Operand& o : e.inputs)
      operands.push_back(ir::is_value(o) ? map[std::get<ValueId>(o).index] : o);
    Eqn made = edit.make(e.op, std::move(operands), e.attrs, e.body);
    made.origins = region.origins;
    for (size_t i = 0; i < e.outs.size(); ++i) map[e.outs[i].index] = made.outs[i];
    out.push_back(std::move(made));
  }
  for (size_t i = 0; i < region.outs.size(); ++i)
    edit.replace_uses(region.outs[i], std::get<ValueId>(map[body.outputs()[i].value.index]));
}

}  // namespace

void split_regions(ir::Graph& graph, const std::vector<bool>& split) {
  ir::GraphEdit edit(graph);
  std::vector<Eqn> old = std::move(edit.eqns());
  std::vector<Eqn> eqns;
  for (size_t i = 0; i < old.size(); ++i) {
    if (split[i]) {
      inline_body(edit, old[i], eqns);
    } else {
      eqns.push_back(std::move(old[i]));
    }
  }
  edit.eqns() = std::move(eqns);
  edit.commit();
}

}  // namespace poot::compiler
