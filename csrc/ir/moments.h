// Reductions that are moments of whole rows: no fold of parts gives them.
#pragma once

#include "ir/op.h"

namespace poot::ir {

constexpr bool is_moment(OpCode op) {
  return op == OpCode::welford_mean || op == OpCode::welford_squares;
}

}  // namespace poot::ir
