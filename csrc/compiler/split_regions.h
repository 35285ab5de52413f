// Undoing fusion for chosen regions: the fallback when a region's kernel cannot be compiled.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace poot::compiler {

// Replaces each region equation i with split[i] by the equations of its body.
void split_regions(ir::Graph& graph, const std::vector<bool>& split);

}  // namespace poot::compiler
