// n vectors of n elements each, turned: element j of vector i becomes element i of vector j.
#pragma once

#include <vector>

#include "codegen/kir/kir.h"

namespace poot::codegen::lowering {

// An element is `lanes` lanes side by side; n is a power of two.
void transpose(kir::KirBuilder& b, std::vector<kir::ValueId>& vectors, int32_t lanes = 1);

}  // namespace poot::codegen::lowering
