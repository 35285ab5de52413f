// The functions of f64, one family a file: all within 1.5 ulp, except tan, sinh, asinh, acosh,
// atanh, asin and acos (2.5) and erfc (4), with the special values of their f32 namesakes.
#pragma once

#include "codegen/math/functions.h"

namespace poot::math::f64 {

// A number in two parts, |lo| <= ulp(hi) / 2 or about.
struct Pair {
  Expr hi, lo;
};
// a + b exactly; fast: where |a| >= |b| or a is 0.
inline Pair fast_two_sum(Expr a, Expr b) {
  const Expr s = a + b;
  return {s, (a - s) + b};
}
inline Pair two_sum(Expr a, Expr b) {
  const Expr s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
inline Pair two_product(Expr a, Expr b) {
  const Expr p = a * b;
  return {p, fma(a, b, -p)};
}

// exp_f64.cpp
Expr exp(const Args& in);
Expr exp2(const Args& in);
Expr expm1(const Args& in);
Expr sigmoid(const Args& in);
Expr tanh(const Args& in);
Expr sinh(const Args& in);
Expr cosh(const Args& in);
Expr exp_of(Pair x);  // e^(hi + lo)

// log_f64.cpp
Expr log(const Args& in);
Expr log2(const Args& in);
Expr log10(const Args& in);
Expr log1p(const Args& in);
Expr asinh(const Args& in);
Expr acosh(const Args& in);
Expr atanh(const Args& in);
// log(x + c) to about 2^-68 of itself; x positive and finite, |c| at most half its last place.
Pair log_pair(Expr x, Expr c);

// trig_f64.cpp, angle_f64.cpp
Expr sin(const Args& in);
Expr cos(const Args& in);
Expr tan(const Args& in);
Expr atan2(const Args& in);
Expr asin(const Args& in);
Expr acos(const Args& in);

// erf_f64.cpp, erfc.cpp, pow.cpp
Expr erf(const Args& in);
Expr erfc(const Args& in);
Expr pow(const Args& in);

}  // namespace poot::math::f64
