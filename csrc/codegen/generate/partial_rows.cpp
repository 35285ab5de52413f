// Reductions of few rows, in parts: the reduced positions are cut into runs of at most kChunk
// columns, a block reduces a stretch of runs to one value a reduction, and stores it after those of
// the blocks before:
//
//   for g in groups of the part carry(0) { s = for u in g .. g + kGroup carry(0) {
//       yield s' + reduce sum x [c]  (c: the columns of run u) };  yield total + s }
//
// Two levels keep a long part's sum a cascade.
#include <algorithm>
#include <functional>

#include "codegen/generate/reduction.h"
#include "codegen/generate/spread.h"

namespace poot::codegen {
namespace {

using tile::AxisId;
using tile::IndexId;
using tile::ValueId;

constexpr int64_t kChunk = 4096;
constexpr int64_t kGpuChunk = 65536;  // the threads of a block meet once in each
constexpr int64_t kGroup = 64;

class PartialRows {
 public:
  PartialRows(const passes::KernelRequest& request, const Region& region, const Target& target)
      : request_(request),
        region_(region),
        symbols_(request.body->symbols()),
        b_(request.name, symbols_),
        buffers_(declare_buffers(b_, request)),
        rows_(flatten(region, region.vars_of(Role::Free))),
        chunk_(target.isa == Isa::Ptx ? kGpuChunk : kChunk) {
    std::vector<IterVar> reduced = region.vars_of(Role::Reduced);
    columns_ = flatten(region, {reduced.back()});
    reduced.pop_back();
    outer_ = flatten(region, reduced);
    for (uint32_t i = 0; i < region.nodes.size(); i++)
      if (region.live[i] && region.nodes.at(NodeId(i)).kind == NodeKind::Reduce)
        reductions_.push_back(NodeId(i));
  }

  tile::Program run() {
    const Dim chunks = Dim::max(Dim::ceildiv(columns_.size, chunk_), 1);
    chunks_ = b_.dim(chunks);
    const Dim runs = outer_.size * chunks, own = Dim::ceildiv(runs, request_.parts);
    b_.grid(0, request_.parts);
    const IndexId part = b_.scalar(b_.block_id(0));
    row_ = b_.cst(0);
    if (!rows_.size.is_const(1)) {
      b_.grid(1, rows_.size);
      row_ = b_.scalar(b_.block_id(1));
    }
    const IndexId first = b_.mul(part, b_.dim(own));
    const IndexId last = b_.min(b_.add(first, b_.dim(own)), b_.dim(runs));
    const auto one = [&](IndexId u) { return reduce_run(u); };
    const IndexId count = b_.add(last, b_.mul(first, b_.cst(-1)));
    const std::vector<ValueId> totals =
        own.range(symbols_).hi <= kGroup
            ? loop(first, last, one)
            : loop(b_.cst(0), b_.div(b_.add(count, b_.cst(kGroup - 1)), b_.cst(kGroup)),
                   [&](IndexId g) {
                     const IndexId from = b_.add(first, b_.mul(g, b_.cst(kGroup)));
                     return loop(from, b_.min(b_.add(from, b_.cst(kGroup)), last), one);
                   });
    Emitter emit(b_, region_, {AxisId()}, buffers_.inputs);
    bind_flat(b_, emit, region_, rows_, row_, 0);
    for (size_t i = 0; i < totals.size(); i++) emit.set(reductions_[i], totals[i]);
    const IndexId results = b_.mul(part, b_.dim(rows_.size));
    for (const Result& r : region_.results)
      emit_result(b_, emit, r, buffers_.outputs[r.output], results);
    const int64_t width = std::min<int64_t>(columns_.size.hint(symbols_), chunk_);
    b_.program().block_elems = std::max<int64_t>(own.hint(symbols_) * width, 1);
    b_.program().schedule.streaming_rows = true;
    return b_.finish();
  }

 private:
  std::vector<ValueId> loop(IndexId lo, IndexId hi,
                            const std::function<std::vector<ValueId>(IndexId)>& body) {
    std::vector<ValueId> init;
    for (const NodeId n : reductions_) {
      const Node& node = region_.nodes.at(n);
      init.push_back(b_.constant(reduction_identity(node.op, node.dtype), {AxisId()}));
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

  std::vector<ValueId> reduce_run(IndexId u) {
    const IndexId chunk = b_.mod(u, chunks_), outer = b_.div(u, chunks_);
    const IndexId first = b_.mul(chunk, b_.cst(chunk_)), size = b_.dim(columns_.size);
    const IndexId left = b_.add(size, b_.mul(first, b_.cst(-1)));
    const AxisId c = b_.axis("c", std::clamp<int64_t>(columns_.size.range(symbols_).hi, 1, chunk_),
                             b_.min(b_.cst(chunk_), left));
    Emitter emit(b_, region_, {c}, buffers_.inputs);
    bind_flat(b_, emit, region_, rows_, row_, 0);
    bind_flat(b_, emit, region_, outer_, outer, 0);
    bind_flat(b_, emit, region_, columns_, b_.add(first, b_.coord(c)), 1);
    emit_checks(b_, emit, region_.checks);
    std::vector<ValueId> out;
    for (const NodeId n : reductions_) {
      const Node& node = region_.nodes.at(n);
      out.push_back(b_.reduce(node.op, emit.full(node.args[0]), 0));
    }
    return out;
  }

  const passes::KernelRequest& request_;
  const Region& region_;
  const SymbolTable& symbols_;
  tile::TileBuilder b_;
  Buffers buffers_;
  Flat rows_, columns_, outer_;
  const int64_t chunk_;
  IndexId row_, chunks_;
  std::vector<NodeId> reductions_;
};

}  // namespace

tile::Program emit_partial_rows(const passes::KernelRequest& request, const Region& region,
                                const Target& target) {
  return PartialRows(request, region, target).run();
}

}  // namespace poot::codegen
