// Math functions written once in KIR over a few primitives (scale, exponent and mantissa split,
// table look-up, fma). Argument and result are f32 (or f64 where stated), any number of lanes.
// Errors in ulp are tested over the whole range; special values as eager's.
#pragma once

#include "codegen/kir/kir.h"
#include "ir/op.h"

namespace poot::math {

// What the result is rounded to in the end: f32 or wider, or f16 or bf16. A GPU computes the latter
// with cheaper functions, within 1 ulp of the narrow type. Rounded: to bf16, at once, so that an
// error in proportion to the result is not magnified. Term: as Half, of a sum that has terms of
// moderate size, so that a denormal result may be 0.
enum class Accuracy : uint8_t { Full, Half, Rounded, Term };

// The KIR of one pointwise op on values already widened to opmath: floats as f32/f64, ints at their
// width, bool as I1 masks. `a` are the operands. Throws Unsupported if the op has none for the
// type.
kir::ValueId emit(kir::KirBuilder& b, ir::OpCode op, std::span<const kir::ValueId> a,
                  bool is_signed, Accuracy accuracy = Accuracy::Full);

// 1 + erf a on a GPU, for values that end as f16 or bf16; its relative error stays small where it
// is small.
kir::ValueId one_plus_erf_half(kir::KirBuilder& b, kir::ValueId a);
bool is_error_function(ir::OpCode op);
// a times the normal distribution's integral up to a, and e^a for a <= 0, likewise.
kir::ValueId gelu_half(kir::KirBuilder& b, kir::ValueId a);
kir::ValueId exp_below_maximum_half(kir::KirBuilder& b, kir::ValueId a);
// e^a on a GPU, as exact as any function of f32.
kir::ValueId gpu_exp(kir::KirBuilder& b, kir::ValueId a);

}  // namespace poot::math
