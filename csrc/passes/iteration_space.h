// When two shapes are one iteration space: the same elements in the same row-major order, so that
// a common refinement of their axes indexes both without division.
#pragma once

#include "support/dim.h"

namespace poot::passes {

// True for equal shapes, and for shapes that reshape turns into each other by splitting and
// joining axes along common cuts. "Unsure" (symbolic sizes that do not compare) is false.
bool same_space(const Shape& a, const Shape& b, const SymbolTable& symbols);

}  // namespace poot::passes
