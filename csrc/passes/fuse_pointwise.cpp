// Pointwise fusion: every pointwise, source and movement equation ends in a region, as few regions
// as the cost rule allows.
//
//   %1 = add %x, f32 1.0            %2 = fused %x {
//   %2 = maximum %1, f32 0.0   =>     graph (%x) { %1 = add %x, f32 1.0
//                                                  %2 = maximum %1, f32 0.0 return %2 } }
//
// One sweep from the last equation to the first, so that all readers of a value are placed before
// the value is. A value whose readers all sit in one region joins it, in whatever shape they read
// it, unless it would be evaluated so often that storing it is cheaper (fusion_cost). A value with
// other readers joins a region of its own iteration space as a further result, and regions that
// share it become one. Views and literals are copied to each reader, since index maps cost nothing;
// so is cheap arithmetic, where that saves the value from being stored at all. Everything else
// starts a region, and what would have joined one is recorded as declined.
//
// Why backwards: going forward, a producer meets its first reader before it is known whether the
// others can join, and would have to be stored or duplicated on a guess.
#include <algorithm>

#include "passes/evaluation_maps.h"
#include "passes/fusion_cost.h"
#include "passes/iteration_space.h"
#include "passes/partition.h"

namespace poot::passes {
namespace {

constexpr size_t kMaxMaps = 8;    // index maps through which one value may be evaluated
constexpr size_t kMaxCopies = 3;  // regions that may each recompute a cheap value

class PointwiseFusion {
 public:
  PointwiseFusion(ir::Graph& graph, PassContext& context)
      : graph_(graph), context_(context), partition_(graph), table_(partition_) {}

  bool run() {
    for (auto e = static_cast<uint32_t>(graph_.eqns().size()); e-- > 0;)
      if (fusible(e)) place(e);
    return partition_.commit(
        graph_, ir::OpCode::fused, [](const DraftRegion&) { return std::vector<ir::Attr>{}; },
        context_, "fuse_pointwise");
  }

 private:
  bool fusible(uint32_t e) const {
    const ir::Eqn& eqn = partition_.eqn(e);
    const ir::OpKind kind = eqn.info().kind;
    if (!ir::is_pointwise(kind) && kind != ir::OpKind::Source && kind != ir::OpKind::View &&
        kind != ir::OpKind::Movement)
      return false;
    for (const ir::Operand& o : eqn.inputs)
      if (is_complex(graph_.type(o).dtype)) return false;
    return !is_complex(type(e).dtype);
  }

  const ir::TensorType& type(uint32_t e) const { return graph_.type(partition_.eqn(e).outs[0]); }

  void open(uint32_t e) {
    const RegionIndex r = partition_.open(e, type(e).shape);
    table_.set(r, e, {table_.own_space(r)});
  }

  void decline(uint32_t e, std::string reason) {
    context_.declines.push_back({"fuse_pointwise", value_label(graph_, e), std::move(reason)});
  }

  void place(uint32_t e) {
    const Readers readers = partition_.readers(e);
    const ir::OpKind kind = partition_.eqn(e).info().kind;
    if (!context_.options.fuse) {
      if (kind != ir::OpKind::View) open(e);
      return;
    }
    if (kind == ir::OpKind::View ||
        (kind == ir::OpKind::Source && is_free(graph_, partition_.eqn(e)))) {
      copy_to_readers(e, readers, kind == ir::OpKind::View);
      return;
    }
    if (readers.regions.empty()) return open(e);
    if (!readers.outside && readers.regions.size() == 1) {
      const std::string refusal = join(readers.regions[0], e, false);
      if (refusal.empty()) return;
      decline(e, refusal);
      return open(e);
    }
    std::string refusal = join_as_result(e, readers);
    if (refusal.empty() || copy_to_all(e, readers)) return;
    decline(e, refusal);
    open(e);
  }

  // Views and literals: evaluated wherever they are read. A literal that is read elsewhere too is
  // also made once.
  void copy_to_readers(uint32_t e, const Readers& readers, bool view) {
    bool everywhere = !readers.outside;
    for (const RegionIndex r : readers.regions) {
      if (partition_.refuses_copy(r, e)) {
        everywhere = false;
        continue;
      }
      EvaluationMaps maps = table_.wanted(r, e);
      partition_.copy(r, e);
      table_.set(r, e, std::move(maps));
    }
    if (everywhere && !readers.regions.empty())
      partition_.dissolve(e);
    else if (!view)
      open(e);
  }

  // Empty if e joined r, else the reason why not.
  std::string join(RegionIndex r, uint32_t e, bool leaves) {
    if (!is_free(graph_, partition_.eqn(e)) && read_at_random(r, e))
      return "its reader picks single elements of it";
    EvaluationMaps maps = table_.wanted(r, e);
    if (leaves) add_map(maps, table_.own_space(r));
    if (maps.size() > kMaxMaps) return "its reader takes it apart through too many index maps";
    const double evaluations = total_evaluations(maps);
    if (!pays_to_recompute(graph_, partition_.eqn(e), evaluations, context_.target))
      return std::string(partition_.eqn(e).info().name) + " would be evaluated " +
             std::to_string(static_cast<int64_t>(evaluations)) + " times for " +
             std::to_string(static_cast<int64_t>(hinted_numel(type(e).shape, graph_.symbols()))) +
             " elements; storing them is cheaper";
    if (const char* refusal = partition_.refuses(r, e)) return refusal;
    partition_.join(r, e);
    table_.set(r, e, std::move(maps));
    return "";
  }

  bool read_at_random(RegionIndex r, uint32_t e) const {
    for (const ir::ValueId out : partition_.eqn(e).outs)
      for (const uint32_t u : partition_.users(out)) {
        if (!partition_.holds(r, u)) continue;
        const ir::Eqn& reader = partition_.eqn(u);
        for (size_t i = 0; i < reader.inputs.size(); ++i)
          if (reader.inputs[i] == ir::Operand(out) && reads_at_random(reader, i)) return true;
      }
    return false;
  }

  // e has several readers: it becomes one more result of a region of its own space, after that
  // region has absorbed the other readers of that space.
  std::string join_as_result(uint32_t e, const Readers& readers) {
    std::vector<RegionIndex> same;
    for (const RegionIndex r : readers.regions)
      if (same_space(partition_.region(r).space, type(e).shape, graph_.symbols()))
        same.push_back(r);
    if (same.empty()) return "its readers iterate over other spaces";
    const RegionIndex target = same[0];
    for (size_t i = 1; i < same.size(); ++i) {
      if (partition_.refuses_merge(target, same[i])) continue;
      const DraftRegion before = partition_.region(same[i]);
      partition_.merge(target, same[i]);
      table_.merged(target, same[i], before);
    }
    if (results_of(target) >= kMaxRegionOutputs) return "the region has as many results as it may";
    return join(target, e, partition_.readers(e).regions.size() > 1 || readers.outside);
  }

  size_t results_of(RegionIndex r) const {
    size_t n = 0;
    for (const uint32_t m : partition_.region(r).members)
      n += partition_.read_outside(partition_.eqn(m).outs[0], r);
    return n;
  }

  double bytes(const ir::Operand& o) const {
    const ir::TensorType t = graph_.type(o);
    return hinted_numel(t.shape, graph_.symbols()) * static_cast<double>(byte_size(t.dtype));
  }

  // Evaluates e in each reader instead of storing it, if that moves no more bytes and costs less.
  bool copy_to_all(uint32_t e, const Readers& readers) {
    if (readers.outside || readers.regions.size() > kMaxCopies) return false;
    const ir::Eqn& eqn = partition_.eqn(e);
    double own_reads = 0, copied_reads = 0, evaluations = 0;
    for (const ir::Operand& o : eqn.inputs)
      if (ir::is_value(o)) own_reads += bytes(o);
    std::vector<EvaluationMaps> maps;
    for (const RegionIndex r : readers.regions) {
      if (partition_.refuses_copy(r, e) || read_at_random(r, e)) return false;
      maps.push_back(table_.wanted(r, e));
      if (maps.back().size() > kMaxMaps) return false;
      evaluations += total_evaluations(maps.back());
      const auto& reads = partition_.region(r).reads;
      for (const ir::Operand& o : eqn.inputs)
        if (ir::is_value(o) &&
            !std::binary_search(reads.begin(), reads.end(), std::get<ir::ValueId>(o)))
          copied_reads += bytes(o);
    }
    const double stored =
        own_reads + bytes(eqn.outs[0]) * static_cast<double>(1 + readers.regions.size());
    if (copied_reads > stored || !pays_to_recompute(graph_, eqn, evaluations, context_.target))
      return false;
    for (size_t i = 0; i < readers.regions.size(); ++i) {
      partition_.copy(readers.regions[i], e);
      table_.set(readers.regions[i], e, std::move(maps[i]));
    }
    partition_.dissolve(e);
    return true;
  }

  ir::Graph& graph_;
  PassContext& context_;
  Partition partition_;
  EvaluationTable table_;
};

}  // namespace

bool fuse_pointwise(ir::Graph& graph, PassContext& context) {
  return PointwiseFusion(graph, context).run();
}

}  // namespace poot::passes
