// Reductions across memory: columns are the innermost kept variable and the reduced positions are
// a loop that carries one accumulator a column:
//
//   acc [c] = for i in 0..n carry(0) { yield acc + load x [i, c] }
//
// A step takes a few positions, so that accumulators are read and written a few times less often.
// Long floating-point sums are nested loops of a few steps each, every one starting from 0, so that
// their error is that of a cascade. On a CPU the order is that of eager's kernels, and the bits are
// the same: positions one after the other, or where columns are fewer than four vectors, each
// fourth to one of four accumulators (as eager also takes the columns beyond a multiple of four
// vectors, and of 5 to 7 those beyond four: these sums have another order here). Sequential sums
// have one accumulator all along, to which a fused multiply-add may take a product; other sums
// beside them have loops of their own. On a GPU the positions of a step are first added among
// themselves.
//
// Reductions that need others (a softmax, a variance) follow in loops of their own, and what has an
// element for every position is stored by a last loop. A band of columns is narrow enough that it
// stays in the cache meanwhile. Where a request asks for parts, a block walks one part of the
// positions.
#include <algorithm>
#include <functional>

#include "codegen/generate/reduction.h"
#include "codegen/generate/spread.h"
#include "codegen/lower/gpu_threads.h"
#include "support/errors.h"

namespace poot::codegen {
namespace {

using tile::IndexId;
using tile::ValueId;

constexpr int64_t kTogether = 4;  // positions of a step
constexpr int64_t kSteps = 32;    // positions of one accumulator before it joins an outer one
constexpr int kLevels = 4;        // nested accumulators at most
constexpr int64_t kAcrossColumns = 512;  // accumulators of a block at most: they stay in L1
constexpr int64_t kNarrowest = 64;       // columns of a block at least: whole cache lines
constexpr int64_t kBlocksPerCore = 4;
constexpr int64_t kAcrossThreads = 128;  // of a GPU's block, each with a vector of columns
constexpr int64_t kFewestGpuColumns = 128;
constexpr int64_t kBand = 1 << 17;  // elements of a band that is walked several times

// Columns of a block: narrow enough that every core gets some, unless there are parts too. How
// columns are divided does not change any sum.
int64_t across_columns(const Dim& rows, const Dim& columns, const SymbolTable& symbols,
                       const Target& target, int64_t most, bool whole) {
  if (target.isa == Isa::Ptx) {
    const int64_t of_core = rows.hint(symbols) * columns.hint(symbols) / target.cores;
    const int64_t width = (of_core + kFewestGpuColumns - 1) / kFewestGpuColumns * kFewestGpuColumns;
    const int64_t widest = kAcrossThreads * kLongestVector;
    return column_capacity(columns, symbols,
                           whole ? std::clamp(width, kFewestGpuColumns, widest) : widest);
  }
  const int64_t wanted = kBlocksPerCore * target.cores;
  const int64_t bands = std::max<int64_t>(1, wanted / std::max<int64_t>(rows.hint(symbols), 1));
  const int64_t width = (columns.hint(symbols) / bands + 63) / 64 * 64;
  return column_capacity(columns, symbols, std::clamp(width, kNarrowest, most));
}

class AcrossKernel {
 public:
  AcrossKernel(const passes::KernelRequest& request, const Region& region)
      : request_(request),
        region_(region),
        symbols_(request.body->symbols()),
        b_(request.name, symbols_),
        buffers_(declare_buffers(b_, request)),
        levels_(reduction_levels(region)),
        reduced_(flatten(region, region.vars_of(Role::Reduced))) {}

  tile::Program run(const Target& target) {
    std::vector<IterVar> kept = region_.vars_of(Role::Free);
    columns_ = flatten(region_, {kept.back()});
    kept.pop_back();
    rows_ = flatten(region_, kept);
    sort_results();
    const int64_t positions = std::max<int64_t>(reduced_.size.hint(symbols_), 1);
    const bool on_cpu = target.isa == Isa::X86;
    as_eager_ = on_cpu && levels_.size() == 1;
    if (on_cpu) part_sequential();
    const bool several = levels_.size() > 1 || !wide_.empty();
    const int64_t most = several
                             ? std::clamp(kBand / positions / 64 * 64, kNarrowest, kAcrossColumns)
                             : kAcrossColumns;
    const int64_t width = across_columns(rows_.size, columns_.size, symbols_, target, most,
                                         request_.parts.is_const(1));
    row_ = b_.cst(0);
    if (!rows_.size.is_const(1)) {
      b_.grid(1, rows_.size);
      row_ = b_.scalar(b_.block_id(1));
    }
    column_ = blocked_axis(b_, symbols_, "c", columns_.size, width, 0);
    steps_of_accumulator_ = as_eager_ ? passes::cascade_steps(reduced_.size) : kSteps;
    // Of a part: its results lie after those of the parts before it.
    const Dim steps = positions_of_part();
    first_ = b_.cst(0);
    last_ = b_.dim(reduced_.size);
    IndexId results;
    if (!request_.parts.is_const(1)) {
      b_.grid(2, request_.parts);
      const IndexId part = b_.scalar(b_.block_id(2));
      first_ = b_.mul(part, b_.dim(steps));
      last_ = b_.min(b_.add(first_, b_.dim(steps)), last_);
      results = b_.mul(part, b_.dim(rows_.size * columns_.size));
    }
    for (const std::vector<NodeId>& level : levels_) {
      reductions_ = level;
      sequential_ = on_cpu && is_sequential(level[0]);
      const std::vector<ValueId> totals = accumulate(steps);
      for (size_t i = 0; i < totals.size(); i++) totals_.emplace_back(level[i], totals[i]);
      checked_ = true;
    }
    store_wide();
    Emitter emit = emitter();
    for (const Result& r : narrow_) emit_result(b_, emit, r, buffers_.outputs[r.output], results);
    b_.program().block_elems = width * std::max<int64_t>(steps.hint(symbols_), 1);
    return b_.finish();
  }

 private:
  bool is_sequential(NodeId n) const { return ir::is_sequential(region_.nodes.at(n).order); }

  // Sequential sums and what else their level reduces become two levels.
  void part_sequential() {
    std::vector<std::vector<NodeId>> parted;
    for (std::vector<NodeId>& level : levels_) {
      const auto rest = std::stable_partition(level.begin(), level.end(),
                                              [&](NodeId n) { return is_sequential(n); });
      if (rest != level.begin()) parted.emplace_back(level.begin(), rest);
      if (rest != level.end()) parted.emplace_back(rest, level.end());
    }
    levels_ = std::move(parted);
  }

  Emitter emitter() {
    Emitter emit(b_, region_, {column_.axis}, buffers_.inputs);
    bind_flat(b_, emit, region_, rows_, row_, 0);
    bind_flat(b_, emit, region_, columns_, column_.index, 1);
    for (const auto& [node, value] : totals_) emit.set(node, value);
    return emit;
  }

  // Results with an element for every reduced position, and the others.
  void sort_results() {
    const std::vector<IterVar> reduced = region_.vars_of(Role::Reduced);
    for (const Result& r : region_.results) {
      const bool is_wide = std::any_of(reduced.begin(), reduced.end(), [&](const IterVar& v) {
        return !r.index.factor(v.atom).is_const(0);
      });
      (is_wide ? wide_ : narrow_).push_back(r);
    }
  }

  void store_wide() {
    if (wide_.empty()) return;
    b_.begin_for(first_, last_, {});
    Emitter emit = emitter();
    bind_flat(b_, emit, region_, reduced_, b_.scalar(b_.for_index()), 0);
    for (const Result& r : wide_) emit.full(r.value);
    for (const Result& r : wide_) emit_result(b_, emit, r, buffers_.outputs[r.output]);
    b_.end_for({});
  }

  // In eager's order so many that accumulators are whole.
  Dim positions_of_part() const {
    const Dim even = Dim::ceildiv(reduced_.size, request_.parts);
    if (!as_eager_ || request_.parts.is_const(1) || !even.is_const()) return even;
    int64_t whole = steps_of_accumulator_;
    while (whole < even.value()) whole *= steps_of_accumulator_;
    return whole;
  }

  bool sums_floats(NodeId n) const {
    const Node& node = region_.nodes.at(n);
    return is_float(node.dtype) && node.op == ir::OpCode::reduce_sum;
  }

  // Four columns that are no vector are taken as four vectors are.
  bool few_columns(NodeId n) const {
    const int64_t lanes = passes::kCascadeVector / byte_size(opmath(region_.nodes.at(n).dtype));
    const int64_t most = columns_.size.range(symbols_).hi;
    return most < passes::kCascadeWays * lanes &&
           !(most < lanes && columns_.size.is_const(passes::kCascadeWays));
  }

  // Over `steps` positions at most.
  std::vector<ValueId> accumulate(const Dim& steps) {
    const bool floats = std::any_of(reductions_.begin(), reductions_.end(),
                                    [&](NodeId n) { return sums_floats(n); });
    const bool alone =
        as_eager_ && !sequential_ && request_.parts.is_const(1) && reductions_.size() == 1;
    ways_ = alone && floats && few_columns(reductions_[0]) ? passes::kCascadeWays : 1;
    const int64_t most = steps.range(symbols_).hi / ways_;
    int outer = 0;
    int64_t reach = steps_of_accumulator_;
    while (floats && !sequential_ && outer + 1 < kLevels && most > reach) {
      reach *= steps_of_accumulator_;
      outer++;
    }
    const int64_t span = reach / steps_of_accumulator_;
    if (ways_ == 1) return level(outer, span, first_, last_);
    const IndexId groups = b_.div(last_, b_.cst(ways_));
    std::vector<ValueId> sums = level(outer, span, b_.cst(0), groups);
    const std::vector<ValueId> first = loop(b_.mul(groups, b_.cst(ways_)), last_, {sums[0]},
                                            [&](IndexId i, const std::vector<ValueId>& carried) {
                                              return combine(carried, position(i));
                                            });
    std::vector<ValueId> total = first;
    for (size_t way = 1; way < sums.size(); way++) total = combine(total, {sums[way]});
    return total;
  }

  // Sums steps [first, last): `outer` more loops inside, each of whose passes covers `span` steps.
  std::vector<ValueId> level(int outer, int64_t span, IndexId first, IndexId last) {
    const IndexId count = b_.add(last, b_.mul(first, b_.cst(-1)));
    if (outer == 0) {
      const int64_t together = ways_ == 1 ? kTogether : 1;
      const IndexId whole = b_.div(b_.max(count, b_.cst(0)), b_.cst(together));
      const std::vector<ValueId> sums =
          loop(b_.cst(0), whole, identities(), [&](IndexId k, const std::vector<ValueId>& carried) {
            return several(b_.add(first, b_.mul(k, b_.cst(together))), together, carried);
          });
      if (together == 1) return sums;
      return loop(
          b_.add(first, b_.mul(whole, b_.cst(together))), last, sums,
          [&](IndexId i, const std::vector<ValueId>& carried) { return several(i, 1, carried); });
    }
    const IndexId passes = b_.div(b_.add(count, b_.cst(span - 1)), b_.cst(span));
    return loop(b_.cst(0), passes, identities(),
                [&](IndexId pass, const std::vector<ValueId>& carried) {
                  const IndexId from = b_.add(first, b_.mul(pass, b_.cst(span)));
                  const IndexId to = b_.min(b_.add(from, b_.cst(span)), last);
                  return combine(carried, level(outer - 1, span / steps_of_accumulator_, from, to));
                });
  }

  // What follows has `ways_` values of each reduction, one way after the other.
  std::vector<ValueId> identities() {
    std::vector<ValueId> init;
    for (int64_t way = 0; way < ways_; way++)
      for (const NodeId n : reductions_) {
        const Node& node = region_.nodes.at(n);
        init.push_back(b_.constant(reduction_identity(node.op, node.dtype), {column_.axis}));
      }
    return init;
  }

  std::vector<ValueId> combine(const std::vector<ValueId>& a, std::vector<ValueId> b) {
    for (size_t i = 0; i < b.size(); i++) {
      const Node& node = region_.nodes.at(reductions_[i % reductions_.size()]);
      b[i] = b_.pointwise(combining_op(node.op), node.dtype, {a[i], b[i]});
    }
    return b;
  }

  using Body = std::function<std::vector<ValueId>(IndexId, const std::vector<ValueId>&)>;
  std::vector<ValueId> loop(IndexId lo, IndexId hi, std::vector<ValueId> init, const Body& body) {
    b_.begin_for(lo, hi, std::move(init));
    const std::vector<ValueId> carried = b_.for_carried();
    return b_.end_for(body(b_.scalar(b_.for_index()), carried));
  }

  Emitter at(IndexId i) {
    Emitter emit = emitter();
    bind_flat(b_, emit, region_, reduced_, i, 0);
    if (!checked_) emit_checks(b_, emit, region_.checks);
    return emit;
  }

  std::vector<ValueId> with_position(IndexId i, std::vector<ValueId> sums) {
    Emitter emit = at(i);
    for (size_t k = 0; k < sums.size(); k++) {
      const Node& node = region_.nodes.at(reductions_[k]);
      const Node& term = region_.nodes.at(node.args[0]);
      const bool fused = node.order == ir::ReduceOrder::sequential_fma;
      if (fused && (term.kind != NodeKind::Pointwise || term.op != ir::OpCode::mul))
        throw InternalError("generate: sequential_fma of what is no product");
      sums[k] = fused ? b_.pointwise(ir::OpCode::fma, node.dtype,
                                     {emit.full(term.args[0]), emit.full(term.args[1]), sums[k]})
                      : b_.pointwise(combining_op(node.op), node.dtype,
                                     {sums[k], emit.full(node.args[0])});
    }
    return sums;
  }

  std::vector<ValueId> position(IndexId i) {
    Emitter emit = at(i);
    std::vector<ValueId> out;
    for (const NodeId n : reductions_) out.push_back(emit.full(region_.nodes.at(n).args[0]));
    return out;
  }

  std::vector<ValueId> step(IndexId i) {
    std::vector<ValueId> out;
    for (int64_t way = 0; way < ways_; way++)
      for (const ValueId v : position(b_.add(b_.mul(i, b_.cst(ways_)), b_.cst(way))))
        out.push_back(v);
    return out;
  }

  // Steps from i on, added to what is carried.
  std::vector<ValueId> several(IndexId i, int64_t count, std::vector<ValueId> carried) {
    if (sequential_) {
      for (int64_t k = 0; k < count; k++) carried = with_position(b_.add(i, b_.cst(k)), carried);
      return carried;
    }
    std::vector<std::vector<ValueId>> parts;
    for (int64_t k = 0; k < count; k++) parts.push_back(step(b_.add(i, b_.cst(k))));
    if (!as_eager_)
      for (size_t left = parts.size(); left > 1; left = parts.size()) {
        for (size_t k = 0; k < left / 2; k++) parts[k] = combine(parts[2 * k], parts[2 * k + 1]);
        parts.resize(left / 2);
      }
    for (const std::vector<ValueId>& part : parts) carried = combine(carried, part);
    return carried;
  }

  const passes::KernelRequest& request_;
  const Region& region_;
  const SymbolTable& symbols_;
  tile::TileBuilder b_;
  Buffers buffers_;
  std::vector<std::vector<NodeId>> levels_;
  Flat reduced_, rows_, columns_;
  IndexId row_, first_, last_;
  BlockedAxis column_;
  std::vector<Result> wide_, narrow_;
  std::vector<NodeId> reductions_;  // of the level at hand
  std::vector<std::pair<NodeId, ValueId>> totals_;
  bool checked_ = false, as_eager_ = false, sequential_ = false;
  int64_t steps_of_accumulator_ = 1;
  int64_t ways_ = 1;  // accumulators of a reduction in its innermost loop
};

}  // namespace

bool runs_across(const Region& r) {
  const auto kept = r.vars_of(Role::Free), reduced = r.vars_of(Role::Reduced);
  if (kept.empty() || reduced.empty()) return false;
  int across = 0;
  for (uint32_t i = 0; i < r.nodes.size(); i++) {
    const Node& n = r.nodes.at(NodeId(i));
    if (n.kind != NodeKind::Load || !r.live[i]) continue;
    const bool varies = std::any_of(reduced.begin(), reduced.end(), [&](const IterVar& v) {
      return !n.index.factor(v.atom).is_const(0);
    });
    const Dim along_kept = n.index.factor(kept.back().atom);
    across += varies && along_kept.is_const(1);
    // What is the same for all columns is broadcast to them.
    across -= n.index.factor(reduced.back().atom).is_const(1) && !along_kept.is_const(0);
  }
  return across > 0;
}

tile::Program emit_across(const passes::KernelRequest& request, const Region& region,
                          const Target& target) {
  return AcrossKernel(request, region).run(target);
}

}  // namespace poot::codegen
