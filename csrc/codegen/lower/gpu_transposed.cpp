// Loads that run along the rows of a block while its stores run along the columns: the workgroup
// reads its part of such a load in vectors along the rows, keeps it in workgroup memory with rows
// and columns exchanged, and all positions then read vectors along the columns:
//
//   thread t reads x [r .. r + 8, c]        r = 8 * (t mod 8), c = t / 8, t / 8 + 32, …
//   and writes it as kept [r + i, c ^ r']   for each i, r' the bits of r above the vector's
//   barrier
//   … kept [r, c .. c + 8] …                one access
//
// The exclusive or spreads the writes of a warp over the banks, and leaves the vectors that are
// read together in one piece. What lies outside the extents is not loaded and becomes 0.
#include <array>
#include <bit>

#include "codegen/lower/gpu_lowering.h"

namespace poot::codegen::lowering {

using kir::Op;
using kir::Pred;
using tile::AxisId;
using tile::ValueId;
using KValue = kir::ValueId;

namespace {

constexpr int64_t kWorkgroupBytes = 48 << 10;  // of a kernel without further measures

bool is_power_of_two(int64_t v) {
  return std::has_single_bit(static_cast<uint64_t>(v));
}

}  // namespace

std::vector<ValueId> GpuLowering::transposed_loads(const std::vector<Root>& roots) const {
  const tile::Program& p = facts_.program();
  if (emit_.bound_axes() != 0 || facts_.reduced_axes() != 0 || has_loops_) return {};
  int64_t bytes = 0;
  return turned_loads(roots, [&](ValueId v) {
    const int64_t rows = p.axes.at(roots[0].rows[0].index).capacity;
    const int64_t columns = p.axes.at(roots[0].column.index).capacity;
    const int64_t threads = threads_.count();
    if (!is_power_of_two(rows) || !is_power_of_two(columns) || rows > threads ||
        rows * columns < kLongestVector * threads)
      return false;
    const int64_t own = rows * columns * byte_size(p.type(v).dtype);
    if (bytes + own > kWorkgroupBytes) return false;
    bytes += own;
    return true;
  });
}

// Elements along the rows that one access reads: all of them are aligned, and lie inside the extent
// or outside.
uint16_t GpuLowering::turned_vector(ValueId v, AxisId row) const {
  const tile::Program& p = facts_.program();
  uint64_t n = gpu_vector(byte_size(p.type(v).dtype));
  for (const uint64_t factor : {facts_.known_factor(facts_.def(v)->index, row),
                                facts_.known_factor(p.axes.at(row.index).extent, {})})
    if (factor != 0) n = std::min(n, factor);
  return static_cast<uint16_t>(n);
}

void GpuLowering::keep_transposed(ValueId v, AxisId row, AxisId column) {
  kir::KirBuilder& b = emit_.builder();
  const tile::Program& p = facts_.program();
  const int64_t rows = p.axes.at(row.index).capacity, columns = p.axes.at(column.index).capacity;
  const DType dtype = p.type(v).dtype;
  const uint16_t lanes = turned_vector(v, row);
  kir::Object o;
  o.name = "turned" + std::to_string(v.index);
  o.kind = kir::ObjectKind::Workgroup;
  o.elem = storage_elem(dtype);
  o.writable = true;
  o.size = rows * columns;
  const KeptTile array{
      b.add_object(std::move(o)), {row, column}, std::max<int64_t>(lanes, vector_)};

  const KValue thread = b.emit(Op::sext, kir::Type{kir::Elem::I64, 1}, {b.thread_id()});
  const int64_t vectors = rows / lanes, threads = threads_.count();
  const KValue r = emit_.mul(b.emit(Op::band, {thread, emit_.i64(vectors - 1)}), emit_.i64(lanes));
  const KValue first = b.emit(
      Op::lshr, {thread, emit_.i64(std::countr_zero<uint64_t>(static_cast<uint64_t>(vectors)))});
  const auto inside = [&](AxisId axis, KValue at, int64_t capacity) {
    if (emit_.static_extent(axis) == capacity) return KValue();
    return b.icmp(Pred::slt, at, emit_.extent(axis));
  };
  const KValue in_rows = inside(row, r, rows);
  struct Part {
    KValue column, value;
  };
  std::vector<Part> parts;
  for (int64_t done = 0; done < columns; done += threads / vectors) {
    const KValue c = emit_.add(first, emit_.i64(done));
    emit_.set_predicate(emit_.both(in_rows, inside(column, c, columns)));
    emit_.push_scope();
    emit_.bind(column, c);
    emit_.bind_vector({row, r, lanes, {}});
    parts.push_back({c, emit_.to_storage(dtype, emit_.exact(v, lanes))});
    emit_.unbind_vector(row);
    emit_.unbind(column);
    emit_.pop_scope();
  }
  emit_.set_predicate({});
  for (const Part& part : parts) {
    const KValue at = emit_.swizzled(array, r, part.column);
    for (uint16_t i = 0; i < lanes; ++i)
      b.store(array.object, emit_.add(at, emit_.i64(i * columns)),
              lanes == 1 ? part.value : b.extract(part.value, i));
  }
  b.barrier();
  emit_.set_kept(v, array);
}

}  // namespace poot::codegen::lowering
