// A block covers whole rows of columns where they are short, so that 64 columns do not make a block
// of 64 elements; rows are counted through all outer variables, which are then found by division
// once a row.
#include "codegen/generate/spread.h"

#include <algorithm>

#include "codegen/lower/gpu_threads.h"

namespace poot::codegen {

Flat flatten(const Region& region, std::vector<IterVar> vars) {
  Flat flat;
  for (const IterVar& v : vars) flat.size = flat.size * region.extent(v);
  flat.vars = std::move(vars);
  return flat;
}

void bind_flat(tile::TileBuilder& b, Emitter& emit, const Region& region, const Flat& flat,
               tile::IndexId index, uint32_t axes) {
  Dim inner = 1;
  for (size_t i = flat.vars.size(); i-- > 0;) {
    const Dim extent = region.extent(flat.vars[i]);
    tile::IndexId at = index;
    // An empty variable has no positions: any index along the axes will do.
    if (!extent.is_const(0)) {
      at = b.div(index, b.dim(inner));
      if (i > 0) at = b.mod(at, b.dim(extent));
      inner = inner * extent;
    }
    emit.bind(flat.vars[i].atom, {at, axes});
  }
}

BlockedAxis blocked_axis(tile::TileBuilder& b, const SymbolTable& symbols, const char* name,
                         const Dim& size, int64_t capacity, uint32_t grid_axis) {
  const tile::IndexId extent = b.dim(size);
  if (size.range(symbols).hi <= capacity) {
    const tile::AxisId a = b.axis(name, capacity, extent);
    return {a, b.coord(a)};
  }
  b.grid(grid_axis, Dim::ceildiv(size, capacity));
  const tile::IndexId first = b.mul(b.scalar(b.block_id(grid_axis)), b.cst(capacity));
  const tile::IndexId left = b.add(extent, b.mul(first, b.cst(-1)));
  const tile::AxisId a = b.axis(name, capacity, b.min(b.cst(capacity), left));
  return {a, b.add(first, b.coord(a))};
}

BlockedAxis blocked_rows(tile::TileBuilder& b, const SymbolTable& symbols, const Target& target,
                         const Dim& size, int64_t capacity, uint32_t grid_axis) {
  if (target.isa == Isa::X86 || capacity > 1)
    return blocked_axis(b, symbols, "r", size, capacity, grid_axis);
  b.grid(grid_axis, size);
  return {tile::AxisId(), b.scalar(b.block_id(grid_axis))};
}

int64_t narrowest_element(const passes::KernelRequest& request) {
  const ir::Graph& body = *request.body;
  int64_t bytes = kVectorBytes;
  for (const ir::ValueId v : body.inputs()) bytes = std::min(bytes, byte_size(body.type(v).dtype));
  for (const auto& o : body.outputs()) bytes = std::min(bytes, byte_size(body.type(o.value).dtype));
  return bytes;
}

int64_t block_elems(const Target& target, const passes::KernelRequest& request) {
  if (target.isa == Isa::X86) return kBlockElems;
  return kPointwiseThreads * gpu_vector(narrowest_element(request));
}

int64_t column_capacity(const Dim& size, const SymbolTable& symbols, int64_t limit) {
  const int64_t most = size.range(symbols).hi;
  if (most <= limit) return std::max<int64_t>(most, 1);
  if (!size.is_const()) return limit;
  const int64_t blocks = (size.value() + limit - 1) / limit;
  return ((size.value() + blocks - 1) / blocks + 63) / 64 * 64;
}

int64_t row_capacity(const Dim& rows, const Dim& columns, int64_t capacity,
                     const SymbolTable& symbols, int64_t limit) {
  const int64_t width = std::clamp<int64_t>(columns.hint(symbols), 1, capacity);
  const int64_t most = std::max<int64_t>(rows.range(symbols).hi, 1);
  return std::clamp<int64_t>(limit / width, 1, most);
}

}  // namespace poot::codegen
