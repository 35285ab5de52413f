// Dots: sums of products over the column, for the rows of a matrix that is read once.
//
//   for n in 0..N step 2                          w [n, k], x_m [k]; one root a row of x
//     for k in 0..K step lanes
//       x_m = load x_m[k]                         shared by the rows
//       acc[n, m] += w[n, k] * x_m                and w[n + 1, k]
//     kept_m[n] = lanes of acc[n, m], added
//
// Two rows at a time halve the loads of x and keep two streams of memory busy; with many roots one
// row fills the registers with accumulators. Lines of w are asked for well ahead, across row ends,
// since the hardware's prefetchers stop at every 4 KB. Results are kept in an array, which whatever
// follows reads as a column of vectors (make_root).
//
// The order of a sum depends on its dtype and length alone, not on what else the kernel computes:
// two accumulators, vectors in turn.
//
// A masked lane loads 0 from both sides; an operand that is computed is set to 0 there, so that no
// infinity meets it.
#include <algorithm>
#include <bit>

#include "codegen/lower/cpu_lowering.h"
#include "codegen/lower/product_lowering.h"

namespace poot::codegen::lowering {

using kir::Elem;
using kir::Op;
using tile::AxisId;
using KValue = kir::ValueId;

namespace {

constexpr size_t kUnroll = 2;         // accumulators of a dot
constexpr size_t kDotsOfTwoRows = 4;  // with which two rows of accumulators fit in registers
// Into the first cache soon; into the second early enough for memory, which answers slowly.
constexpr int64_t kAheadBytes = 2048, kFarBytes = 32768;

}  // namespace

CpuLowering::DotBlock CpuLowering::dot_block(const Roots& roots) const {
  const tile::Program& p = facts_.program();
  const Root& first = *roots[0];
  DotBlock d{.roots = roots,
             .row = {},
             .column = first.column,
             .rows = 1,
             .lanes = 1,
             .pairs = target_.bf16_dot,
             .unroll = 1};
  if (first.rows.size() > 1) throw Unsupported("tile program " + p.name, "a dot over two row axes");
  if (!first.rows.empty()) {
    d.row = first.rows[0];
    if (emit_.static_extent(d.row) != 1 && roots.size() <= kDotsOfTwoRows) d.rows = 2;
  }
  int64_t widest = 4;
  for (const Root* r : roots) {
    if (!r->is_dot() || r->rows != first.rows || r->column != first.column)
      throw Unsupported("tile program " + p.name, "dots beside other work in one row loop");
    const DType dtype = p.type(r->value).dtype;
    d.pairs = d.pairs && dtype == DType::BF16;
    widest = std::max(widest, byte_size(opmath(dtype)));
  }
  const int64_t capacity = p.axes.at(d.column.index).capacity;
  const int64_t full = target_.vector_bytes / widest * (d.pairs ? 2 : 1);
  const auto short_row = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(capacity)));
  d.lanes = static_cast<uint16_t>(std::min(full, std::max<int64_t>(short_row, d.pairs ? 8 : 2)));
  if (static_cast<int64_t>(kUnroll) * d.lanes <= capacity) d.unroll = kUnroll;
  return d;
}

// Whether the sums' last axis is one of columns that lie together, to be taken in vectors.
bool CpuLowering::sums_are_columns(const Root& root) const {
  const tile::Program& p = facts_.program();
  if (root.rows.empty() || !root.array) return false;
  if (root.rows.size() == 2) return true;
  const AxisId column = root.rows[0];
  if (p.axes.at(column.index).capacity % target_.vector_bytes != 0) return false;
  return std::ranges::any_of(root.inst->args, [&](tile::ValueId v) {
    const tile::Inst* load = facts_.def(v);
    return load != nullptr && load->op == tile::Op::load &&
           tile::const_stride(p, load->index, column) == 1 &&
           tile::const_stride(p, load->index, root.column) != 1;
  });
}

void CpuLowering::dots(const Roots& roots) {
  if (fits_matrix_unit(roots)) return matrix_dots(roots);
  if (std::ranges::all_of(roots, [&](const Root* r) { return sums_are_columns(*r); })) {
    for (const Root* r : roots) ProductLowering(emit_, *r->inst, *r->array, r->column).run();
    return;
  }
  const DotBlock d = dot_block(roots);
  if (!d.row) return dot_rows(d, {});
  kir::KirBuilder& b = emit_.builder();
  const KValue n = emit_.extent(d.row), zero = emit_.i64(0);
  const auto fixed = emit_.static_extent(d.row);
  const auto step = static_cast<int64_t>(d.rows);
  const KValue whole =
      fixed ? emit_.i64(*fixed / step * step) : b.emit(Op::band, {n, emit_.i64(-step)});
  const auto loop = [&](const DotBlock& block, KValue from, KValue to) {
    b.for_loop(from, to, emit_.i64(static_cast<int64_t>(block.rows)), {},
               [&](KValue i, std::span<const KValue>) {
                 emit_.push_scope();
                 dot_rows(block, i);
                 emit_.pop_scope();
                 return std::vector<KValue>{};
               });
  };
  loop(d, zero, whole);
  if (step == 1 || (fixed && *fixed % step == 0)) return;
  DotBlock single = d;
  single.rows = 1;
  loop(single, whole, n);
}

// Calls `body` at row first + u.
void CpuLowering::at_row(const DotBlock& d, KValue first, size_t u,
                         const std::function<void()>& body) {
  if (!d.row) return body();
  emit_.bind(d.row, emit_.add(first, emit_.i64(static_cast<int64_t>(u))));
  body();
  emit_.unbind(d.row);
}

void CpuLowering::dot_rows(const DotBlock& d, KValue first) {
  std::vector<Emitter::Scope> rows;  // what does not vary along the column
  for (size_t u = 0; u < d.rows; ++u) {
    emit_.push_scope();
    at_row(d, first, u, [&] { hoist_roots(d.roots, d.column); });
    rows.push_back(emit_.pop_scope());
  }
  Values acc;
  const auto lanes = static_cast<uint16_t>(d.pairs ? d.lanes / 2 : d.lanes);
  for (size_t u = 0; u < d.rows; ++u)
    for (const Root* r : d.roots) acc.insert(acc.end(), d.unroll, identity(*r, lanes));
  emit_.stream_ahead(d.row, kAheadBytes, kFarBytes);
  emit_.push_scope();
  dot_column(d, first, rows, acc);
  emit_.pop_scope();
  emit_.stream_ahead({}, 0);
  auto slot = acc.begin();
  for (size_t u = 0; u < d.rows; ++u)
    at_row(d, first, u, [&] {
      for (const Root* r : d.roots) {
        finish_reduction(*r, combine(*r, {slot, slot + static_cast<std::ptrdiff_t>(d.unroll)}));
        slot += static_cast<std::ptrdiff_t>(d.unroll);
      }
    });
}

void CpuLowering::dot_column(const DotBlock& d, KValue first,
                             const std::vector<Emitter::Scope>& rows, Values& acc) {
  kir::KirBuilder& b = emit_.builder();
  const KValue n = emit_.extent(d.column);
  const auto fixed = emit_.static_extent(d.column);
  const int64_t stride = static_cast<int64_t>(d.unroll) * d.lanes;
  const KValue whole =
      fixed ? emit_.i64(*fixed / stride * stride) : b.emit(Op::band, {n, emit_.i64(-stride)});
  const auto loop = [&](KValue from, KValue to, int64_t step, auto&& body) {
    acc = b.for_loop(from, to, emit_.i64(step), acc, [&](KValue i, std::span<const KValue> c) {
      emit_.push_scope();
      acc.assign(c.begin(), c.end());
      body(i);
      emit_.pop_scope();
      return acc;
    });
  };
  if (!fixed || *fixed >= stride)
    loop(emit_.i64(0), whole, stride, [&](KValue i) {
      for (size_t u = 0; u < d.unroll; ++u) {
        const KValue base = emit_.add(i, emit_.i64(static_cast<int64_t>(u) * d.lanes));
        dot_vector(d, first, rows, {d.column, base, d.lanes, {}}, acc, u);
      }
    });
  if (fixed && *fixed % stride == 0) return;
  loop(whole, n, d.lanes, [&](KValue i) {
    const KValue left = b.emit(Op::itrunc, kir::Type{Elem::I32, 1}, {b.emit(Op::isub, {n, i})});
    const KValue active =
        b.icmp(kir::Pred::slt, b.emit(Op::lane_ids, kir::Type{Elem::I32, d.lanes}, {}),
               b.splat(left, d.lanes));
    dot_vector(d, first, rows, {d.column, i, d.lanes, active}, acc, 0);
  });
}

// One vector of every row; `u` is its place in the unrolled step.
void CpuLowering::dot_vector(const DotBlock& d, KValue first,
                             const std::vector<Emitter::Scope>& rows, const Emitter::VectorAxis& at,
                             Values& acc, size_t u) {
  emit_.push_scope();
  emit_.bind_vector(at);
  const AxisSet row = d.row ? TileFacts::bit(d.row) : 0;
  for (const Root* r : d.roots)
    for (tile::ValueId v : r->inst->args)
      if ((facts_.deps(v) & row) == 0) dot_operand(d, v);
  auto slot = acc.begin() + static_cast<std::ptrdiff_t>(u);
  for (size_t k = 0; k < d.rows; ++k) {
    emit_.push_scope(rows[k]);
    at_row(d, first, k, [&] {
      for (const Root* r : d.roots) {
        *slot = dot_step(d, *r->inst, *slot);
        slot += static_cast<std::ptrdiff_t>(d.unroll);
      }
    });
    emit_.pop_scope();
  }
  emit_.unbind_vector(at.axis);
  emit_.pop_scope();
}

KValue CpuLowering::dot_operand(const DotBlock& d, tile::ValueId v) {
  const KValue value = d.pairs ? emit_.exact(v, d.lanes) : emit_.compute(v, d.lanes);
  const tile::Inst* inst = facts_.def(v);
  const bool loads_zero =
      inst != nullptr && inst->op == tile::Op::load && !inst->value && emit_.varies(facts_.deps(v));
  if (!emit_.active() || loads_zero) return value;
  kir::KirBuilder& b = emit_.builder();
  return b.select(emit_.active(), value, b.constant(b.type(value), 0));
}

KValue CpuLowering::dot_step(const DotBlock& d, const tile::Inst& inst, KValue acc) {
  const KValue x = dot_operand(d, inst.args[0]), y = dot_operand(d, inst.args[1]);
  return emit_.builder().emit(d.pairs ? Op::dot_pairs : Op::fma,
                              d.pairs ? Values{acc, x, y} : Values{x, y, acc});
}

}  // namespace poot::codegen::lowering
