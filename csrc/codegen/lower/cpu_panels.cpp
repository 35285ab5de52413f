// Operands of products as panels. The right one: for each block of columns, one row of the matrix
// after the other (pairs of them for dot_pairs: columns across, the two elements side by side). The
// left one: its rows, of a part's length.
//
// What is evaluated is vectors along the operand's own columns or rows, whichever lie together in
// memory; where that is along the other axis than the panel's, squares are transposed in registers.
#include <algorithm>

#include "codegen/lower/product_lowering.h"
#include "codegen/lower/transpose.h"

namespace poot::codegen::lowering {

using kir::Elem;
using kir::Op;
using tile::AxisId;
using KValue = kir::ValueId;

// The first load below the value that varies with the depth speaks for it.
bool ProductLowering::runs_along(tile::ValueId v, AxisId axis) const {
  const TileFacts& facts = emit_.facts();
  const auto visit = [&](auto&& self, tile::ValueId u) -> std::optional<bool> {
    const tile::Inst* inst = facts.def(u);
    if (inst == nullptr) return std::nullopt;
    if (inst->op == tile::Op::load && (facts.deps(inst->index) & TileFacts::bit(depth_)) != 0)
      return tile::const_stride(facts.program(), inst->index, axis) == 1;
    for (const tile::ValueId a : inst->args)
      if (const auto found = self(self, a)) return found;
    return std::nullopt;
  };
  return visit(visit, v).value_or(false);
}

KValue ProductLowering::first_lanes(KValue count, uint16_t lanes) {
  const kir::Type t{Elem::I64, lanes};
  return b_.icmp(kir::Pred::slt, b_.emit(Op::lane_ids, t, {}), b_.splat(count, lanes));
}

// A vector of the operand in the panel's type; 0 in lanes that are not active.
KValue ProductLowering::evaluate(tile::ValueId v, const Emitter::VectorAxis& at) {
  emit_.push_scope();
  emit_.bind_vector(at);
  KValue x = pairs_ ? emit_.exact(v, at.lanes) : emit_.compute(v, at.lanes);
  if (at.active) x = b_.select(at.active, x, b_.constant(b_.type(x), 0));
  emit_.unbind_vector(at.axis);
  emit_.pop_scope();
  return x;
}

// Rows k and k + 1 as vectors of pairs.
ProductLowering::Values ProductLowering::weave(KValue even, KValue odd) {
  const int32_t n = b_.type(even).lanes;
  Values out;
  for (const int32_t half : {0, 1}) {
    std::vector<int32_t> lanes;
    for (int32_t l = 0; l < n; ++l) lanes.push_back((half * n + l) / 2 + l % 2 * n);
    out.push_back(b_.shuffle(even, odd, std::move(lanes)));
  }
  return out;
}

void ProductLowering::pack_right() {
  runs_along(right_, depth_) ? pack_right_columns() : pack_right_rows();
}

void ProductLowering::pack_left() {
  rows_&& runs_along(left_, rows_) ? pack_left_columns() : pack_left_rows();
}

// Vectors along the columns; beyond the extent they are 0.
void ProductLowering::pack_right_rows() {
  const int64_t width = vectors_ * lanes_, wide = lanes_ * step_;
  const KValue columns = emit_.extent(columns_);
  const bool whole = divides(columns_, width);
  for_each(columns, width, [&](KValue column) {
    const KValue panel = emit_.mul(column, emit_.i64(part_));
    for_each(length_, step_, [&](KValue k) {
      const KValue at = emit_.add(panel, emit_.mul(k, emit_.i64(width)));
      const auto row = [&](KValue from, KValue n, KValue active) {
        emit_.push_scope();
        emit_.bind(depth_, emit_.add(from_, from));
        const KValue x = evaluate(right_, {columns_, n, static_cast<uint16_t>(wide), active});
        emit_.unbind(depth_);
        emit_.pop_scope();
        return x;
      };
      for (int64_t v = 0; v < vectors_; v += step_) {
        const KValue n = emit_.add(column, emit_.i64(v * lanes_));
        KValue active;
        if (!whole)
          active = first_lanes(b_.emit(Op::isub, {columns, n}), static_cast<uint16_t>(wide));
        Values packed{row(k, n, active)};
        if (pairs_) {
          // Beside the last of an odd depth there is nothing: it is read again, and not used.
          const KValue next = emit_.add(k, emit_.i64(1));
          KValue odd;
          if (divides(depth_, 2)) {
            odd = row(next, n, active);
          } else {
            const KValue inside = b_.icmp(kir::Pred::slt, next, length_);
            odd = row(b_.select(inside, next, k), n, active);
            odd = b_.select(inside, odd, b_.constant(b_.type(odd), 0));
          }
          packed = weave(packed[0], odd);
        }
        for (size_t i = 0; i < packed.size(); ++i)
          b_.store(right_panel_, emit_.add(at, emit_.i64((v + static_cast<int64_t>(i)) * wide)),
                   packed[i], alignment());
      }
    });
  });
}

// As many vectors of `v` as the transpose takes, one for each coordinate of `across` from `first`
// on, turned. Unless all are inside the extent, those beyond it repeat the last.
ProductLowering::Values ProductLowering::turned(tile::ValueId v, const Emitter::VectorAxis& at,
                                                AxisId across, KValue first, bool inside) {
  const int64_t count = lanes_;
  const KValue last = inside ? KValue() : emit_.add(emit_.extent(across), emit_.i64(-1));
  Values out;
  for (int64_t i = 0; i < count; ++i) {
    KValue c = emit_.add(first, emit_.i64(i));
    if (last) c = b_.emit(Op::smin, {c, last});
    emit_.push_scope();
    emit_.bind(across, c);
    out.push_back(evaluate(v, at));
    emit_.unbind(across);
    emit_.pop_scope();
  }
  // Halves are moved as integers: their vectors are shuffled as such.
  const kir::Type t = b_.type(out[0]);
  const auto as = [&](Elem e) {
    if (pairs_)
      for (KValue& x : out) x = b_.emit(Op::bitcast, t.with(e), {x});
  };
  as(Elem::I16);
  transpose(b_, out, at.lanes / static_cast<int32_t>(count));
  as(elem_);
  return out;
}

// Vectors along the depth, of as many columns as a vector of the panel has.
void ProductLowering::pack_right_columns() {
  const int64_t width = vectors_ * lanes_, deep = lanes_ * step_;
  const KValue columns = emit_.extent(columns_), whole = rounded_down(length_, deep);
  for_each(columns, width, [&](KValue column) {
    const KValue panel = emit_.mul(column, emit_.i64(part_));
    const auto square = [&](KValue k, KValue active) {
      for (int64_t v = 0; v < vectors_; ++v) {
        emit_.push_scope();
        const Emitter::VectorAxis along{depth_, emit_.add(from_, k), static_cast<uint16_t>(deep),
                                        active};
        const Values rows =
            turned(right_, along, columns_, emit_.add(column, emit_.i64(v * lanes_)),
                   divides(columns_, width));
        const KValue at =
            emit_.add(emit_.add(panel, emit_.mul(k, emit_.i64(width))), emit_.i64(v * deep));
        for (int64_t i = 0; i < lanes_; ++i)
          b_.store(right_panel_, emit_.add(at, emit_.i64(i * width * step_)),
                   rows[static_cast<size_t>(i)], alignment());
        emit_.pop_scope();
      }
    };
    for_each(whole, deep, [&](KValue k) { square(k, {}); });
    if (divides(depth_, deep)) return;
    const KValue left = b_.emit(Op::isub, {length_, whole});
    for_each(left, deep,
             [&](KValue) { square(whole, first_lanes(left, static_cast<uint16_t>(deep))); });
  });
}

void ProductLowering::pack_left_rows() {
  const auto deep = static_cast<uint16_t>(lanes_ * step_);
  const KValue rows = rows_ ? emit_.extent(rows_) : emit_.i64(1);
  const KValue whole = rounded_down(length_, deep);
  for_each(rows, 1, [&](KValue row) {
    if (rows_) emit_.bind(rows_, row);
    const KValue to = emit_.mul(row, emit_.i64(part_));
    const auto vector = [&](KValue k, KValue active) {
      b_.store(left_panel_, emit_.add(to, k),
               evaluate(left_, {depth_, emit_.add(from_, k), deep, active}));
    };
    for_each(whole, deep, [&](KValue k) { vector(k, {}); });
    if (!divides(depth_, deep)) {
      const KValue left = b_.emit(Op::isub, {length_, whole});
      for_each(left, deep, [&](KValue) { vector(whole, first_lanes(left, deep)); });
    }
    if (rows_) emit_.unbind(rows_);
  });
}

// Vectors along the rows, for as many of the depth; beyond it they are 0 where pairs reach there.
void ProductLowering::pack_left_columns() {
  const KValue rows = emit_.extent(rows_);
  const bool whole = divides(rows_, lanes_), odd = pairs_ && !divides(depth_, 2);
  for_each(rows, lanes_, [&](KValue row) {
    KValue active;
    if (!whole) active = first_lanes(b_.emit(Op::isub, {rows, row}), lanes_);
    for_each(length_, lanes_, [&](KValue k) {
      Values vectors = turned(left_, {rows_, row, lanes_, active}, depth_, emit_.add(from_, k),
                              divides(depth_, lanes_));
      KValue inside;
      if (odd) inside = first_lanes(b_.emit(Op::isub, {length_, k}), lanes_);
      for (int64_t i = 0; i < lanes_; ++i) {
        KValue x = vectors[static_cast<size_t>(i)];
        if (odd) x = b_.select(inside, x, b_.constant(b_.type(x), 0));
        const KValue to = emit_.mul(emit_.add(row, emit_.i64(i)), emit_.i64(part_));
        b_.store(left_panel_, emit_.add(to, k), x);
      }
    });
  });
}

// What the sums are added to, in their place; 0 in columns beyond the extent.
void ProductLowering::start() {
  const int64_t width = emit_.program().axes.at(columns_.index).capacity;
  const KValue columns = emit_.extent(columns_);
  const bool whole = emit_.static_extent(columns_) == width;
  for_each(rows_ ? emit_.extent(rows_) : emit_.i64(1), 1, [&](KValue row) {
    if (rows_) emit_.bind(rows_, row);
    for_each(emit_.i64(width), lanes_, [&](KValue column) {
      KValue active;
      if (!whole) active = first_lanes(b_.emit(Op::isub, {columns, column}), lanes_);
      b_.store(sums_.object, emit_.add(emit_.mul(row, emit_.i64(width)), column),
               evaluate(start_, {columns_, column, lanes_, active}));
    });
    if (rows_) emit_.unbind(rows_);
  });
}

}  // namespace poot::codegen::lowering
