// Products of two matrices in the matrix unit:
//
//   for k in 0..K step part                         x [m, k], w [n, k], 64 columns n in all
//     panel = w[:, k ..]                            pairs of k by columns, 16 x 16 pairs a tile
//     for m in 0..M step 16
//       sums[m .., 0..64] += x[m .., k ..] * panel  four tiles of sums, one of x, one of the panel
//
// A tile of the right operand wants pairs along k down its rows and columns across: 16 rows of w,
// 16 pairs each, are transposed in registers, or where w lies the other way round, two rows of it
// are woven; once for all rows of x. Rows of x are loaded as they
// lie; the strip after the one that is multiplied is asked for meanwhile, since sixteen rows apart
// are sixteen streams to the prefetchers, and so is what is packed next, line by line: packing
// would otherwise wait for memory while the unit idles. Columns beyond the extent repeat the last
// one: their sums are read by nothing.
//
// The order of a sum depends on its length alone: parts of k, steps of 32, the unit's own order.
#include <algorithm>

#include "codegen/lower/cpu_lowering.h"
#include "codegen/lower/transpose.h"

namespace poot::codegen::lowering {

using kir::Elem;
using kir::Op;
using tile::AxisId;
using KValue = kir::ValueId;

namespace {

constexpr int64_t kColumns = 64, kTile = 16, kStep = 32;  // columns; rows of a tile; k of a step
constexpr int64_t kPartDepth = 512;  // the panel then takes 64 KB of the second-level cache
constexpr int64_t kAheadElems = 256, kRowsAhead = 16;  // what packing asks for
constexpr int32_t kLeft = 4, kRight = 5, kRights = 3;  // tiles

}  // namespace

CpuLowering::MatrixOperand CpuLowering::matrix_operand(tile::ValueId v, AxisId row, AxisId column) {
  const tile::Program& p = facts_.program();
  const tile::Inst* load = facts_.def(v);
  const bool plain = load != nullptr && load->op == tile::Op::load && load->mask.empty() &&
                     p.type(v).dtype == DType::BF16;
  const auto across = plain ? tile::const_stride(p, load->index, row) : std::nullopt;
  const auto along = plain ? tile::const_stride(p, load->index, column) : std::nullopt;
  if (!across || !along || (*across != 1 && *along != 1))
    throw Unsupported("tile program " + p.name, "an operand of a matrix product that is not rows");
  emit_.push_scope();
  emit_.bind(row, emit_.i64(0));
  const KValue first = emit_.index(load->index, column);
  emit_.unbind(row);
  emit_.pop_scope();
  const bool by_depth = *along == 1;
  return {kir::ObjectId(load->buffer.index), first, by_depth ? *across : *along, by_depth};
}

bool CpuLowering::fits_matrix_unit(const Roots& roots) const {
  if (!target_.bf16_tiles || roots[0]->rows.size() != 2) return false;
  const tile::Program& p = facts_.program();
  const auto depth = emit_.static_extent(roots[0]->column);
  return depth && *depth >= kStep && *depth % kStep == 0 &&
         p.axes.at(roots[0]->rows[1].index).capacity == kColumns &&
         std::ranges::all_of(roots, [&](const Root* r) {
           return r->is_dot() && p.type(r->inst->args[0]).dtype == DType::BF16;
         });
}

void CpuLowering::matrix_dots(const Roots& roots) {
  const tile::Program& p = facts_.program();
  const AxisId rows = roots[0]->rows[0], columns = roots[0]->rows[1], depth = roots[0]->column;
  const auto extent = emit_.static_extent(depth);
  kir::KirBuilder& b = emit_.builder();
  const int64_t steps = *extent / kStep, parts = (*extent + kPartDepth - 1) / kPartDepth;
  const int64_t part = (steps + parts - 1) / parts * kStep;
  const kir::ObjectId panel = b.add_object({.name = "panel",
                                            .kind = kir::ObjectKind::Private,
                                            .elem = Elem::BF16,
                                            .writable = true,
                                            .size = kColumns * part});
  for (const Root* r : roots) {
    if (!r->is_dot() || !r->array || r->rows != roots[0]->rows || r->column != depth)
      throw Unsupported("tile program " + p.name, "dots beside other work in one row loop");
    const bool swapped = (facts_.deps(r->inst->args[0]) & TileFacts::bit(rows)) == 0;
    MatrixPart m{.left = matrix_operand(r->inst->args[swapped], rows, depth),
                 .right = matrix_operand(r->inst->args[!swapped], columns, depth),
                 .rows = rows,
                 .columns = columns,
                 .sums = *r->array,
                 .panel = panel,
                 .from = emit_.i64(0),
                 .length = emit_.i64(part),
                 .next = {},
                 .adds = false};
    const int64_t along = m.right.by_depth ? 1 : m.right.stride,
                  across = m.right.by_depth ? m.right.stride : 1;
    const KValue block_after = emit_.add(m.right.first, emit_.i64(kColumns * across));
    const auto part_after = [&](KValue from) {
      return emit_.add(m.right.first,
                       emit_.mul(emit_.add(from, emit_.i64(part)), emit_.i64(along)));
    };
    m.next = part == *extent ? block_after : part_after(m.from);
    if (!m.left.by_depth)
      throw Unsupported("tile program " + p.name, "a left operand that is not rows");
    const auto multiply = [&] {
      emit_.push_scope();
      m.right.by_depth ? pack_columns(m) : pack_rows(m);
      multiply_panel(m);
      emit_.pop_scope();
    };
    multiply();
    if (part == *extent) continue;
    const KValue end = emit_.i64(*extent), whole = m.length;
    b.for_loop(whole, end, whole, {}, [&](KValue from, std::span<const KValue>) {
      m.from = from;
      emit_.push_scope();
      m.length = b.emit(Op::smin, {whole, b.emit(Op::isub, {end, from})});
      m.next = b.select(b.icmp(kir::Pred::slt, emit_.add(from, whole), end), part_after(from),
                        block_after);
      m.adds = true;
      multiply();
      emit_.pop_scope();
      return std::vector<KValue>{};
    });
  }
  b.tile_release();
}

// Tile t of step s holds columns 16t.. of columns 32s.. of the operand: row r is the pair (2r, 2r +
// 1) of each. Steps lie one after another, four tiles each.
void CpuLowering::pack_columns(const MatrixPart& p) {
  kir::KirBuilder& b = emit_.builder();
  const auto fixed = emit_.static_extent(p.columns);
  const bool whole = fixed == kColumns;
  const KValue zero = emit_.i64(0), stride = emit_.i64(p.right.stride);
  const KValue last = emit_.add(emit_.extent(p.columns), emit_.i64(-1));
  const KValue begin = emit_.add(p.right.first, p.from);
  const KValue step = emit_.i64(kStep), tile = emit_.i64(kTile), width = emit_.i64(kColumns);
  b.for_loop(zero, width, tile, {}, [&](KValue n, std::span<const KValue>) {
    emit_.push_scope();
    std::vector<KValue> rows;
    for (int64_t i = 0; i < kTile; ++i) {
      KValue row = emit_.add(n, emit_.i64(i));
      if (!whole) row = b.emit(Op::smin, {row, last});
      rows.push_back(emit_.add(begin, emit_.mul(row, stride)));
    }
    const KValue at = emit_.mul(n, step);
    b.for_loop(zero, p.length, step, {}, [&](KValue k, std::span<const KValue>) {
      emit_.push_scope();
      std::vector<KValue> v;
      for (const KValue row : rows) {
        const KValue from = emit_.add(row, k);
        v.push_back(b.load(p.right.object, {Elem::BF16, kStep}, from));
        b.prefetch(p.right.object, emit_.add(from, emit_.i64(kAheadElems)));
      }
      transpose(b, v, 2);
      const KValue to = emit_.add(at, emit_.mul(k, width));
      for (int64_t i = 0; i < kTile; ++i)
        b.store(p.panel, emit_.add(to, emit_.i64(i * kStep)), v[static_cast<size_t>(i)], 64);
      emit_.pop_scope();
      return std::vector<KValue>{};
    });
    emit_.pop_scope();
    return std::vector<KValue>{};
  });
}

// Columns beyond the extent are zero.
void CpuLowering::pack_rows(const MatrixPart& p) {
  constexpr uint16_t kWide = 32;
  kir::KirBuilder& b = emit_.builder();
  std::vector<int32_t> halves[2];
  for (int32_t l = 0; l < 2 * kTile; ++l)
    for (const int32_t h : {0, 1})
      halves[h].push_back(l / 2 + (l % 2) * kWide + h * int32_t{kTile});
  const bool whole = emit_.static_extent(p.columns) == kColumns;
  const KValue stride = emit_.i64(p.right.stride), two = emit_.i64(2), width = emit_.i64(kColumns);
  const KValue columns = emit_.extent(p.columns);
  const kir::Type t{Elem::BF16, kWide}, ids{Elem::I64, kWide};
  b.for_loop(emit_.i64(0), p.length, two, {}, [&](KValue k, std::span<const KValue>) {
    emit_.push_scope();
    const KValue row = emit_.add(p.right.first, emit_.mul(emit_.add(p.from, k), stride));
    // Pair q of step s is row q of its tiles.
    const KValue pair = b.emit(Op::band, {k, emit_.i64(kStep - 1)});
    const KValue at = emit_.add(emit_.mul(b.emit(Op::isub, {k, pair}), width),
                                emit_.mul(pair, emit_.i64(kStep / 2)));
    for (int64_t n = 0; n < kColumns; n += kWide) {
      KValue pairs[2];
      for (int64_t h = 0; h < 2; ++h) {
        const KValue from = emit_.add(row, emit_.i64(h * p.right.stride + n));
        if (whole) {
          pairs[h] = b.load(p.right.object, t, from);
        } else {
          const KValue left = b.emit(Op::isub, {columns, emit_.i64(n)});
          const KValue mask =
              b.icmp(kir::Pred::slt, b.emit(Op::lane_ids, ids, {}), b.splat(left, kWide));
          pairs[h] = b.load_masked(p.right.object, t, from, mask, b.constant(t, 0));
        }
        b.prefetch(p.right.object, emit_.add(from, emit_.i64(kRowsAhead * p.right.stride)));
      }
      for (int64_t h = 0; h < 2; ++h)
        b.store(p.panel, emit_.add(at, emit_.i64((n / kTile + h) * kTile * kStep)),
                b.shuffle(pairs[0], pairs[1], halves[h]), 64);
    }
    emit_.pop_scope();
    return std::vector<KValue>{};
  });
}

void CpuLowering::multiply_panel(const MatrixPart& p) {
  kir::KirBuilder& b = emit_.builder();
  const auto fixed = emit_.static_extent(p.rows);
  const KValue rows = emit_.extent(p.rows), tile = emit_.i64(kTile);
  const KValue whole =
      fixed ? emit_.i64(*fixed / kTile * kTile) : b.emit(Op::band, {rows, emit_.i64(-kTile)});
  b.tile_rows(tile);
  b.for_loop(emit_.i64(0), whole, tile, {}, [&](KValue row, std::span<const KValue>) {
    emit_.push_scope();
    multiply_strip(p, row);
    emit_.pop_scope();
    return std::vector<KValue>{};
  });
  if (fixed && *fixed % kTile == 0) return;
  b.if_else(
      b.icmp(kir::Pred::slt, whole, rows),
      [&] {
        emit_.push_scope();
        b.tile_rows(b.emit(Op::isub, {rows, whole}));
        multiply_strip(p, whole);
        emit_.pop_scope();
        return std::vector<KValue>{};
      },
      [] { return std::vector<KValue>{}; });
}

// A panel's lines, shared out evenly over the steps of all strips.
void CpuLowering::ask_for_next(const MatrixPart& p, KValue row, KValue k) {
  constexpr int64_t kLine = 32;  // elements
  kir::KirBuilder& b = emit_.builder();
  const int64_t rows = facts_.program().axes.at(p.rows.index).capacity;
  const int64_t strips = (rows + kTile - 1) / kTile, each = (kColumns + strips - 1) / strips;
  const KValue strip = emit_.mul(b.emit(Op::ashr, {row, emit_.i64(4)}), emit_.i64(each));
  for (int64_t i = 0; i < each; ++i) {
    const KValue line = emit_.add(strip, emit_.i64(i));
    KValue at = emit_.add(emit_.mul(line, emit_.i64(p.right.stride)), k);
    if (!p.right.by_depth) {  // 32 rows of two lines a step
      const KValue deep = emit_.add(k, b.emit(Op::ashr, {line, emit_.i64(1)}));
      const KValue wide = emit_.mul(b.emit(Op::band, {line, emit_.i64(1)}), emit_.i64(kLine));
      at = emit_.add(emit_.mul(deep, emit_.i64(p.right.stride)), wide);
    }
    b.prefetch(p.right.object, emit_.add(p.next, at));
  }
}

// Sixteen rows, or what tile_rows says.
void CpuLowering::multiply_strip(const MatrixPart& p, KValue row) {
  kir::KirBuilder& b = emit_.builder();
  const KValue width = emit_.i64(kColumns), step = emit_.i64(kStep);
  const KValue stride = emit_.i64(p.left.stride), packed = emit_.i64(kStep);
  const KValue sums = emit_.mul(row, width);
  const KValue first = emit_.add(emit_.add(p.left.first, p.from), emit_.mul(row, stride));
  const auto each = [&](auto&& body) {
    for (uint32_t t = 0; t < kColumns / kTile; ++t)
      body(t, emit_.add(sums, emit_.i64(int64_t{t} * kTile)));
  };
  each([&](uint32_t t, KValue at) {
    if (p.adds)
      b.tile_load(t, p.sums.object, at, width);
    else
      b.tile_zero(t);
  });
  b.for_loop(emit_.i64(0), p.length, step, {}, [&](KValue k, std::span<const KValue>) {
    emit_.push_scope();
    const KValue left = emit_.add(first, k), right = emit_.mul(k, width);
    b.tile_load(kLeft, p.left.object, left, stride);
    for (int64_t i = 0; i < kTile; ++i)
      b.prefetch(p.left.object, emit_.add(left, emit_.i64((kTile + i) * p.left.stride)));
    ask_for_next(p, row, k);
    for (int32_t t = 0; t < kColumns / kTile; ++t) {
      const int32_t tile = kRight + t % kRights;
      b.tile_load(static_cast<uint32_t>(tile), p.panel,
                  emit_.add(right, emit_.i64(t * kTile * kStep)), packed);
      b.tile_dot(t, kLeft, tile);
    }
    emit_.pop_scope();
    return std::vector<KValue>{};
  });
  each([&](uint32_t t, KValue at) { b.tile_store(t, p.sums.object, at, width); });
}

}  // namespace poot::codegen::lowering
