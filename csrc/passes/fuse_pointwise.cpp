// Pointwise fusion: every pointwise, source and movement equation ends in a region, as few regions
// as the cost rule allows.
//
//   %1 = add %x, f32 1.0            %2 = fused %x body(%a0) {
//   %2 = maximum %1, f32 0.0   =>     %0 = add %a0, f32 1.0
//                                     %1 = maximum %0, f32 0.0
//                                     return %1 }
//
// One sweep from the last equation to the first, so that all readers of a value are placed before
// the value is. A value whose readers all sit in one region joins it, in whatever shape they read
// it, unless it would be evaluated so often that storing it is cheaper (fusion_cost). A value with
// other readers joins a region of its own iteration space as a further result, and regions that
// share it become one. Views and literals are copied to each reader, since index maps cost nothing;
// so is cheap arithmetic, where that saves the value from being stored at all. Everything else
// starts a region, and what would have joined one is recorded as declined. A chain of views that
// no strides can express, between a value made here and a product or call, is the result that its
// region writes, so that the value is not copied into shape afterwards. At the end, regions of
// one space that read a same value become one, so that it is read once.
//
// Why backwards: going forward, a producer meets its first reader before it is known whether the
// others can join, and would have to be stored or duplicated on a guess.
#include <map>

#include "passes/fusion_cost.h"
#include "passes/iteration_space.h"
#include "passes/layout.h"
#include "passes/producer_fusion.h"

namespace poot::passes {
namespace {

class PointwiseFusion {
 public:
  PointwiseFusion(ir::Graph& graph, PassContext& context)
      : graph_(graph), fusion_(graph, context, "fuse_pointwise"), partition_(fusion_.partition) {}

  bool run() {
    for (auto e = static_cast<uint32_t>(graph_.eqns().size()); e-- > 0;)
      if (fusion_.fusible(e)) place(e);
    if (fusion_.context.options.fuse) merge_readers();
    return partition_.commit(
        graph_, ir::OpCode::fused, [](RegionIndex) { return std::vector<ir::Attr>{}; },
        fusion_.context, "fuse_pointwise");
  }

 private:
  void open(uint32_t e) { fusion_.open(e, fusion_.type(e).shape); }

  void place(uint32_t e) {
    const Readers readers = partition_.readers(e);
    const ir::Eqn& eqn = partition_.eqn(e);
    const bool view = ir::is_view(eqn.info().kind);
    if (view && fusion_.context.options.fuse && readers.regions.empty() && writes_views(e)) {
      open(e);
      return;
    }
    if (!fusion_.context.options.fuse) {
      if (!view) open(e);
    } else if (view || (eqn.info().kind == ir::OpKind::Source && is_free(graph_, eqn))) {
      if (!fusion_.copy_to_readers(e) && !view) open(e);
    } else if (readers.regions.empty()) {
      open(e);
    } else if (!readers.outside && readers.regions.size() == 1) {
      settle(e, fusion_.join(readers.regions[0], e, false));
    } else {
      const std::string refusal = join_as_result(e, readers);
      if (!refusal.empty() && !fusion_.copy_to_all(e)) settle(e, refusal);
    }
  }

  // e ends a chain of views, read by nothing else, that reorders a value made by an equation which
  // a region can hold, in a way that strides do not express.
  bool writes_views(uint32_t e) const {
    std::vector<uint32_t> chain;
    int32_t d = static_cast<int32_t>(e);
    for (; d >= 0; d = def(partition_.eqn(chain.back()).inputs[0])) {
      const auto at = static_cast<uint32_t>(d);
      const ir::ValueId out = partition_.eqn(at).outs[0];
      if (partition_.is_output(out) || (at != e && partition_.users(out).size() != 1)) return false;
      if (!ir::is_view(partition_.eqn(at).info().kind)) break;
      chain.push_back(at);
    }
    if (d < 0 || !fusion_.fusible(static_cast<uint32_t>(d))) return false;
    Window w = Window::contiguous(fusion_.type(static_cast<uint32_t>(d)).shape);
    for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
      const auto next = view_window(partition_.eqn(*at), w, fusion_.type(*at).shape);
      if (!next) return true;
      w = *next;
    }
    return false;
  }

  int32_t def(const ir::Operand& o) const {
    return ir::is_value(o) ? graph_.def(std::get<ir::ValueId>(o)) : -1;
  }

  void settle(uint32_t e, const std::string& refusal) {
    if (refusal.empty()) return;
    fusion_.decline(e, refusal);
    open(e);
  }

  // e has several readers: it becomes one more result of a region of its own space, after that
  // region has absorbed the other readers of that space.
  std::string join_as_result(uint32_t e, const Readers& readers) {
    std::vector<RegionIndex> same;
    for (const RegionIndex r : readers.regions)
      if (same_space(partition_.region(r).space, fusion_.type(e).shape, graph_.symbols()))
        same.push_back(r);
    if (same.empty()) return "its readers iterate over other spaces";
    const RegionIndex target = same[0];
    for (size_t i = 1; i < same.size(); ++i) fusion_.merge(target, same[i]);
    if (results_of(target) >= kMaxRegionOutputs) return "the region has as many results as it may";
    const Readers left = partition_.readers(e);
    return fusion_.join(target, e, left.outside || left.regions.size() > 1);
  }

  size_t results_of(RegionIndex r) const {
    size_t n = 0;
    for (const uint32_t m : partition_.region(r).members)
      n += partition_.read_outside(partition_.eqn(m).outs[0], r);
    return n;
  }

  // Regions of one space that read one value of that space.
  void merge_readers() {
    std::map<ir::ValueId, RegionIndex> first;
    for (RegionIndex r = 0; r < partition_.region_count(); ++r) {
      if (partition_.region(r).merged_away) continue;
      RegionIndex into = kNoRegion;
      for (const ir::ValueId v : partition_.region(r).reads) {
        const auto at = first.find(v);
        if (at == first.end() || !shares(at->second, r, v)) continue;
        into = at->second;
        break;
      }
      if (into != kNoRegion && results_of(into) + results_of(r) <= kMaxRegionOutputs &&
          fusion_.merge(into, r))
        continue;
      for (const ir::ValueId v : partition_.region(r).reads) first.insert_or_assign(v, r);
    }
  }

  bool shares(RegionIndex a, RegionIndex b, ir::ValueId v) const {
    const Shape &x = partition_.region(a).space, &y = partition_.region(b).space;
    return !partition_.region(a).merged_away && same_space(x, y, graph_.symbols()) &&
           numel(graph_.type(v).shape) == numel(x);
  }

  ir::Graph& graph_;
  ProducerFusion fusion_;
  Partition& partition_;
};

}  // namespace

bool fuse_pointwise(ir::Graph& graph, PassContext& context) {
  return PointwiseFusion(graph, context).run();
}

}  // namespace poot::passes
