// Reductions as tile ops, and the shape of a body's reductions.
#pragma once

#include "codegen/generate/iteration_space.h"
#include "codegen/target.h"
#include "codegen/tile/tile.h"

namespace poot::codegen {

ir::Scalar reduction_identity(ir::OpCode reduction, DType accumulate);
bool has_moments(const Region& region);         // which are taken of whole rows
ir::OpCode combining_op(ir::OpCode reduction);  // reduce_sum -> add

// What a body's reductions cover: sizes of the kept and the reduced dims of the widest operand.
// Reductions over size-1 dims only do not count; nullopt if there are no others.
struct ReductionShape {
  Shape kept, reduced;
  bool trailing = true;  // the reduced dims are the last ones
};
// Whether some sum asks for an order of a row along memory.
bool adds_in_order(const Region& region);
std::optional<ReductionShape> reduction_shape(const ir::Graph& body);

// The region of a body with reductions: Free variables over the kept dims, Reduced ones over the
// others. Every output has the elements of the kept dims, or (`full_outputs`) of both, kept first.
Region reduction_region(const passes::KernelRequest& request, const ReductionShape& shape,
                        bool full_outputs);

// Writes rows x columns kernels, columns being the reduced dims: see row.cpp. `resident_limit`: the
// longest row that a CPU reduces in one piece.
tile::Program emit_rows(const passes::KernelRequest& request, const Region& region,
                        const Target& target, int64_t resident_limit);

// The body's reductions by how many others each needs: level 0 needs none.
std::vector<std::vector<NodeId>> reduction_levels(const Region& region);

// Whether more loads are contiguous along the innermost kept variable than along the reduced one.
bool runs_across(const Region& region);
// Columns along the innermost kept variable, a loop over the reduced positions: see across.cpp.
tile::Program emit_across(const passes::KernelRequest& request, const Region& region,
                          const Target& target);

// Blocks of rows that are transposed, where operands run across the rows and a result along them:
// see turned_rows.cpp. Nullopt for regions that are not such.
std::optional<tile::Program> emit_turned_rows(const passes::KernelRequest& request,
                                              const Region& region, const Target& target);

// One part of the reduced positions a block, for reductions of few rows: see partial_rows.cpp.
tile::Program emit_partial_rows(const passes::KernelRequest& request, const Region& region,
                                const Target& target);

}  // namespace poot::codegen
