// Elementwise kernels with an operand that lies across the result: see transposed.cpp.
#pragma once

#include <optional>

#include "codegen/generate/iteration_space.h"
#include "codegen/target.h"
#include "codegen/tile/tile.h"

namespace poot::codegen {

// nullopt if no load of the region runs along another variable than the innermost.
std::optional<tile::Program> emit_transposed(const passes::KernelRequest& request,
                                             const Region& region, const Target& target);

}  // namespace poot::codegen
