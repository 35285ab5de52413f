// The generators, one a request kind.
#pragma once

#include "codegen/codegen.h"

namespace poot::codegen {

tile::Program generate_elementwise(const passes::KernelRequest& request, const Target& target);
tile::Program generate_row(const passes::KernelRequest& request, const Target& target);
tile::Program generate_reduce(const passes::KernelRequest& request, const Target& target);
tile::Program generate_scatter(const passes::KernelRequest& request, const Target& target);

}  // namespace poot::codegen
