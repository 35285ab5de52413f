// Reductions over any axes of a pointwise region.
//
// Along: if memory runs along a reduced dim (or nothing is kept), columns are the innermost reduced
// variable, as in row kernels.
// Across: if memory runs along a kept dim, columns are that dim and the reduced positions are a
// loop that carries one accumulator an element:
//   acc [c] = for i in 0..n carry(0) { yield acc + load x [i, c] }
// Long floating-point sums are nested loops of a few steps each, every one starting from 0, so that
// their error is that of a cascade and not of n steps: with 32 steps and up to four levels it stays
// within that of ATen's own cascade.
//
// Where a request asks for parts, a block walks one part of the reduced positions.
#include <algorithm>
#include <functional>

#include "codegen/generate/generators.h"
#include "codegen/generate/reduction.h"
#include "codegen/generate/spread.h"

namespace poot::codegen {
namespace {

using tile::IndexId;
using tile::ValueId;

constexpr int64_t kResident = 4096;      // a longer reduced axis is reduced by chunks
constexpr int64_t kSteps = 32;           // of one accumulator before it is added to an outer one
constexpr int kLevels = 4;               // nested accumulators at most
constexpr int64_t kAcrossColumns = 512;  // accumulators of a block at most: they stay in L1
constexpr int64_t kNarrowest = 64;       // columns of a block at least: whole cache lines
constexpr int64_t kBlocksPerCore = 4;

// Columns of a block: narrow enough that every core gets some. How columns are divided does not
// change any sum.
int64_t across_columns(const Dim& rows, const Dim& columns, const SymbolTable& symbols,
                       const Target& target) {
  const int64_t wanted = kBlocksPerCore * target.cores;
  const int64_t bands = std::max<int64_t>(1, wanted / std::max<int64_t>(rows.hint(symbols), 1));
  const int64_t width = (columns.hint(symbols) / bands + 63) / 64 * 64;
  return column_capacity(columns, symbols, std::clamp(width, kNarrowest, kAcrossColumns));
}

// Whether more loads are contiguous along the innermost kept variable than along the reduced one.
bool runs_across(const Region& r) {
  const auto kept = r.vars_of(Role::Free), reduced = r.vars_of(Role::Reduced);
  if (kept.empty()) return false;
  int across = 0;
  for (uint32_t i = 0; i < r.nodes.size(); i++) {
    const Node& n = r.nodes.at(NodeId(i));
    if (n.kind != NodeKind::Load || !r.live[i]) continue;
    across += n.index.factor(kept.back().atom).is_const(1);
    across -= n.index.factor(reduced.back().atom).is_const(1);
  }
  return across > 0;
}

class AcrossKernel {
 public:
  AcrossKernel(const passes::KernelRequest& request, const Region& region)
      : request_(request),
        region_(region),
        symbols_(request.body->symbols()),
        b_(request.name, symbols_),
        buffers_(declare_buffers(b_, request)),
        reduced_(flatten(region, region.vars_of(Role::Reduced))) {
    for (uint32_t i = 0; i < region.nodes.size(); i++)
      if (region.live[i] && region.nodes.at(NodeId(i)).kind == NodeKind::Reduce)
        reductions_.push_back(NodeId(i));
  }

  tile::Program run(const Target& target) {
    std::vector<IterVar> kept = region_.vars_of(Role::Free);
    const Flat columns = flatten(region_, {kept.back()});
    kept.pop_back();
    rows_ = flatten(region_, kept);
    const int64_t width = across_columns(rows_.size, columns.size, symbols_, target);
    row_ = b_.cst(0);
    if (!rows_.size.is_const(1)) {
      b_.grid(1, rows_.size);
      row_ = b_.scalar(b_.block_id(1));
    }
    column_ = blocked_axis(b_, symbols_, "c", columns.size, width, 0);
    columns_ = columns;
    // Of a part: its results lie after those of the parts before it.
    const Dim steps = Dim::ceildiv(reduced_.size, request_.parts);
    IndexId first = b_.cst(0), last = b_.dim(reduced_.size), results;
    if (!request_.parts.is_const(1)) {
      b_.grid(2, request_.parts);
      const IndexId part = b_.scalar(b_.block_id(2));
      first = b_.mul(part, b_.dim(steps));
      last = b_.min(b_.add(first, b_.dim(steps)), last);
      results = b_.mul(part, b_.dim(rows_.size * columns_.size));
    }
    const std::vector<ValueId> totals = accumulate(first, last, steps);
    Emitter emit = emitter();
    for (size_t i = 0; i < totals.size(); i++) emit.set(reductions_[i], totals[i]);
    for (const Result& r : region_.results)
      emit_result(b_, emit, r, buffers_.outputs[r.output], results);
    b_.program().block_elems = width * std::max<int64_t>(steps.hint(symbols_), 1);
    return b_.finish();
  }

 private:
  Emitter emitter() {
    Emitter emit(b_, region_, {column_.axis}, buffers_.inputs);
    bind_flat(b_, emit, region_, rows_, row_, 0);
    bind_flat(b_, emit, region_, columns_, column_.index, 1);
    return emit;
  }

  // Over `steps` positions at most.
  std::vector<ValueId> accumulate(IndexId first, IndexId last, const Dim& steps) {
    const int64_t most = steps.range(symbols_).hi;
    const bool cascade =
        most > kSteps && std::any_of(reductions_.begin(), reductions_.end(), [&](NodeId n) {
          const Node& node = region_.nodes.at(n);
          return is_float(node.dtype) && node.op == ir::OpCode::reduce_sum;
        });
    int outer = 0;
    int64_t reach = kSteps;
    while (cascade && outer + 1 < kLevels && most > reach) {
      reach *= kSteps;
      outer++;
    }
    return level(outer, reach / kSteps, first, last);
  }

  // Sums [first, last): `outer` more loops inside, each of whose passes covers `span` positions.
  std::vector<ValueId> level(int outer, int64_t span, IndexId first, IndexId last) {
    if (outer == 0) return loop(first, last, [&](IndexId i) { return step(i); });
    const IndexId count = b_.add(last, b_.mul(first, b_.cst(-1)));
    const IndexId passes = b_.div(b_.add(count, b_.cst(span - 1)), b_.cst(span));
    return loop(b_.cst(0), passes, [&](IndexId pass) {
      const IndexId from = b_.add(first, b_.mul(pass, b_.cst(span)));
      const IndexId to = b_.min(b_.add(from, b_.cst(span)), last);
      return level(outer - 1, span / kSteps, from, to);
    });
  }

  std::vector<ValueId> loop(IndexId lo, IndexId hi,
                            const std::function<std::vector<ValueId>(IndexId)>& body) {
    std::vector<ValueId> init;
    for (const NodeId n : reductions_) {
      const Node& node = region_.nodes.at(n);
      init.push_back(b_.constant(reduction_identity(node.op, node.dtype), {column_.axis}));
    }
    b_.begin_for(lo, hi, std::move(init));
    const std::vector<ValueId> carried = b_.for_carried();
    std::vector<ValueId> next = body(b_.scalar(b_.for_index()));
    for (size_t i = 0; i < next.size(); i++) {
      const Node& node = region_.nodes.at(reductions_[i]);
      next[i] = b_.pointwise(combining_op(node.op), node.dtype, {carried[i], next[i]});
    }
    return b_.end_for(std::move(next));
  }

  std::vector<ValueId> step(IndexId i) {
    Emitter emit = emitter();
    bind_flat(b_, emit, region_, reduced_, i, 0);
    emit_checks(b_, emit, region_.checks);
    std::vector<ValueId> out;
    for (const NodeId n : reductions_) out.push_back(emit.full(region_.nodes.at(n).args[0]));
    return out;
  }

  const passes::KernelRequest& request_;
  const Region& region_;
  const SymbolTable& symbols_;
  tile::TileBuilder b_;
  Buffers buffers_;
  Flat reduced_, rows_, columns_;
  IndexId row_;
  BlockedAxis column_;
  std::vector<NodeId> reductions_;
};

bool one_level(const Region& r) {
  std::vector<bool> over(r.nodes.size());
  for (uint32_t i = 0; i < r.nodes.size(); i++) {
    const Node& n = r.nodes.at(NodeId(i));
    for (const NodeId a : n.args) {
      if (over[a.index] && n.kind == NodeKind::Reduce) return false;
      over[i] = over[i] || over[a.index];
    }
    over[i] = over[i] || n.kind == NodeKind::Reduce;
  }
  return true;
}

}  // namespace

tile::Program generate_reduce(const passes::KernelRequest& request, const Target& target) {
  const auto shape = reduction_shape(*request.body);
  if (!shape) return generate_elementwise(request, target);
  const Region region = reduction_region(request, *shape, false);
  // A GPU's threads have no arrays for the accumulators of several columns.
  if (target.isa == Isa::X86 && one_level(region) && runs_across(region))
    return AcrossKernel(request, region).run(target);
  if (!request.parts.is_const(1)) return emit_partial_rows(request, region);
  return emit_rows(request, region, target, kResident);
}

}  // namespace poot::codegen
