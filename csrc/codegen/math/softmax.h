// What the lowering knows of softmax and its kin: how values depend on the maximum that is
// subtracted.
#pragma once

#include <optional>

#include "codegen/kir/kir.h"
#include "ir/op.h"

namespace poot::math {

// With the maximum m of the x:
enum class Part : uint8_t {
  None,         // does not change with m
  Maximum,      // m
  Shifted,      // x - m
  Exponential,  // e^(x - m)
  Sum,          // of these (the caller's to find)
  LogSum,       // its logarithm
  Inverse,      // its reciprocal
};

// The part that a pointwise op makes of parts, not all None; nullopt: it depends on m in some other
// way. An op of one operand has None for b.
std::optional<Part> part_of(ir::OpCode op, Part a, Part b);

bool is_exponential(ir::OpCode op);

// e^x in f32 for a difference x from a maximum, or from a guess at it.
kir::ValueId exp_of_difference(kir::KirBuilder& b, kir::ValueId x);

}  // namespace poot::math
