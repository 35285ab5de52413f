// Row kernels: rows x columns, where the columns are what the reductions cover.
//
// Resident: one tile axis holds the whole row, so a body with several phases reads as written:
//   v = load x [r, c];  m = reduce max v : [r, -];  e = exp(v - m);  s = reduce sum e;  store e / s
// and the lowering decides what to keep between phases and what to load again.
//
// Streaming, for rows that are long or not one stretch of columns: reductions are levelled by how
// many others they need; each level is a nest of loops over column chunks with carried partial
// results, and a last nest writes what has whole rows. Every loop of a nest starts from the
// reduction's identity and is added to the one around it, so a long sum cascades: no accumulator
// takes more than about kChunk / lanes + kGroup + (chunks / kGroup) steps. On a CPU sums in an
// order of eager's (ir/reduce_order.def) take a whole stretch of columns as one chunk.
#include <algorithm>
#include <functional>

#include "codegen/generate/generators.h"
#include "codegen/generate/reduction.h"
#include "codegen/generate/spread.h"
#include "codegen/lower/gpu_threads.h"
#include "support/errors.h"

namespace poot::codegen {
namespace {

using tile::AxisId;
using tile::IndexId;
using tile::ValueId;

constexpr int64_t kResident = 65536;   // elements of a constant row that is not streamed
constexpr int64_t kLongest = 1 << 30;  // capacity of a row of unbounded length
constexpr int64_t kChunk = 4096;       // columns of a streamed chunk
constexpr int64_t kGroup = 64;         // chunks whose partial results are added first

class RowKernel {
 public:
  RowKernel(const passes::KernelRequest& request, const Region& region)
      : request_(request),
        region_(region),
        symbols_(request.body->symbols()),
        b_(request.name, symbols_),
        buffers_(declare_buffers(b_, request)),
        rows_(flatten(region, region.vars_of(Role::Free))) {}

  void whole_chunks() { chunk_size_ = kLongest; }
  void bypass_cache(bool yes) { b_.program().schedule.nontemporal = yes; }

  tile::Program resident(const Flat& columns, int64_t capacity, const Target& target) {
    int64_t height = row_capacity(rows_.size, columns.size, capacity, symbols_);
    if (target.isa == Isa::Ptx) {
      const int64_t most = std::max<int64_t>(rows_.size.range(symbols_).hi, 1);
      const uint32_t vector = gpu_vector(narrowest_element(request_));
      const int64_t together = gpu_row_alone(capacity, vector) ? 1 : most;
      const GpuThreads threads = gpu_threads(together, capacity, vector, 1);
      height = std::min<int64_t>(threads.rows, most);
    }
    begin_rows(height, target);
    const AxisId c = b_.axis("c", capacity, b_.dim(columns.size));
    Emitter emit = emitter(c);
    bind_flat(b_, emit, region_, columns, b_.coord(c), 1u << axes_.size());
    emit.reduce_over(static_cast<int>(axes_.size()));
    emit_checks(b_, emit, region_.checks);
    for (const Result& r : region_.results) emit_result(b_, emit, r, buffers_.outputs[r.output]);
    b_.program().block_elems = height * std::max<int64_t>(columns.size.hint(symbols_), 1);
    return b_.finish();
  }

  tile::Program streaming() {
    std::vector<IterVar> reduced = region_.vars_of(Role::Reduced);
    chunked_ = flatten(region_, {reduced.back()});
    reduced.pop_back();
    outer_ = flatten(region_, reduced);
    row_ = b_.cst(0);
    if (!rows_.size.is_const(1)) {
      b_.grid(0, rows_.size);
      row_ = b_.scalar(b_.block_id(0));
    }
    b_.program().schedule.streaming_rows = true;
    b_.program().block_elems = std::max<int64_t>((chunked_.size * outer_.size).hint(symbols_), 1);
    for (const auto& level : reduction_levels(region_)) reduce_level(level);
    write_results();
    return b_.finish();
  }

 private:
  void begin_rows(int64_t height, const Target& target) {
    if (rows_.size.is_const(1)) return;
    const BlockedAxis r = blocked_rows(b_, symbols_, target, rows_.size, height, 0);
    if (r.axis) axes_.push_back(r.axis);
    row_ = r.index;
  }

  // An emitter for tiles [r, column], or [column] if a block has one row.
  Emitter emitter(AxisId column) {
    std::vector<AxisId> axes = axes_;
    axes.push_back(column);
    Emitter emit(b_, region_, axes, buffers_.inputs);
    bind_flat(b_, emit, region_, rows_, row_, axes_.empty() ? 0 : 1);
    for (const auto& [node, value] : totals_) emit.set(node, value);
    return emit;
  }

  // Runs `leaf` in the innermost of the loops over outer reduced variables and column chunks, with
  // partial results of `reductions` (empty: none) carried through each.
  std::vector<ValueId> nest(const std::vector<NodeId>& reductions,
                            const std::function<std::vector<ValueId>(Emitter&)>& leaf) {
    if (outer_.size.is_const(1)) return chunk_groups(reductions, b_.cst(0), leaf);
    return loop(reductions, b_.cst(0), b_.dim(outer_.size),
                [&](IndexId o) { return chunk_groups(reductions, o, leaf); });
  }

  using Leaf = std::function<std::vector<ValueId>(Emitter&)>;
  std::vector<ValueId> chunk_groups(const std::vector<NodeId>& reductions, IndexId outer,
                                    const Leaf& leaf) {
    const Dim chunks = Dim::ceildiv(chunked_.size, chunk_size_);
    if (chunks.is_const(1) || chunks.is_const(0)) return chunk(outer, b_.cst(0), leaf);
    const auto one = [&](IndexId k) { return chunk(outer, k, leaf); };
    const IndexId all = b_.dim(chunks);
    if (reductions.empty() || chunks.range(symbols_).hi <= kGroup)
      return loop(reductions, b_.cst(0), all, one);
    return loop(reductions, b_.cst(0), b_.dim(Dim::ceildiv(chunks, kGroup)), [&](IndexId g) {
      const IndexId first = b_.mul(g, b_.cst(kGroup));
      return loop(reductions, first, b_.min(b_.add(first, b_.cst(kGroup)), all), one);
    });
  }

  std::vector<ValueId> loop(const std::vector<NodeId>& reductions, IndexId lo, IndexId hi,
                            const std::function<std::vector<ValueId>(IndexId)>& body) {
    std::vector<ValueId> init;
    std::vector<AxisId> axes = axes_;
    axes.push_back(AxisId());
    for (const NodeId n : reductions)
      init.push_back(
          b_.constant(reduction_identity(region_.nodes.at(n).op, region_.nodes.at(n).dtype), axes));
    b_.begin_for(lo, hi, std::move(init));
    const std::vector<ValueId> carried = b_.for_carried();
    std::vector<ValueId> partial = body(b_.scalar(b_.for_index()));
    for (size_t i = 0; i < carried.size(); i++) {
      const Node& n = region_.nodes.at(reductions[i]);
      partial[i] = b_.pointwise(combining_op(n.op), n.dtype, {carried[i], partial[i]});
    }
    return b_.end_for(std::move(partial));
  }

  std::vector<ValueId> chunk(IndexId outer, IndexId k, const Leaf& leaf) {
    const IndexId first = b_.mul(k, b_.cst(chunk_size_)), size = b_.dim(chunked_.size);
    const IndexId left = b_.add(size, b_.mul(first, b_.cst(-1)));
    const AxisId c = b_.axis("c" + std::to_string(chunks_++),
                             std::clamp<int64_t>(chunked_.size.range(symbols_).hi, 1, chunk_size_),
                             b_.min(b_.cst(chunk_size_), left));
    Emitter emit = emitter(c);
    bind_flat(b_, emit, region_, chunked_, b_.add(first, b_.coord(c)), 1u << axes_.size());
    bind_flat(b_, emit, region_, outer_, outer, 0);
    return leaf(emit);
  }

  void reduce_level(const std::vector<NodeId>& level) {
    const std::vector<ValueId> totals = nest(level, [&](Emitter& emit) {
      std::vector<ValueId> partial;
      for (const NodeId n : level) {
        const Node& node = region_.nodes.at(n);
        partial.push_back(b_.reduce(node.op, emit.full(node.args[0]),
                                    static_cast<uint32_t>(axes_.size()), node.order));
      }
      return partial;
    });
    for (size_t i = 0; i < level.size(); i++) totals_.emplace_back(level[i], totals[i]);
  }

  // Results and checks of whole rows in a last nest; what has one element a row once, after it.
  void write_results() {
    std::vector<Result> wide, narrow;
    std::vector<Check> wide_checks, narrow_checks;
    const auto columns = [&](const std::function<uint32_t(Emitter&)>& depends) {
      Emitter probe = emitter(AxisId());
      const uint32_t bit = 1u << axes_.size();
      for (const IterVar& v : region_.vars_of(Role::Reduced)) probe.bind(v.atom, {b_.cst(0), bit});
      return (depends(probe) & bit) != 0;
    };
    for (const Result& r : region_.results) {
      const bool is_wide = columns([&](Emitter& e) { return e.depends(r.index); });
      (is_wide ? wide : narrow).push_back(r);
    }
    for (const Check& c : region_.checks) {
      const bool is_wide = columns([&](Emitter& e) { return e.depends(c.condition); });
      (is_wide ? wide_checks : narrow_checks).push_back(c);
    }
    if (!wide.empty() || !wide_checks.empty())
      nest({}, [&](Emitter& emit) {
        emit_all(emit, wide, wide_checks);
        return std::vector<ValueId>();
      });
    Emitter emit = emitter(AxisId());
    emit_all(emit, narrow, narrow_checks);
  }
  void emit_all(Emitter& emit, const std::vector<Result>& results,
                const std::vector<Check>& checks) {
    emit_checks(b_, emit, checks);
    for (const Result& r : results) emit_result(b_, emit, r, buffers_.outputs[r.output]);
  }

  const passes::KernelRequest& request_;
  const Region& region_;
  const SymbolTable& symbols_;
  tile::TileBuilder b_;
  Buffers buffers_;
  Flat rows_, chunked_, outer_;
  std::vector<AxisId> axes_;  // r, or none if a block has one row
  IndexId row_;
  std::vector<std::pair<NodeId, ValueId>> totals_;
  int64_t chunk_size_ = kChunk;
  int chunks_ = 0;
};

}  // namespace

tile::Program emit_rows(const passes::KernelRequest& request, const Region& region,
                        const Target& target, int64_t resident_limit) {
  const std::vector<IterVar> reduced = region.vars_of(Role::Reduced);
  RowKernel kernel(request, region);
  kernel.bypass_cache(bypasses_cache(request, target));
  if (target.isa == Isa::X86 && adds_in_order(region)) {
    kernel.whole_chunks();
    resident_limit = INT64_MAX;
  }
  const Flat columns = flatten(region, reduced);
  const int64_t most = columns.size.range(request.body->symbols()).hi;
  if (has_moments(region) && target.isa != Isa::X86)
    throw Unsupported(request.name, "moments by Welford's recurrence on a GPU");
  if (has_moments(region))
    return kernel.resident(columns, std::clamp<int64_t>(most, 1, kLongest), target);
  if (reduced.size() > 1) return kernel.streaming();
  // The threads of a GPU's block stream a row of any length.
  if (most > resident_limit && target.isa == Isa::X86) return kernel.streaming();
  return kernel.resident(columns, std::clamp<int64_t>(most, 1, kLongest), target);
}

tile::Program generate_row(const passes::KernelRequest& request, const Target& target) {
  const auto shape = reduction_shape(*request.body);
  if (!shape) return generate_elementwise(request, target);
  if (!shape->trailing) throw Unsupported(request.name, "row reductions over leading axes");
  const Region region = reduction_region(request, *shape, true);
  if (target.isa == Isa::X86 && runs_across(region) && !has_moments(region)) {
    if (auto program = emit_turned_rows(request, region, target)) return std::move(*program);
    return emit_across(request, region, target);
  }
  const bool constant = numel(shape->reduced).is_const();
  return emit_rows(request, region, target, constant ? kResident : INT64_MAX);
}

}  // namespace poot::codegen
