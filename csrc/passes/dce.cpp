// Dead code elimination: one backward sweep over the equations. An equation stays if it is Ordered,
// if one of its results is a graph output, or if a later equation that stays reads one.
#include "passes/pass.h"

namespace poot::passes {
namespace {

bool sweep(ir::Graph& graph) {
  std::vector<bool> live(graph.value_count(), false);
  for (const ir::GraphOutput& out : graph.outputs()) live[out.value.index] = true;
  const auto eqns = graph.eqns();
  std::vector<bool> keep(eqns.size(), false);
  bool dead = false;
  for (size_t i = eqns.size(); i-- > 0;) {
    const ir::Eqn& e = eqns[i];
    keep[i] = e.info().effects == ir::Effects::Ordered;
    for (const ir::ValueId out : e.outs) keep[i] = keep[i] || live[out.index];
    if (!keep[i]) {
      dead = true;
      continue;
    }
    for (const ir::Operand& o : e.inputs)
      if (ir::is_value(o)) live[std::get<ir::ValueId>(o).index] = true;
  }
  if (!dead) return false;
  ir::GraphEdit edit(graph);
  std::vector<ir::Eqn> kept;
  for (size_t i = 0; i < keep.size(); ++i)
    if (keep[i]) kept.push_back(edit.eqns()[i]);
  edit.eqns() = std::move(kept);
  edit.commit();
  return true;
}

}  // namespace

bool dce(ir::Graph& graph, PassContext&) {
  return sweep(graph);
}

bool dce_fused(ir::Graph& graph, PassContext&) {
  return sweep(graph);
}

}  // namespace poot::passes
