// Math functions written once in KIR over a few primitives (scale, exponent and mantissa split,
// table look-up, fma). Argument and result are f32 (or f64 where stated), any number of lanes.
// Errors in ulp are tested over the whole range; special values as eager's.
#pragma once

#include "codegen/kir/kir.h"
#include "ir/op.h"

namespace poot::math {

// What the result is rounded to in the end: f32 or wider, or f16 or bf16. A GPU computes the latter
// with cheaper functions, within 1 ulp of the narrow type.
enum class Accuracy : uint8_t { Full, Half };

// The KIR of one pointwise op on values already widened to opmath: floats as f32/f64, ints at their
// width, bool as I1 masks. `a` are the operands. Throws Unsupported if the op has none for the
// type.
kir::ValueId emit(kir::KirBuilder& b, ir::OpCode op, std::span<const kir::ValueId> a,
                  bool is_signed, Accuracy accuracy = Accuracy::Full);

}  // namespace poot::math
