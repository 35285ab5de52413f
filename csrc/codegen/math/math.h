// Math functions written once in KIR over a few primitives (scale, exponent and mantissa split,
// table look-up, fma). Argument and result are f32 (or f64 where stated), any number of lanes.
// Errors in ulp are tested over the whole range; special values as eager's.
#pragma once

#include "codegen/kir/kir.h"
#include "ir/op.h"

namespace poot::math {

// The KIR of one pointwise op on values already widened to opmath: floats as f32/f64, ints at their
// width, bool as I1 masks. `a` are the operands. Throws Unsupported if the op has none for the
// type.
kir::ValueId emit(kir::KirBuilder& b, ir::OpCode op, std::span<const kir::ValueId> a,
                  bool is_signed);

}  // namespace poot::math
