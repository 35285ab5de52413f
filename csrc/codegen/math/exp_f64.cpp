// e^x = 2^n (1 + p) with n = round(x / ln 2) and p = e^r - 1, r = x - n ln 2 kept in two parts:
// n times the leading part of ln 2 is exact. The series of e^r - 1 is short enough to be Taylor's.
// Functions of e^x + 1 or e^x - 1 keep the tails of numerator and denominator, which enter the
// quotient's residual step.
#include "codegen/math/functions_f64.h"

namespace poot::math::f64 {
namespace {

constexpr double kLog2E = 0x1.71547652b82fep+0;
constexpr double kLn2Hi = 0x1.62e42fefa38p-1, kLn2Lo = 0x1.ef35793c7673p-45;
// Adding it leaves an integer below 2^51 in the low bits of the sum.
constexpr double kRound = 0x1.8p+52;
constexpr uint64_t kRoundBits = 0x4338000000000000;

struct Rounded {
  Expr n, as_int;
};
Rounded round_product(Expr x, double c) {
  const Expr shifted = fma(x, x.like(c), x.like(kRound));
  const Expr low_bits = shifted.as(Elem::I64) - x.bits(kRoundBits, Elem::I64);
  return {shifted - kRound, low_bits.to(Op::itrunc, Elem::I32)};
}

// e^(r + lo) - 1 - r, |r| <= ln2 / 2.
Expr rest_of_series(Expr r, Expr lo) {
  const Expr q =
      horner(r, {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5});
  return fma(r * r, q, lo);
}

struct Reduced {
  Expr r, lo, exponent;
  Expr less_one() const { return r + rest_of_series(r, lo); }  // e^(r + lo) - 1
};
Reduced reduce(Expr x) {
  const Rounded n = round_product(x, kLog2E);
  const Expr first = fma(n.n, x.like(-kLn2Hi), x);
  const Expr t = n.n * kLn2Lo;
  const Expr r = first - t;
  return {r, (first - r) - t, n.as_int};
}

Expr clamp(Expr x, double lo, double hi) {
  return fmax(x.like(lo), fmin(x.like(hi), x));
}

// (n + n_tail) / (d + d_tail)
Expr quotient(Expr n, Expr n_tail, Expr d, Expr d_tail) {
  const Expr y = n.like(1) / d;
  const Expr q = n * y;
  const Expr residual = fma(-d, q, n) + fma(-d_tail, q, n_tail);
  return fma(residual, y, q);
}

// s p + t in two parts, for |t| >= |s p| or t = 0.
Pair scaled_sum(Expr s, Expr p, Pair t) {
  const Expr sum = fma(s, p, t.hi);
  return {sum, fma(s, p, t.hi - sum) + t.lo};
}

}  // namespace

Expr exp_of(Pair x) {
  const Expr inside = clamp(x.hi, -746, 710);
  const Reduced in = reduce(inside);
  const Expr lo = select(compare(Pred::oeq, inside, x.hi), x.lo, x.hi.like(0));
  const Expr rest = rest_of_series(in.r, in.lo);
  const Expr p = in.r + rest;  // e^lo - 1 is lo
  return fscale((in.r + (rest + fma(lo, p, lo))) + 1, in.exponent);
}

Expr exp(const Args& in) {
  const Reduced x = reduce(clamp(in.a, -746, 710));
  return fscale(x.less_one() + 1, x.exponent);
}

// The fraction is exact; times ln 2 it is r + lo.
Expr exp2(const Args& in) {
  const Expr x = clamp(in.a, -1076, 1025);
  const Rounded n = round_product(x, 1);
  const Expr f = x - n.n;
  const Expr r = f * 0x1.62e42fefa39efp-1;
  const Expr lo = fma(f, x.like(0x1.abc9e3b39803fp-56), fma(f, x.like(0x1.62e42fefa39efp-1), -r));
  return fscale((r + rest_of_series(r, lo)) + 1, n.as_int);
}

// 2^n (p + 1) - 1 from halves, so that n = 1024 does not overflow early.
Expr expm1(const Args& in) {
  const Reduced x = reduce(clamp(in.a, -60, 710));
  const Expr s = fscale(in.a.like(1), x.exponent - 1);
  const Expr half = fma(s, x.less_one(), s - 0.5);
  const Expr tiny = compare(Pred::olt, abs(in.a), 0x1p-54);
  return select(tiny, in.a, copysign(half + half, in.a));
}

// 1 / (1 + e) or e / (1 + e) with e = e^-|x|.
Expr sigmoid(const Args& in) {
  const Expr x = in.a;
  const Reduced z = reduce(fmax(x.like(-746), -abs(x)));
  const Expr p = z.less_one();
  const Expr s = fscale(x.like(1), z.exponent);
  const Pair e = scaled_sum(s, p, {s, s.like(0)});
  const Pair d = scaled_sum(s, p, fast_two_sum(s.like(1), s));
  const Expr negative = compare(Pred::olt, x, 0);
  const Expr n = select(negative, e.hi, x.like(1)), n_tail = select(negative, e.lo, x.like(0));
  return quotient(n, n_tail, d.hi, d.lo);
}

// (e^2|x| - 1) / (e^2|x| + 1)
Expr tanh(const Args& in) {
  const Expr x = in.a;
  const Expr a = abs(x);
  const Reduced z = reduce(fmin(x.like(44), a + a));
  const Expr p = z.less_one();
  const Expr s = fscale(x.like(1), z.exponent);
  const Pair n = scaled_sum(s, p, fast_two_sum(s, s.like(-1)));
  const Pair d = scaled_sum(s, p, fast_two_sum(s, s.like(1)));
  const Expr tiny = compare(Pred::olt, a, 0x1p-28);
  return copysign(select(tiny, a, quotient(n.hi, n.lo, d.hi, d.lo)), x);
}

// Half of e^|x|, h, from h - 1 / (4 h); below 1 from t = e^|x| - 1 as (t + t / (t + 1)) / 2.
Expr sinh(const Args& in) {
  const Expr a = abs(in.a);
  const Reduced z = reduce(fmin(a.like(712), a));
  const Expr h = fscale(z.less_one() + 1, z.exponent - 1);
  const Expr t = expm1({fmin(a.like(1), a), a, a, false});
  const Expr low = (t + t / (t + 1)) * 0.5;
  const Expr y = select(compare(Pred::olt, a, 1), low, h - a.like(0.25) / h);
  return copysign(select(compare(Pred::olt, a, 0x1p-28), a, y), in.a);
}

Expr cosh(const Args& in) {
  const Expr a = abs(in.a);
  const Reduced z = reduce(fmin(a.like(712), a));
  const Expr h = fscale(z.less_one() + 1, z.exponent - 1);
  return h + a.like(0.25) / h;
}

}  // namespace poot::math::f64
