// Row kernels of a CPU whose operand runs across the rows in memory while a result runs along them:
// layer norm or softmax of a transposed tensor, or of an image's channels with channels last in the
// result. Read along the row, every element lies in another cache line; stored across rows, too. So
// a block holds as many rows as a few lines of the operand have, which the lowering transposes in
// registers (lower/transposed.cpp) into an array of whole rows:
//
//   v = load x [r, c]  (x is contiguous along r);  m = reduce max v : [r, -];  …;  store [r, c]
//
// Rows too long for an array are first copied to where the result will be, by chunks of columns,
// and read from there:
//
//   for k in chunks { store out [r0, c0] = load x [r0, c0] };  v = load out [r, c];  …
//
// The result is stored where its last phase has read, and no phase follows.
#include <algorithm>

#include "codegen/generate/reduction.h"
#include "codegen/generate/spread.h"

namespace poot::codegen {
namespace {

using tile::AxisId;
using tile::IndexId;
using tile::ValueId;

constexpr int64_t kLine = 64;               // bytes
constexpr int64_t kArrayBytes = 192 << 10;  // of the transposed part of a block
constexpr int64_t kOfArray = 32;            // rows of a block
constexpr int64_t kOfResult = 256;          // the same: much of every page that a column lies in
constexpr int64_t kBlocksPerCore = 2;
constexpr int64_t kSquare = 16;              // rows and columns that are transposed at once
constexpr int64_t kCopied = 64;              // columns of a chunk that is copied
constexpr int64_t kLongestConstant = 65536;  // a longer row's sum needs a cascade

// Loads that are contiguous along `row` and not along `column`.
std::vector<NodeId> turned_loads(const Region& r, const IterVar& row, const IterVar& column) {
  std::vector<NodeId> out;
  for (uint32_t i = 0; i < r.nodes.size(); i++) {
    const Node& n = r.nodes.at(NodeId(i));
    if (n.kind != NodeKind::Load || !r.live[i]) continue;
    const Dim along = n.index.factor(column.atom);
    if (n.index.factor(row.atom).is_const(1) && !along.is_const(0) && !along.is_const(1))
      out.push_back(NodeId(i));
  }
  return out;
}

bool runs_along(const Region& region, const Result& r, const IterVar& row, const IterVar& column) {
  const auto at_least = [&](const IterVar& v) {
    return region.extent(v).hint(region.space.symbols()) >= kSquare;
  };
  return r.index.factor(column.atom).is_const(1) && !r.index.factor(row.atom).is_const(1) &&
         r.guard.empty() && at_least(row) && at_least(column);
}

// How many reductions one after the other a value needs.
size_t depth(const Region& region, NodeId node) {
  const Node& n = region.nodes.at(node);
  size_t most = 0;
  for (const NodeId a : n.args) most = std::max(most, depth(region, a));
  return most + (n.kind == NodeKind::Reduce);
}

class TurnedRows {
 public:
  TurnedRows(const passes::KernelRequest& request, const Region& region)
      : region_(region),
        symbols_(request.body->symbols()),
        b_(request.name, symbols_),
        buffers_(declare_buffers(b_, request)),
        kept_(region.vars_of(Role::Free)),
        row_(kept_.back()),
        column_(region.vars_of(Role::Reduced).back()) {
    kept_.pop_back();
    rows_ = flatten(region, {row_});
    columns_ = flatten(region, {column_});
    outer_ = flatten(region, kept_);
    loads_ = turned_loads(region, row_, column_);
  }

  // Chooses where the transposed rows are, and how many a block has; false if there is no place.
  bool place(const Target& target) {
    int64_t element = 1, bytes = 0;  // of a column
    for (const NodeId n : loads_) {
      element = std::max(element, byte_size(region_.nodes.at(n).dtype));
      bytes += byte_size(region_.nodes.at(n).dtype);
    }
    const int64_t most = std::max<int64_t>(columns_.size.range(symbols_).hi, 1);
    if (columns_.size.is_const() && most > kLongestConstant) return false;
    const int64_t line = std::max(kSquare, kLine / element);
    const int64_t whole = std::min<int64_t>(most, INT64_MAX / 2) / kSquare * kSquare + kSquare;
    // Of blocks of that many rows each core gets some.
    const auto fewer = [&](int64_t rows) {
      const int64_t all = (rows_.size * outer_.size).hint(symbols_);
      while (rows > line && all < rows * kBlocksPerCore * target.cores) rows /= 2;
      return rows;
    };
    const auto fits = [&](int64_t rows) {
      height_ = rows;
      capacity_ = whole;
      return whole <= kArrayBytes / (bytes * rows);
    };
    if (fits(fewer(kOfArray))) return true;
    if (!find_result()) return fits(line);
    height_ = fewer(kOfResult);
    capacity_ = most;
    return true;
  }

  tile::Program run(bool nontemporal) {
    outer_row_ = b_.cst(0);
    if (!outer_.size.is_const(1)) {
      b_.grid(1, outer_.size);
      outer_row_ = b_.scalar(b_.block_id(1));
    }
    const BlockedAxis r = blocked_axis(b_, symbols_, "r", rows_.size, height_, 0);
    if (through_) copy(r);
    const AxisId c = b_.axis("c", capacity_, b_.dim(columns_.size));
    Emitter emit = emitter(r.axis, r.index, c, b_.coord(c));
    emit.reduce_over(1);
    emit.drop_cascades();
    if (through_)
      emit.set(loads_[0], b_.load(buffers_.outputs[through_->output], emit.index(through_->index),
                                  {r.axis, c}));
    emit_checks(b_, emit, region_.checks);
    for (const Result& result : region_.results)
      emit_result(b_, emit, result, buffers_.outputs[result.output]);
    b_.program().schedule.nontemporal = nontemporal && !through_;
    b_.program().block_elems = height_ * std::max<int64_t>(columns_.size.hint(symbols_), 1);
    return b_.finish();
  }

 private:
  Emitter emitter(AxisId r, IndexId row, AxisId c, IndexId column) {
    Emitter emit(b_, region_, {r, c}, buffers_.inputs);
    bind_flat(b_, emit, region_, outer_, outer_row_, 0);
    bind_flat(b_, emit, region_, rows_, row, 1);
    bind_flat(b_, emit, region_, columns_, column, 2);
    return emit;
  }

  // The result that takes the operand meanwhile: of its dtype, with an element for each of its
  // own, and stored in the last phase.
  bool find_result() {
    if (loads_.size() != 1 || !region_.nodes.at(loads_[0]).guard.empty()) return false;
    size_t last = 0;
    for (const Result& r : region_.results) last = std::max(last, depth(region_, r.value));
    for (const Result& r : region_.results) {
      const bool every = std::ranges::all_of(
          region_.vars, [&](const IterVar& v) { return !r.index.factor(v.atom).is_const(0); });
      if (every && runs_along(region_, r, row_, column_) && depth(region_, r.value) == last &&
          region_.nodes.at(r.value).dtype == region_.nodes.at(loads_[0]).dtype)
        through_ = &r;
    }
    return through_ != nullptr;
  }

  void copy(const BlockedAxis& r) {
    b_.begin_for(b_.cst(0), b_.dim(Dim::ceildiv(columns_.size, kCopied)), {});
    const IndexId first = b_.mul(b_.scalar(b_.for_index()), b_.cst(kCopied));
    const IndexId left = b_.add(b_.dim(columns_.size), b_.mul(first, b_.cst(-1)));
    const AxisId c0 = b_.axis("c0", kCopied, b_.min(b_.cst(kCopied), left));
    const AxisId r0 = b_.axis("r0", height_, b_.program().axes.at(r.axis.index).extent);
    // The row's coordinate is that of r0: what it is added to is the block's first row.
    const IndexId block = rows_.size.range(symbols_).hi <= height_
                              ? b_.cst(0)
                              : b_.mul(b_.scalar(b_.block_id(0)), b_.cst(height_));
    Emitter emit = emitter(r0, b_.add(block, b_.coord(r0)), c0, b_.add(first, b_.coord(c0)));
    b_.store(buffers_.outputs[through_->output], emit.index(through_->index), emit.full(loads_[0]));
    b_.end_for({});
  }

  const Region& region_;
  const SymbolTable& symbols_;
  tile::TileBuilder b_;
  Buffers buffers_;
  std::vector<IterVar> kept_;
  IterVar row_, column_;
  Flat outer_, rows_, columns_;
  std::vector<NodeId> loads_;
  const Result* through_ = nullptr;
  int64_t height_ = kSquare, capacity_ = 1;
  IndexId outer_row_;
};

}  // namespace

std::optional<tile::Program> emit_turned_rows(const passes::KernelRequest& request,
                                              const Region& region, const Target& target) {
  const auto kept = region.vars_of(Role::Free), reduced = region.vars_of(Role::Reduced);
  if (target.isa != Isa::X86 || kept.empty() || reduced.size() != 1) return std::nullopt;
  if (std::ranges::none_of(region.results, [&](const Result& r) {
        return runs_along(region, r, kept.back(), reduced.back());
      }))
    return std::nullopt;
  TurnedRows kernel(request, region);
  if (!kernel.place(target)) return std::nullopt;
  return kernel.run(bypasses_cache(request, target));
}

}  // namespace poot::codegen
