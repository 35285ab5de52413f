// Spreads iteration variables over a grid of tiles: rows x columns.
#pragma once

#include "codegen/generate/emit.h"
#include "codegen/target.h"
#include "passes/request.h"

namespace poot::codegen {

// Variables flattened into one index in [0, size): the last varies fastest.
struct Flat {
  std::vector<IterVar> vars;
  Dim size = 1;
};
Flat flatten(const Region& region, std::vector<IterVar> vars);
// Binds the variables of `flat`, given the flat index (`axes`: the tile axes it depends on).
void bind_flat(tile::TileBuilder& b, Emitter& emit, const Region& region, const Flat& flat,
               tile::IndexId index, uint32_t axes);

// One tile axis over [0, size) in blocks along a grid axis.
struct BlockedAxis {
  tile::AxisId axis;
  tile::IndexId index;  // first of the block + coordinate
};
// Covers [0, size) by blocks of `capacity` along `grid_axis`; needs no grid if one block covers it.
BlockedAxis blocked_axis(tile::TileBuilder& b, const SymbolTable& symbols, const char* name,
                         const Dim& size, int64_t capacity, uint32_t grid_axis);
// The same for rows. A GPU's block of one row has no axis for it: the row is the block.
BlockedAxis blocked_rows(tile::TileBuilder& b, const SymbolTable& symbols, const Target& target,
                         const Dim& size, int64_t capacity, uint32_t grid_axis);

// Elements of a block that keep a value's tile in the first-level cache and a launch short.
inline constexpr int64_t kBlockElems = 4096;
// The same for a target: on a GPU one vector a thread.
int64_t block_elems(const Target& target, const passes::KernelRequest& request);
// Bytes of the narrowest element that a request reads or writes.
int64_t narrowest_element(const passes::KernelRequest& request);
// Columns of a block: all of them if they fit in `limit`, else equal parts that are multiples
// of 64.
int64_t column_capacity(const Dim& size, const SymbolTable& symbols, int64_t limit = kBlockElems);
// Rows of a block, so that it has about `limit` elements.
int64_t row_capacity(const Dim& rows, const Dim& columns, int64_t capacity,
                     const SymbolTable& symbols, int64_t limit = kBlockElems);

}  // namespace poot::codegen
