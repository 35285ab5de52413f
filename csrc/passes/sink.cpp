// Puts each pointwise, view or movement equation where it is first needed: before the first
// equation that launches work of its own (a product, a reduction, an update, a call) and depends on
// it. What only the results need comes last. So no equation stands between a producer and its
// reader that did not have to, fusion finds them side by side, and values live shortly.
//
//   %1 = mul %x, 16 (read last)      %2 = reduce_sum %x
//   %2 = reduce_sum %x          =>   %1 = mul %x, 16
//   %3 = sub %1, %2                  %3 = sub %1, %2
//
// Stays in place: everything that launches, in its order, and whatever reads the base of an update,
// or a view of it: after the update it would force a copy of the base.
//
// need(e) = the least need of e's readers, or the end; a launch needs itself. Order by need, then
// by the old order: producers need no later than their readers, so the order is topological.
#include <algorithm>

#include "passes/pass.h"

namespace poot::passes {
namespace {

bool reads_any(const ir::Eqn& e, const std::vector<bool>& set) {
  return std::any_of(e.inputs.begin(), e.inputs.end(), [&](const ir::Operand& o) {
    return ir::is_value(o) && set[std::get<ir::ValueId>(o).index];
  });
}

// Values that some update takes as its base, and views of them.
std::vector<bool> bases(const ir::Graph& graph) {
  std::vector<bool> base(graph.value_count(), false);
  for (const ir::Eqn& e : graph.eqns())
    if (e.info().effects == ir::Effects::Update && ir::is_value(e.inputs[0]))
      base[std::get<ir::ValueId>(e.inputs[0]).index] = true;
  for (const ir::Eqn& e : graph.eqns())
    if (ir::is_view(e.info().kind) && reads_any(e, base)) base[e.outs[0].index] = true;
  return base;
}

bool movable(const ir::Eqn& e, const std::vector<bool>& base) {
  const ir::OpKind kind = e.info().kind;
  const bool computes = ir::is_pointwise(kind) || kind == ir::OpKind::Source ||
                        kind == ir::OpKind::View || kind == ir::OpKind::Movement;
  return computes && (ir::is_view(kind) || !reads_any(e, base));
}

}  // namespace

bool sink(ir::Graph& graph, PassContext&) {
  const auto eqns = graph.eqns();
  const std::vector<bool> base = bases(graph);
  std::vector<size_t> need_of_value(graph.value_count(), eqns.size()), need(eqns.size());
  std::vector<size_t> order(eqns.size());
  for (size_t i = eqns.size(); i-- > 0;) {
    order[i] = i;
    need[i] = i;
    if (movable(eqns[i], base)) {
      need[i] = eqns.size();
      for (const ir::ValueId out : eqns[i].outs)
        need[i] = std::min(need[i], need_of_value[out.index]);
    }
    for (const ir::Operand& o : eqns[i].inputs)
      if (ir::is_value(o)) {
        size_t& known = need_of_value[std::get<ir::ValueId>(o).index];
        known = std::min(known, need[i]);
      }
  }
  // An equation that launches comes after what it needs: it has the greatest index of its need.
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return need[a] < need[b]; });
  if (std::is_sorted(order.begin(), order.end())) return false;
  ir::GraphEdit edit(graph);
  std::vector<ir::Eqn> sorted;
  for (const size_t i : order) sorted.push_back(edit.eqns()[i]);
  edit.eqns() = std::move(sorted);
  edit.commit();
  return true;
}

}  // namespace poot::passes
