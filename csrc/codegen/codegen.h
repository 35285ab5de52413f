// Codegen's front door: a request becomes a tile program, a tile program becomes KIR for a target.
#pragma once

#include "codegen/kir/kir.h"
#include "codegen/target.h"
#include "codegen/tile/tile.h"
#include "passes/request.h"

namespace poot::codegen {

// Writes the tile program of a request for a target's facts; throws Unsupported with the equation
// and what it lacks (a dtype, an op, a shape).
tile::Program generate(const passes::KernelRequest& request, const Target& target);

// Lowers a verified tile program. Dispatches on target.isa; each lowering is one folder's job.
kir::Kernel lower(const tile::Program& program, const Target& target);
kir::Kernel lower_cpu(const tile::Program& program, const Target& target);
kir::Kernel lower_gpu(const tile::Program& program, const Target& target);

}  // namespace poot::codegen
