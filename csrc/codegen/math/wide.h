// f64 building blocks of f32 functions: far more accurate than one rounding to f32 needs, far less
// than an f64 function would. Arguments are f64; what they may be stands beside each.
#pragma once

#include "codegen/math/expr.h"

namespace poot::math {

inline Expr widen(Expr x) {
  return x.to(Op::fpext, Elem::F64);
}
inline Expr narrow(Expr x) {
  return x.to(Op::fptrunc, Elem::F32);
}

// e^x, relative error 2^-45; |x| <= 700, NaN allowed.
Expr wide_exp(Expr x);
// log x, relative error 2^-40 of the logarithm, near 1 too; x positive, normal and finite.
Expr wide_log(Expr x);
// The angle of the point (x, y) in (-pi, pi], with atan2's zeros, infinities and NaN; relative
// error 2^-40.
Expr wide_angle(Expr y, Expr x);

}  // namespace poot::math
