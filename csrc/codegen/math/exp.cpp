// e^x = 2^n * e^r with n = round(x / ln 2), |r| <= ln2/2, r kept to f32 by a two-constant
// reduction. Adding 1.5 * 2^23 rounds to an integer in two instructions. The scale instruction
// takes denormal results and overflow without a branch; clamps put NaN second, so that it survives
// them. exp itself has the reduction and the polynomial of SLEEF's 1 ulp form, which eager's
// vectors of f32 use: silu, sigmoid and softmax have its bits.
#include "codegen/math/functions.h"

namespace poot::math {
namespace {

constexpr double kLog2E = 0x1.715476p+0;
constexpr double kLn2Hi = 0x1.62e43p-1, kLn2Lo = -0x1.05c61p-29;
constexpr double kRound = 0x1.8p+23;

// The nearest integer to x * c, |x * c| < 2^22.
Expr round_product(Expr x, double c) {
  return fma(x, x.like(c), x.like(kRound)) - kRound;
}

// e^r - 1 on |r| <= ln2/2, relative error 2^-28.
Expr expm1_polynomial(Expr r) {
  const Expr q =
      horner(r, {0x1.6a5c72p-10, 0x1.123aeap-7, 0x1.5558a4p-5, 0x1.55549p-3, 0x1.fffffcp-2});
  return fma(r * r, q, r);
}

// e^(x - n ln2) - 1
Expr reduced(Expr x, Expr n) {
  return expm1_polynomial(fma(n, x.like(-kLn2Lo), fma(n, x.like(-kLn2Hi), x)));
}

Expr clamp(Expr x, double lo, double hi) {
  return fmax(x.like(lo), fmin(x.like(hi), x));
}

}  // namespace

Expr exp(const Args& in) {
  constexpr double kUpper = 0x1.62e4p-1, kLower = 0x1.7f7d1cp-20;  // of ln 2
  const Expr x = clamp(in.a, -105, 89);
  const Expr n = (x * kLog2E).op1(Op::frint);
  const Expr r = fma(n, x.like(-kLower), fma(n, x.like(-kUpper), x));
  const Expr q = horner(
      r, {0.000198527617612853646278381, 0.00139304355252534151077271, 0.00833336077630519866943359,
          0.0416664853692054748535156, 0.166666671633720397949219, 0.5});
  return fscale_whole(fma(r * r, q, r) + 1, n);
}

// For values that end as f16 or bf16: a term less.
Expr exp_ending_narrow(const Args& in) {
  const Expr x = clamp(in.a, -105, 89);
  const Expr n = round_product(x, kLog2E);
  return fscale_whole(reduced(x, n) + 1, n);
}

// The fraction is exact; times ln2 it is t + tl.
Expr exp2(const Args& in) {
  const Expr x = clamp(in.a, -152, 129);
  const Expr n = round_product(x, 1);
  const Expr f = x - n;
  const Expr t = f * kLn2Hi;
  const Expr tl = fma(f, t.like(kLn2Lo), fma(f, t.like(kLn2Hi), -t));
  const Expr p = expm1_polynomial(t) + tl;
  return fscale_whole(p + 1, n);
}

// 2^n (p + 1) - 1 from halves, so that n = 128 does not overflow early. Below 2^-24 the result is
// x: the halves would lose the last bit of a denormal.
Expr expm1(const Args& in) {
  const Expr x = clamp(in.a, -30, 89);
  const Expr n = round_product(x, kLog2E);
  const Expr s = fscale_whole(x.like(1), n - 1);
  const Expr half = fma(s, reduced(x, n), s - 0.5);
  const Expr tiny = compare(Pred::olt, abs(in.a), 0x1p-24);
  return select(tiny, in.a, copysign(half + half, in.a));
}

// 1 / (1 + e) or e / (1 + e) with e = e^-|x|. The tails of e and of 1 + e enter the quotient's
// residual step.
Expr sigmoid(const Args& in) {
  const Expr x = in.a;
  const Expr z = fmax(x.like(-105), -abs(x));
  const Expr n = round_product(z, kLog2E);
  const Expr p = reduced(z, n);
  const Expr s = fscale_whole(x.like(1), n);
  const Expr e = fma(s, p, s);
  const Expr e_tail = fma(s, p, s - e);
  const Expr t = s + 1;
  const Expr d = fma(s, p, t);
  const Expr d_tail = fma(s, p, t - d);
  const Expr negative = compare(Pred::olt, x, 0);
  const Expr numerator = select(negative, e, x.like(1));
  const Expr numerator_tail = select(negative, e_tail, x.like(0));
  const Expr y = x.like(1) / d;
  const Expr q = numerator * y;
  const Expr residual = fma(-d, q, numerator) + fma(-d_tail, q, numerator_tail);
  return fma(residual, y, q);
}

}  // namespace poot::math
