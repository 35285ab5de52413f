// How dear one element of a pointwise op is, in the classes that cost models and lowerings tell
// apart.
#pragma once

#include "ir/op.h"

namespace poot::ir {

enum class CostClass : uint8_t {
  Simple,          // one or a few vector instructions
  Divide,          // division, square root
  Transcendental,  // a polynomial of ten to thirty instructions
  Power,           // pow, atan2 and what else goes through f64
  Modulo,          // exact remainders and floor divisions; integers have no vector form
};

CostClass cost_class(OpCode op);

}  // namespace poot::ir
