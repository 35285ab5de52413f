// The generators, one a request kind. What lowerings may rely on, beyond tile.def:
// - Tiles have rank 0, 1 ([c]) or 2 ([r, c]); c is the innermost axis and the one to vectorise.
// - A value has exactly the axes that it depends on; what is uniform has rank 0.
// - Grid axis 0 counts column blocks (row blocks in row kernels), axis 1 row blocks. An axis with
//   one block has no block_id.
// - Axis r of a kernel is in every store and check that stands beside a loop over tiles with r.
// - A program with dots has them outside loops, over c, with at most one other axis, r; what
//   follows them has r alone.
// - Loops (for_) carry partial results of reductions and scans only, as [r, -], [-] or [c] tiles.
// - Scans run along c, in chunks that a GPU's threads keep in registers.
// - Elements are written once, by one block, except by a scatter with equal slots: those rows are
//   written by one block, where blocks divide the columns by one thread of them, in the order of
//   the slots. Where a request asks for any order, combine writes them.
// - Loads are inside their buffers at every position inside the extents where the mask holds.
#pragma once

#include "codegen/codegen.h"

namespace poot::codegen {

tile::Program generate_elementwise(const passes::KernelRequest& request, const Target& target);
tile::Program generate_row(const passes::KernelRequest& request, const Target& target);
tile::Program generate_reduce(const passes::KernelRequest& request, const Target& target);
tile::Program generate_scan(const passes::KernelRequest& request, const Target& target);
tile::Program generate_contraction(const passes::KernelRequest& request, const Target& target);
tile::Program generate_scatter(const passes::KernelRequest& request, const Target& target);

}  // namespace poot::codegen
