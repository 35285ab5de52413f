// Scans. Where memory runs along another axis, and on a CPU, the positions are a loop that carries
// one accumulator for each column; lanes can then only be other rows,
//
//   for i in 0..n carry(acc = 0) { acc' = acc + x [c]; store y [c] acc'; yield acc' }
//
// and where memory runs along the axis, a CPU's block takes a few rows as scalars side by side, so
// that their chains of additions overlap (as lanes, which lie apart, where a step is
// transcendental). A GPU's threads then share out the axis itself: see scan_rows.cpp.
//
// With parts a block starts from what the parts before its own fold to, which it folds anew.
#include "codegen/generate/scan.h"

#include <algorithm>
#include <cstdlib>

#include "codegen/generate/generators.h"
#include "codegen/lower/gpu_threads.h"
#include "support/errors.h"

namespace poot::codegen {
namespace {

using ir::OpCode;
using tile::IndexId;
using tile::ValueId;
using Values = ScanFunction::Values;

constexpr int64_t kWidest = 256;     // accumulators of a block, side by side in memory
constexpr int64_t kApart = 16;       // accumulators of a block that lie apart
constexpr int64_t kTogether = 4;     // the same as scalars
constexpr int64_t kGpuWidest = 128;  // columns of a GPU's block
constexpr int64_t kFewColumns = 32;  // side by side: a warp does not fill its accesses

class ScanColumns {
 public:
  ScanColumns(const passes::KernelRequest& request, const Region& region, Isa isa)
      : request_(request),
        region_(region),
        symbols_(request.body->symbols()),
        gpu_(isa == Isa::Ptx),
        b_(request.name, symbols_),
        function_(b_, *request.body, isa),
        buffers_(declare_scan_buffers(b_, request, isa)),
        positions_(flatten(region, region.vars_of(Role::Reduced))) {}

  tile::Program run() {
    spread();
    Values acc;
    for (int64_t k = 0; k < together_; k++)
      for (const ValueId v : function_.identities({column_.axis})) acc.push_back(v);
    IndexId first = b_.cst(0), last = b_.dim(positions_.size);
    if (!request_.parts.is_const(1)) {
      const Dim own = Dim::ceildiv(positions_.size, request_.parts);
      b_.grid(2, request_.parts);
      part_ = b_.scalar(b_.block_id(2));
      first = b_.min(b_.mul(part_, b_.dim(own)), last);
      last = b_.min(b_.add(first, b_.dim(own)), last);
    }
    if (part_ && stores()) acc = fold_totals(std::move(acc));
    acc = fold_positions(first, last, std::move(acc));
    if (!stores())
      for (size_t i = 0; i < acc.size(); i++) b_.store(buffers_.totals[i], total_at(part_), acc[i]);
    b_.program().block_elems =
        width_ * together_ * std::max<int64_t>(positions_.size.hint(symbols_), 1);
    return b_.finish();
  }

 private:
  bool stores() const { return request_.kind == passes::RequestKind::Scan; }

  // Rows and columns over the grid.
  void spread() {
    std::vector<IterVar> kept = region_.vars_of(Role::Free);
    const bool beside =
        !kept.empty() && region_.results[0].index.factor(kept.back().atom).is_const(1);
    const bool lanes =
        !kept.empty() && (gpu_ || beside || request_.body->eqns()[0].op == OpCode::scan_logaddexp);
    if (lanes) {
      columns_ = flatten(region_, {kept.back()});
      const int64_t most = gpu_ ? kGpuWidest : beside ? kWidest : kApart;
      width_ = column_capacity(columns_.size, symbols_, most);
      kept.pop_back();
    }
    rows_ = flatten(region_, kept);
    column_.index = b_.cst(0);
    // A GPU's grid is long along its first axis only.
    const uint32_t row_grid = gpu_ && !rows_.size.is_const(1) ? 0 : 1;
    if (lanes) column_ = blocked_axis(b_, symbols_, "c", columns_.size, width_, 1 - row_grid);
    if (!lanes && !gpu_)
      together_ = std::clamp<int64_t>(rows_.size.range(symbols_).hi, 1, kTogether);
    first_row_ = b_.cst(0);
    if (rows_.size.is_const(1)) return;
    b_.grid(row_grid, Dim::ceildiv(rows_.size, together_));
    first_row_ = b_.mul(b_.scalar(b_.block_id(row_grid)), b_.cst(together_));
  }

  // Where the total of a part lies, of the column's row.
  IndexId total_at(IndexId part) {
    const IndexId row = b_.add(b_.mul(part, b_.dim(rows_.size)), first_row_);
    return b_.add(b_.mul(row, b_.dim(columns_.size)), column_.index);
  }

  Values fold_totals(Values acc) {
    b_.begin_for(b_.cst(0), part_, std::move(acc));
    const IndexId at = total_at(b_.scalar(b_.for_index()));
    Values next;
    for (const tile::BufferId total : buffers_.totals)
      next.push_back(b_.load(total, at, {column_.axis}));
    return b_.end_for(function_.fold(b_.for_carried(), next));
  }

  Values fold_positions(IndexId first, IndexId last, Values init) {
    b_.begin_for(first, last, std::move(init));
    const Values carried = b_.for_carried();
    const size_t each = carried.size() / static_cast<size_t>(together_);
    Values next;
    for (int64_t k = 0; k < together_; k++) {
      const auto from = carried.begin() + static_cast<std::ptrdiff_t>(each) * k;
      for (const ValueId v : row(k, Values(from, from + static_cast<std::ptrdiff_t>(each))))
        next.push_back(v);
    }
    return b_.end_for(std::move(next));
  }

  // One position of row k of the block: the next accumulators, and the stores. Rows beyond the last
  // read that one and store nothing.
  Values row(int64_t k, const Values& acc) {
    const IndexId own = b_.add(first_row_, b_.cst(k)), rows = b_.dim(rows_.size);
    const bool whole = rows_.size.divisible_by(together_);
    const IndexId position = b_.scalar(b_.for_index());
    Emitter emit(b_, region_, {column_.axis}, buffers_.inputs);
    bind_flat(b_, emit, region_, rows_, whole ? own : b_.min(own, b_.add(rows, b_.cst(-1))), 0);
    bind_flat(b_, emit, region_, columns_, column_.index, columns_.vars.empty() ? 0 : 1);
    bind_flat(b_, emit, region_, positions_, position, 0);
    if (k == 0) emit_checks(b_, emit, region_.checks);
    const ValueId place =
        function_.tells_places() ? b_.index_tile(position, DType::I64, {}) : ValueId();
    const Values next =
        function_.fold(acc, function_.elements(emit.full(region_.results[0].value), place));
    if (!stores()) return next;
    const Values results = function_.results(next);
    const tile::Mask mask = whole ? tile::Mask{} : tile::Mask{{own, b_.cst(0), rows}};
    for (size_t i = 0; i < results.size(); i++)
      b_.store(buffers_.outputs[i], emit.index(region_.results[i].index), results[i], mask);
    return next;
  }

  const passes::KernelRequest& request_;
  const Region& region_;
  const SymbolTable& symbols_;
  const bool gpu_;
  tile::TileBuilder b_;
  ScanFunction function_;
  ScanBuffers buffers_;
  Flat positions_, rows_, columns_;
  BlockedAxis column_;
  IndexId first_row_, part_;
  int64_t width_ = 1, together_ = 1;
};

// Memory runs along the axis, or there are too few columns beside it, or none.
bool along_axis(const Region& region) {
  const SymbolTable& symbols = region.space.symbols();
  const std::vector<IterVar> kept = region.vars_of(Role::Free),
                             axis = region.vars_of(Role::Reduced);
  if (axis.size() != 1) return false;
  const Affine& at = region.results[0].index;
  if (kept.empty() || at.factor(axis[0].atom).is_const(1)) return true;
  const int64_t columns = region.extent(kept.back()).hint(symbols);
  if (!at.factor(kept.back().atom).is_const(1))
    return std::abs(at.factor(axis[0].atom).hint(symbols)) <
           std::abs(at.factor(kept.back().atom).hint(symbols));
  return columns < kFewColumns && columns < region.extent(axis[0]).hint(symbols);
}

}  // namespace

tile::Program generate_scan(const passes::KernelRequest& request, const Target& target) {
  const ir::Eqn& scan = request.body->eqns()[0];
  if (!ir::is_value(scan.inputs[0])) throw Unsupported(request.name, "a scan of a literal");
  const Region region = scan_region(request);
  if (target.isa == Isa::Ptx && along_axis(region)) return emit_scan_rows(request, region, target);
  return ScanColumns(request, region, target.isa).run();
}

}  // namespace poot::codegen
