// Scans. The positions along the axis are a loop that carries one accumulator for each column. The
// order of the additions is that of the positions, so lanes can only be other rows: columns are the
// innermost other variable where memory runs along it,
//
//   for i in 0..n carry(acc = 0) { acc' = acc + x [c]; store y [c] acc'; yield acc' }
//
// and where memory runs along the axis, a block takes a few rows as scalars side by side, so that
// their chains of additions overlap (as lanes, which lie apart, where a step is transcendental).
#include <algorithm>

#include "codegen/generate/generators.h"
#include "codegen/generate/reduction.h"
#include "codegen/generate/spread.h"
#include "ir/scalar_eval.h"
#include "support/errors.h"

namespace poot::codegen {
namespace {

using ir::OpCode;
using tile::IndexId;
using tile::ValueId;

constexpr int64_t kWidest = 256;  // accumulators of a block, side by side in memory
constexpr int64_t kApart = 16;    // accumulators of a block that lie apart
constexpr int64_t kTogether = 4;  // the same as scalars

Region scan_region(const passes::KernelRequest& request, size_t axis) {
  const ir::Graph& body = *request.body;
  const ir::Eqn& scan = body.eqns()[0];
  const Shape& shape = body.type(scan.inputs[0]).shape;
  std::vector<RootDim> root;
  for (size_t i = 0; i < shape.size(); i++)
    if (i != axis) root.push_back({shape[i], Role::Free});
  root.push_back({shape[axis], Role::Reduced});
  return build_region(body.symbols(), root, [&](Region& r, const Coordinates& at) {
    Coordinates c(at.begin(), at.end() - 1);
    c.insert(c.begin() + static_cast<std::ptrdiff_t>(axis), at.back());
    IndexMap map(body, request.inputs, r.space, r.nodes);
    const NodeId x = map.at(scan.inputs[0], c);
    for (uint32_t i = 0; i < request.outputs.size(); i++)
      r.results.push_back({x, i, element_index(request.outputs[i], c), {}});
    r.checks = map.checks();
  });
}

// max + log1p(exp(min - max)); x where both are the same infinity.
ValueId log_add_exp(tile::TileBuilder& b, DType d, ValueId sum, ValueId x) {
  const auto op = [&](OpCode o, std::vector<ValueId> args) { return b.pointwise(o, d, args); };
  const auto test = [&](OpCode o, ValueId l, ValueId r) {
    return b.pointwise(o, DType::Bool, {l, r});
  };
  const ValueId low = op(OpCode::minimum, {sum, x}), high = op(OpCode::maximum, {sum, x});
  const ValueId grown = op(OpCode::log1p, {op(OpCode::exp, {op(OpCode::sub, {low, high})})});
  const ValueId infinity = b.constant(ir::Scalar::of(d, __builtin_inf()));
  const ValueId finite = test(OpCode::lt, op(OpCode::abs, {low}), infinity);
  const ValueId usual =
      b.pointwise(OpCode::bit_or, DType::Bool, {finite, test(OpCode::ne, low, high)});
  return op(OpCode::select, {usual, op(OpCode::add, {grown, high}), x});
}

class ScanKernel {
 public:
  ScanKernel(const passes::KernelRequest& request, const Region& region)
      : request_(request),
        region_(region),
        scan_(request.body->eqns()[0]),
        symbols_(request.body->symbols()),
        b_(request.name, symbols_),
        buffers_(declare_buffers(b_, request)),
        positions_(flatten(region, region.vars_of(Role::Reduced))) {}

  tile::Program run() {
    spread();
    std::vector<ValueId> init;
    for (int64_t k = 0; k < together_; k++)
      for (const ValueId v : starts()) init.push_back(v);
    b_.begin_for(b_.cst(0), b_.dim(positions_.size), std::move(init));
    const std::vector<ValueId> carried = b_.for_carried();
    const size_t each = carried.size() / static_cast<size_t>(together_);
    std::vector<ValueId> next;
    for (int64_t k = 0; k < together_; k++) {
      const auto from = carried.begin() + static_cast<std::ptrdiff_t>(each) * k;
      const std::vector<ValueId> own(from, from + static_cast<std::ptrdiff_t>(each));
      for (const ValueId v : row(k, own)) next.push_back(v);
    }
    b_.end_for(std::move(next));
    b_.program().block_elems =
        width_ * together_ * std::max<int64_t>(positions_.size.hint(symbols_), 1);
    return b_.finish();
  }

 private:
  bool places() const { return scan_.outs.size() == 2; }
  DType dtype() const { return request_.body->type(scan_.outs[0]).dtype; }
  DType accumulate() const { return places() ? dtype() : ir::scan_accumulator(dtype()); }

  // Rows and columns over the grid.
  void spread() {
    std::vector<IterVar> kept = region_.vars_of(Role::Free);
    const bool beside =
        !kept.empty() && region_.results[0].index.factor(kept.back().atom).is_const(1);
    const bool lanes = !kept.empty() && (beside || scan_.op == OpCode::scan_logaddexp);
    if (lanes) {
      columns_ = flatten(region_, {kept.back()});
      width_ = column_capacity(columns_.size, symbols_, beside ? kWidest : kApart);
      kept.pop_back();
    }
    rows_ = flatten(region_, kept);
    column_.index = b_.cst(0);
    if (lanes) column_ = blocked_axis(b_, symbols_, "c", columns_.size, width_, 0);
    if (!lanes) together_ = std::clamp<int64_t>(rows_.size.range(symbols_).hi, 1, kTogether);
    first_row_ = b_.cst(0);
    if (rows_.size.is_const(1)) return;
    b_.grid(1, Dim::ceildiv(rows_.size, together_));
    first_row_ = b_.mul(b_.scalar(b_.block_id(1)), b_.cst(together_));
  }

  std::vector<ValueId> starts() {
    const DType d = accumulate();
    const auto constant = [&](ir::Scalar s) { return b_.constant(s, {column_.axis}); };
    switch (scan_.op) {
      case OpCode::scan_sum:
        return {constant(reduction_identity(OpCode::reduce_sum, d))};
      case OpCode::scan_prod:
        return {constant(reduction_identity(OpCode::reduce_prod, d))};
      case OpCode::scan_logaddexp:
        return {constant(ir::Scalar::of(d, -__builtin_inf()))};
      default:
        return {constant(reduction_identity(
                    scan_.op == OpCode::scan_max ? OpCode::reduce_max : OpCode::reduce_min, d)),
                constant(ir::Scalar::of(DType::I64, int64_t{0}))};
    }
  }

  // One position of row k of the block: the next accumulators, and the stores. Rows beyond the last
  // read that one and store nothing.
  std::vector<ValueId> row(int64_t k, const std::vector<ValueId>& acc) {
    const IndexId own = b_.add(first_row_, b_.cst(k)), rows = b_.dim(rows_.size);
    const bool whole = rows_.size.divisible_by(together_);
    const IndexId position = b_.scalar(b_.for_index());
    Emitter emit(b_, region_, {column_.axis}, buffers_.inputs);
    bind_flat(b_, emit, region_, rows_, whole ? own : b_.min(own, b_.add(rows, b_.cst(-1))), 0);
    bind_flat(b_, emit, region_, columns_, column_.index, columns_.vars.empty() ? 0 : 1);
    bind_flat(b_, emit, region_, positions_, position, 0);
    if (k == 0) emit_checks(b_, emit, region_.checks);
    const std::vector<ValueId> next = step(acc, emit.full(region_.results[0].value), position);
    const tile::Mask mask = whole ? tile::Mask{} : tile::Mask{{own, b_.cst(0), rows}};
    for (size_t i = 0; i < next.size(); i++) {
      ValueId v = next[i];
      if (i == 0 && accumulate() != dtype()) v = b_.pointwise(OpCode::cast, dtype(), {v});
      b_.store(buffers_.outputs[i], emit.index(region_.results[i].index), v, mask);
    }
    return next;
  }

  std::vector<ValueId> step(const std::vector<ValueId>& acc, ValueId x, IndexId position) {
    const DType d = accumulate();
    if (d != dtype()) x = b_.pointwise(OpCode::cast, d, {x});
    switch (scan_.op) {
      case OpCode::scan_sum:
        return {b_.pointwise(OpCode::add, d, {acc[0], x})};
      case OpCode::scan_prod:
        return {b_.pointwise(OpCode::mul, d, {acc[0], x})};
      case OpCode::scan_logaddexp:
        return {log_add_exp(b_, d, acc[0], x)};
      default: {
        const OpCode reaches = scan_.op == OpCode::scan_max ? OpCode::ge : OpCode::le;
        ValueId taken = b_.pointwise(reaches, DType::Bool, {x, acc[0]});
        if (is_float(d))
          taken = b_.pointwise(OpCode::bit_or, DType::Bool,
                               {taken, b_.pointwise(OpCode::is_nan, DType::Bool, {x})});
        const ValueId here = b_.index_tile(position, DType::I64, {});
        return {b_.pointwise(OpCode::select, d, {taken, x, acc[0]}),
                b_.pointwise(OpCode::select, DType::I64, {taken, here, acc[1]})};
      }
    }
  }

  const passes::KernelRequest& request_;
  const Region& region_;
  const ir::Eqn& scan_;
  const SymbolTable& symbols_;
  tile::TileBuilder b_;
  Buffers buffers_;
  Flat positions_, rows_, columns_;
  BlockedAxis column_;
  IndexId first_row_;
  int64_t width_ = 1, together_ = 1;
};

}  // namespace

tile::Program generate_scan(const passes::KernelRequest& request, const Target& target) {
  const ir::Eqn& scan = request.body->eqns()[0];
  if (target.isa != Isa::X86) throw Unsupported(request.name, "scans on a GPU");
  if (!ir::is_value(scan.inputs[0])) throw Unsupported(request.name, "a scan of a literal");
  return ScanKernel(request, scan_region(request, static_cast<size_t>(scan.attr<int64_t>("axis"))))
      .run();
}

}  // namespace poot::codegen
