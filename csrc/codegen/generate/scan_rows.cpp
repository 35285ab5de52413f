// Scans whose axis a GPU's threads share out: a block scans the positions of a row in chunks that
// its threads keep in registers, and carries what they fold to. Short rows are several a block.
//
//   for u in chunks carry(acc = 0) { x [c]; y [c], acc' = scan (acc, x); store y [c]; yield acc' }
//
// With parts a block has one part of a row, and starts from the scan of the totals before it.
#include <algorithm>
#include <bit>

#include "codegen/generate/scan.h"
#include "codegen/lower/gpu_threads.h"

namespace poot::codegen {
namespace {

using tile::AxisId;
using tile::IndexId;
using tile::ValueId;
using Values = ScanFunction::Values;

constexpr int64_t kChunk = 8192;       // positions of a block at a time, of four bytes
constexpr int64_t kLogChunk = 2048;    // the same where each fold is many instructions
constexpr int64_t kShortChunk = 256;   // the same at least, where the length is not known
constexpr int64_t kMostTotals = 4096;  // that a block scans at a time

class ScanRows {
 public:
  ScanRows(const passes::KernelRequest& request, const Region& region, const Target& target)
      : request_(request),
        region_(region),
        target_(target),
        symbols_(request.body->symbols()),
        b_(request.name, symbols_),
        function_(b_, *request.body, target.isa),
        buffers_(declare_scan_buffers(b_, request, target.isa)),
        rows_(flatten(region, region.vars_of(Role::Free))),
        positions_(flatten(region, region.vars_of(Role::Reduced))) {}

  tile::Program run() {
    choose_chunk();
    spread_rows();
    const bool parts = !request_.parts.is_const(1);
    Values acc = function_.identities(axes({}));
    if (parts) {
      b_.grid(1, request_.parts);
      part_ = b_.scalar(b_.block_id(1));
      if (stores()) acc = scan_totals(std::move(acc));
    }
    const Dim chunks = Dim::ceildiv(positions_.size, chunk_);
    if (!parts && positions_.size.range(symbols_).hi <= chunk_) {
      scan_chunk(b_.cst(0), acc);
    } else {
      IndexId first = b_.cst(0), last = b_.dim(chunks);
      if (parts) {
        const IndexId own = b_.dim(Dim::ceildiv(chunks, request_.parts));
        first = b_.mul(part_, own);
        last = b_.min(b_.add(first, own), last);
      }
      b_.begin_for(first, last, std::move(acc));
      acc = b_.end_for(scan_chunk(b_.scalar(b_.for_index()), b_.for_carried()));
    }
    if (!stores())
      for (size_t i = 0; i < acc.size(); i++) b_.store(buffers_.totals[i], total_at(part_), acc[i]);
    b_.program().block_elems = height_ * std::max<int64_t>(positions_.size.hint(symbols_), 1);
    return b_.finish();
  }

 private:
  bool stores() const { return request_.kind == passes::RequestKind::Scan; }

  // Of a block's tiles; `column`: none for what a row has once.
  std::vector<AxisId> axes(AxisId column) const {
    return row_axis_ ? std::vector{row_axis_, column} : std::vector{column};
  }

  void choose_chunk() {
    // Registers bound what a thread keeps.
    const ir::Eqn& eqn = request_.body->eqns()[0];
    const int64_t words =
        std::max<int64_t>(byte_size(request_.body->type(eqn.outs[0]).dtype) / 4, 1) *
        static_cast<int64_t>(eqn.outs.size());
    const int64_t limit = eqn.op == ir::OpCode::scan_logaddexp ? kLogChunk : kChunk / words;
    const int64_t most = positions_.size.range(symbols_).hi;
    const int64_t usual = positions_.size.hint(symbols_);
    chunk_ = most <= limit
                 ? std::max<int64_t>(most, 1)
                 : std::clamp(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(usual))),
                              kShortChunk, limit);
    const uint32_t vector = gpu_vector(narrowest_element(request_));
    const int64_t rows = std::max<int64_t>(rows_.size.range(symbols_).hi, 1);
    const bool alone = gpu_row_alone(chunk_, vector) || !request_.parts.is_const(1);
    height_ = std::min<int64_t>(gpu_threads(alone ? 1 : rows, chunk_, vector, 1).rows, rows);
  }

  void spread_rows() {
    row_ = b_.cst(0);
    if (rows_.size.is_const(1)) return;
    const BlockedAxis r = blocked_rows(b_, symbols_, target_, rows_.size, height_, 0);
    row_axis_ = r.axis;
    row_ = r.index;
  }

  // An axis over size - first, capacity at most.
  AxisId column(const char* name, int64_t capacity, IndexId size, IndexId first) {
    const IndexId left = b_.add(size, b_.mul(first, b_.cst(-1)));
    return b_.axis(name, capacity, b_.min(b_.cst(capacity), left));
  }

  tile::TileBuilder::Scanned scan(const Values& starts, const Values& elements, AxisId c) {
    Values full;
    for (const ValueId v : elements) full.push_back(b_.broadcast(v, axes(c)));
    return b_.scan(
        function_.identities(), starts, full, row_axis_ ? 1 : 0,
        [&](const Values& before, const Values& next) { return function_.fold(before, next); });
  }

  Values scan_chunk(IndexId u, const Values& starts) {
    const IndexId first = b_.mul(u, b_.cst(chunk_));
    const AxisId c = column("c", chunk_, b_.dim(positions_.size), first);
    const IndexId position = b_.add(first, b_.coord(c));
    Emitter emit(b_, region_, axes(c), buffers_.inputs);
    const uint32_t row_bit = row_axis_ ? 1 : 0;
    bind_flat(b_, emit, region_, rows_, row_, row_bit);
    bind_flat(b_, emit, region_, positions_, position, 1u << row_bit);
    emit_checks(b_, emit, region_.checks, row_bit);
    ValueId place;
    if (function_.tells_places())
      place = b_.index_tile(position, DType::I64,
                            row_axis_ ? std::vector{AxisId(), c} : std::vector{c});
    const auto scanned =
        scan(starts, function_.elements(emit.full(region_.results[0].value), place), c);
    if (stores()) {
      const Values results = function_.results(scanned.running);
      for (size_t i = 0; i < results.size(); i++)
        b_.store(buffers_.outputs[i], emit.index(region_.results[i].index), results[i]);
    }
    return scanned.ends;
  }

  IndexId total_at(IndexId part) { return b_.add(b_.mul(part, b_.dim(rows_.size)), row_); }

  Values scan_totals(Values acc) {
    const auto some = [&](IndexId first, const Values& starts) {
      const AxisId p = column("p", capacity_of_totals(), part_, first);
      Values totals;
      for (const tile::BufferId t : buffers_.totals)
        totals.push_back(b_.load(t, total_at(b_.add(first, b_.coord(p))), axes(p)));
      return scan(starts, totals, p).ends;
    };
    if (request_.parts.range(symbols_).hi <= kMostTotals) return some(b_.cst(0), acc);
    const IndexId groups = b_.div(b_.add(part_, b_.cst(kMostTotals - 1)), b_.cst(kMostTotals));
    b_.begin_for(b_.cst(0), groups, std::move(acc));
    return b_.end_for(
        some(b_.mul(b_.scalar(b_.for_index()), b_.cst(kMostTotals)), b_.for_carried()));
  }
  int64_t capacity_of_totals() const {
    return std::clamp<int64_t>(request_.parts.range(symbols_).hi, 1, kMostTotals);
  }

  const passes::KernelRequest& request_;
  const Region& region_;
  const Target& target_;
  const SymbolTable& symbols_;
  tile::TileBuilder b_;
  ScanFunction function_;
  ScanBuffers buffers_;
  Flat rows_, positions_;
  int64_t chunk_ = 1, height_ = 1;
  AxisId row_axis_;
  IndexId row_, part_;
};

}  // namespace

tile::Program emit_scan_rows(const passes::KernelRequest& request, const Region& region,
                             const Target& target) {
  return ScanRows(request, region, target).run();
}

}  // namespace poot::codegen
