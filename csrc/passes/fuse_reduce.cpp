// Reductions over any axes: each that no row region took becomes a fused_reduce with the pointwise
// equations that feed it, so that what is summed is never stored.
//
//   %1 = mul %dy, %xhat                 %2, %3 = fused_reduce %dy, %xhat body(%a0, %a1) {
//   %2 = reduce_sum %1 {axes=[0,1]}       %0 = mul %a0, %a1
//   %3 = reduce_sum %dy {axes=[0,1]}  =>  %1 = reduce_sum %0 {axes=[0,1]}
//                                         %2 = reduce_sum %a0 {axes=[0,1]}
//                                         return %1, %2 }
//
// Backwards as in fuse_pointwise: a reduction opens a region over its operand's shape, or joins an
// earlier one over the same axes of the same shape that reads or makes what it reads; a producer
// joins if only this region reads it. What has other readers is stored anyway, and is read; but a
// product that a sum adds unrounded is always evaluated with that sum. A last forward sweep adds
// the arithmetic on the totals (the division of a mean).
#include <algorithm>
#include <map>

#include "ir/reduce_order.h"
#include "passes/fusion_cost.h"
#include "passes/producer_fusion.h"

namespace poot::passes {
namespace {

class ReduceFusion {
 public:
  ReduceFusion(ir::Graph& graph, PassContext& context)
      : graph_(graph), fusion_(graph, context, "fuse_reduce"), partition_(fusion_.partition) {}

  bool run() {
    const bool fuse = fusion_.context.options.fuse;
    for (auto e = static_cast<uint32_t>(graph_.eqns().size()); e-- > 0;) {
      if (is_reduction(e))
        open(e);
      else if (fuse && fusion_.fusible(e))
        absorb(e);
    }
    if (fuse) {
      merge_readers();
      for (uint32_t e = 0; e < graph_.eqns().size(); ++e)
        if (partition_.home(e) == kNoRegion) follow(e);
    }
    return partition_.commit(
        graph_, ir::OpCode::fused_reduce, [](RegionIndex) { return std::vector<ir::Attr>{}; },
        fusion_.context, "fuse_reduce");
  }

 private:
  bool is_reduction(uint32_t e) const {
    return partition_.eqn(e).info().kind == ir::OpKind::Reduce;
  }

  std::vector<int64_t> axes(RegionIndex r) const {
    auto list = partition_.eqn(partition_.region(r).members[0]).attr<std::vector<int64_t>>("axes");
    std::sort(list.begin(), list.end());
    return list;
  }

  bool same_structure(RegionIndex a, RegionIndex b) const {
    return partition_.region(a).space == partition_.region(b).space && axes(a) == axes(b);
  }

  void open(uint32_t e) {
    const RegionIndex r = fusion_.open(e, graph_.type(partition_.eqn(e).inputs[0]).shape);
    const int32_t product = ir::product_of(graph_, partition_.eqn(e));
    if (product >= 0) fusion_.copy(r, static_cast<uint32_t>(product));
  }

  void absorb(uint32_t e) {
    if (partition_.copied(e)) return partition_.dissolve_if_held(e);
    Readers readers = partition_.readers(e);
    if (readers.regions.empty()) return;
    const ir::Eqn& eqn = partition_.eqn(e);
    if (ir::is_view(eqn.info().kind) || eqn.info().kind == ir::OpKind::Source) {
      if (is_free(graph_, eqn)) fusion_.copy_to_readers(e);
      return;
    }
    if (readers.outside) return;
    for (size_t i = 1; i < readers.regions.size(); ++i)
      if (same_structure(readers.regions[0], readers.regions[i]))
        fusion_.merge(readers.regions[0], readers.regions[i]);
    readers = partition_.readers(e);
    if (readers.regions.size() > 1) {
      fusion_.copy_to_all(e);
      return;
    }
    const std::string refusal = fusion_.join(readers.regions[0], e, false);
    if (!refusal.empty()) fusion_.decline(e, refusal);
  }

  // Regions of one structure that read one value.
  void merge_readers() {
    std::map<ir::ValueId, RegionIndex> first;
    for (RegionIndex r = 0; r < partition_.region_count(); ++r) {
      if (partition_.region(r).merged_away) continue;
      bool merged = false;
      for (const ir::ValueId v : partition_.region(r).reads) {
        const auto at = first.find(v);
        if (at == first.end() || partition_.region(at->second).merged_away ||
            !same_structure(at->second, r))
          continue;
        merged = fusion_.merge(at->second, r);
        break;
      }
      if (merged) continue;
      for (const ir::ValueId v : partition_.region(r).reads) first.insert_or_assign(v, r);
    }
  }

  // Arithmetic on a region's totals, which has their shape, joins it: the last one that it can.
  void follow(uint32_t e) {
    const ir::Eqn& eqn = partition_.eqn(e);
    if (!ir::is_pointwise(eqn.info().kind) || !fusion_.fusible(e)) return;
    std::vector<RegionIndex> makers;
    for (const ir::Operand& o : eqn.inputs) {
      if (!ir::is_value(o)) continue;
      const int32_t d = graph_.def(std::get<ir::ValueId>(o));
      if (d < 0 || partition_.home(static_cast<uint32_t>(d)) == kNoRegion) continue;
      if (graph_.type(o).shape != fusion_.type(e).shape) return;
      makers.push_back(partition_.home(static_cast<uint32_t>(d)));
    }
    std::sort(makers.begin(), makers.end(), [&](RegionIndex a, RegionIndex b) {
      return partition_.region(a).place > partition_.region(b).place;
    });
    for (const RegionIndex r : makers) {
      if (partition_.refuses(r, e)) continue;
      partition_.join(r, e);
      return;
    }
  }

  ir::Graph& graph_;
  ProducerFusion fusion_;
  Partition& partition_;
};

}  // namespace

bool fuse_reduce(ir::Graph& graph, PassContext& context) {
  return ReduceFusion(graph, context).run();
}

}  // namespace poot::passes
