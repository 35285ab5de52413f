// Loads that run along the rows of a nest while its stores run along the columns: x + y.t(), copies
// of permuted tensors. A gather would touch a cache line an element. Instead the block's part of
// such a load is read in vectors along the rows, n vectors of n lanes at a time, transposed in
// registers, and kept in an array that the nest then reads along its columns:
//
//   a0 a1 a2 a3      a0 b0 c0 d0     step k exchanges, between vectors i and i + k, the lanes that
//   b0 b1 b2 b3  ->  a1 b1 c1 d1     differ in bit k: two shuffles a pair, log2(n) steps in all
//   …
//
// Columns beyond the extent repeat the last one and lanes beyond the rows are not read, so that the
// array is written in whole vectors. A GPU's part is in gpu_transposed.cpp.
#include <algorithm>
#include <array>

#include "codegen/lower/block_lowering.h"
#include "codegen/lower/transpose.h"

namespace poot::codegen::lowering {

using kir::Elem;
using kir::Op;
using tile::AxisId;
using tile::ValueId;
using KValue = kir::ValueId;

namespace {

constexpr int64_t kMostLanes = 16;  // of a transpose: its vectors and a few more stay in registers

int64_t transpose_lanes(const Target& target, DType d) {
  return std::min(kMostLanes, target.vector_bytes / byte_size(d));
}

}  // namespace

void transpose(kir::KirBuilder& b, std::vector<KValue>& v, int32_t lanes) {
  const auto n = static_cast<int32_t>(v.size());
  for (int32_t bit = 1; bit < n; bit *= 2) {
    std::vector<int32_t> low, high;  // lanes of a ++ b
    for (int32_t l = 0; l < n * lanes; ++l) {
      const int32_t e = l / lanes, within = l % lanes;
      const bool set = (e & bit) != 0;
      low.push_back((set ? n + (e ^ bit) : e) * lanes + within);
      high.push_back((set ? n + e : e | bit) * lanes + within);
    }
    for (int32_t i = 0; i < n; ++i) {
      if ((i & bit) != 0) continue;
      const auto at = static_cast<size_t>(i), beside = static_cast<size_t>(i | bit);
      const KValue first = b.shuffle(v[at], v[beside], low);
      v[beside] = b.shuffle(v[at], v[beside], high);
      v[at] = first;
    }
  }
}

// Loads under the nest's roots that are contiguous along its only row axis and strided along its
// column, and accepted.
std::vector<ValueId> BlockLowering::turned_loads(const std::vector<Root>& roots,
                                                 const std::function<bool(ValueId)>& accept) const {
  if (roots.empty() || roots[0].rows.size() != 1 || !roots[0].column) return {};
  const AxisId row = roots[0].rows[0], column = roots[0].column;
  for (const Root& r : roots)
    if (r.column != column) return {};
  const tile::Program& p = facts_.program();
  const AxisSet both = TileFacts::bit(row) | TileFacts::bit(column);
  const auto turned = [&](const tile::Inst& inst) {
    const AxisSet deps = facts_.deps(inst.index);
    return inst.mask.empty() && !p.buffers.at(inst.buffer.index).shared && (deps & both) == both &&
           (deps & ~(both | emit_.bound_axes())) == 0 &&
           tile::const_stride(p, inst.index, row) == 1 &&
           tile::const_stride(p, inst.index, column) != 1;
  };
  std::vector<ValueId> out;
  std::unordered_set<uint32_t> seen;
  const auto visit = [&](auto&& self, ValueId v) -> void {
    if (!seen.insert(v.index).second || emit_.is_kept(v)) return;
    const tile::Inst* inst = facts_.def(v);
    if (inst == nullptr || is_control(*inst) || facts_.reduces(*inst)) return;
    if (inst->op == tile::Op::load && turned(*inst) && accept(v)) out.push_back(v);
    for (ValueId a : facts_.operands(*inst)) self(self, a);
  };
  for (const Root& r : roots)
    for (ValueId v : root_operands(r)) visit(visit, v);
  return out;
}

std::vector<ValueId> BlockLowering::transposed_loads(const std::vector<Root>& all) const {
  // What has one element a row needs these loads by way of reductions only.
  std::vector<Root> roots;
  for (const Root& r : all)
    if (r.column) roots.push_back(r);
  return turned_loads(roots, [&](ValueId v) {
    const std::array axes{roots[0].rows[0], roots[0].column};
    const int64_t n = transpose_lanes(target_, facts_.program().type(v).dtype);
    return fits(v, axes) && std::ranges::all_of(axes, [&](AxisId a) {
             return facts_.program().axes.at(a.index).capacity % n == 0;
           });
  });
}

// One block of n rows from `r0` and n columns from `c0`.
void BlockLowering::keep_transposed(ValueId v, const KeptTile& array, const TransposedBlock& at) {
  kir::KirBuilder& b = emit_.builder();
  const AxisId row = array.axes[0], column = array.axes[1];
  const DType dtype = facts_.program().type(v).dtype;
  const auto n = static_cast<uint16_t>(transpose_lanes(target_, dtype));
  const auto at_position = [&](AxisId scalar, KValue coordinate, const Emitter::VectorAxis& vector,
                               auto&& body) {
    emit_.push_scope();
    emit_.bind(scalar, coordinate);
    emit_.bind_vector(vector);
    body();
    emit_.unbind_vector(vector.axis);
    emit_.unbind(scalar);
    emit_.pop_scope();
  };
  const Elem stored = storage_elem(dtype), moved = is_half(dtype) ? Elem::I16 : stored;
  const auto as = [&](Elem e, KValue x) {
    return b.type(x).elem == e ? x : b.emit(Op::bitcast, b.type(x).with(e), {x});
  };
  std::vector<KValue> vectors;
  for (uint16_t k = 0; k < n; ++k) {
    KValue c = emit_.add(at.column, emit_.i64(k));
    if (at.last_column) c = b.emit(Op::smin, {c, at.last_column});
    at_position(column, c, {row, at.row, n, at.rows_left},
                [&] { vectors.push_back(as(moved, emit_.to_storage(dtype, emit_.exact(v, n)))); });
  }
  transpose(b, vectors);
  for (uint16_t k = 0; k < n; ++k)
    at_position(row, emit_.add(at.row, emit_.i64(k)), {column, at.column, n, {}},
                [&] { emit_.keep(v, array, emit_.from_storage(dtype, as(stored, vectors[k]))); });
}

void BlockLowering::keep_transposed(ValueId v, AxisId row, AxisId column) {
  kir::KirBuilder& b = emit_.builder();
  const KeptTile array = new_array(v, {row, column});
  const int64_t n = transpose_lanes(target_, facts_.program().type(v).dtype);
  const KValue rows = emit_.extent(row), columns = emit_.extent(column);
  const auto whole = [&](AxisId a) {
    const auto extent = emit_.static_extent(a);
    return extent && *extent % n == 0;
  };
  const auto loop = [&](KValue to, auto&& body) {
    b.for_loop(emit_.i64(0), to, emit_.i64(n), {}, [&](KValue i, std::span<const KValue>) {
      emit_.push_scope();
      body(i);
      emit_.pop_scope();
      return std::vector<KValue>{};
    });
  };
  // Every column is another page, of which each pass takes a line: it asks for the next.
  if (exceeds_cache()) emit_.stream_ahead(row, 64);
  loop(rows, [&](KValue r) {
    TransposedBlock at{.row = r};
    if (!whole(row)) {
      const kir::Type t{Elem::I64, static_cast<uint16_t>(n)};
      at.rows_left = b.icmp(kir::Pred::slt, b.emit(Op::lane_ids, t, {}),
                            b.splat(b.emit(Op::isub, {rows, r}), t.lanes));
    }
    const KValue done = whole(column) ? columns : b.emit(Op::band, {columns, emit_.i64(-n)});
    loop(done, [&](KValue c) {
      at.column = c;
      keep_transposed(v, array, at);
    });
    if (whole(column)) return;
    b.if_else(
        b.icmp(kir::Pred::slt, done, columns),
        [&] {
          emit_.push_scope();
          at.column = done;
          at.last_column = emit_.add(columns, emit_.i64(-1));
          keep_transposed(v, array, at);
          emit_.pop_scope();
          return std::vector<KValue>{};
        },
        [] { return std::vector<KValue>{}; });
  });
  emit_.stream_ahead({}, 0);
  emit_.set_kept(v, array);
}

}  // namespace poot::codegen::lowering
