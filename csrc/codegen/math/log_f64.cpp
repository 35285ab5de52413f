// log x = e ln 2 - log T[i] + log1p(r), r = m T[i] - 1 exactly in two parts, where x = 2^e m and i
// is m's top seven bits. The leading parts of the first two terms are multiples of 2^-42, so their
// sum is exact; r and r^2 / 2 are added with their errors kept, the rest in one f64. So the result
// is a pair, good to 2^-68, from which every base and log1p follow by one rounding. Near x = 1 the
// first two terms are zero and the relative error stays.
#include <limits>

#include "codegen/math/functions_f64.h"
#include "codegen/math/tables_f64.h"

namespace poot::math::f64 {
namespace {

constexpr double kLn2Hi = 0x1.62e42fefa38p-1, kLn2Lo = 0x1.ef35793c7673p-45;

// Replaces y where x is not a positive finite number: zero, negative, infinity, NaN.
Expr with_limits(Expr y, Expr x) {
  const double inf = std::numeric_limits<double>::infinity();
  const Expr below_infinity = x.bits(0x7fefffffffffffff, Elem::I64);
  const Expr raw = x.as(Elem::I64);
  const Expr ordinary = compare(Pred::ult, raw - raw.bits(1), below_infinity);
  const Expr negative = select(compare(Pred::olt, x, 0), x.like(__builtin_nan("")), x);
  return select(ordinary, y, select(compare(Pred::oeq, x, 0), x.like(-inf), negative));
}

// A pair times a constant of two parts, rounded.
Expr scaled(Pair a, double hi, double lo) {
  const Pair p = two_product(a.hi, a.hi.like(hi));
  return p.hi + fma(a.hi, a.hi.like(lo), fma(a.lo, a.hi.like(hi), p.lo));
}

Expr log_of(Expr x) {
  return log_pair(x, x.like(0)).hi;
}

}  // namespace

Pair log_pair(Expr x, Expr c) {
  const Expr m = x.op1(Op::fmantissa);
  const Expr exponent = x.op1(Op::fexponent);
  const Expr index = (shr(m.as(Elem::I64), 45) & m.bits(127, Elem::I64)).to(Op::itrunc, Elem::I32);
  const Expr n = exponent.to(Op::sitofp, Elem::F64);
  const Expr e = select(compare(Pred::oge, m, 1.5), n + 1, n);
  const Expr t = lookup("log64_t", kLogT, index);
  const Pair product = two_product(m, t);
  const Expr r = product.hi - 1;
  const Expr r_lo = fma(fscale(c, -exponent), t, product.lo);
  const Expr first = fma(e, x.like(kLn2Hi), lookup("log64_hi", kLogHi, index));
  const Pair with_r = fast_two_sum(first, r);
  const Pair square = two_product(r, r);
  const Pair sum = fast_two_sum(with_r.hi, square.hi * -0.5);
  const Expr series =
      horner(r, {-1.0 / 10, 1.0 / 9, -1.0 / 8, 1.0 / 7, -1.0 / 6, 1.0 / 5, -1.0 / 4, 1.0 / 3});
  const Expr small = fma(e, x.like(kLn2Lo), lookup("log64_lo", kLogLo, index));
  const Expr tails = (with_r.lo + sum.lo) + fma(square.lo, x.like(-0.5), fma(-r, r_lo, r_lo));
  const Expr low = fma(square.hi * r, series, small + tails);
  return fast_two_sum(sum.hi, low);
}

Expr log(const Args& in) {
  return with_limits(log_of(in.a), in.a);
}

Expr log2(const Args& in) {
  const Pair l = log_pair(in.a, in.a.like(0));
  return with_limits(scaled(l, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56), in.a);
}

Expr log10(const Args& in) {
  const Pair l = log_pair(in.a, in.a.like(0));
  return with_limits(scaled(l, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57), in.a);
}

// 1 + x = u + c exactly.
Expr log1p(const Args& in) {
  const Expr x = in.a;
  const Pair u = two_sum(x.like(1), x);
  const Expr y = with_limits(log_pair(u.hi, u.lo).hi, u.hi);
  return select(compare(Pred::olt, abs(x), 0x1p-54), x, y);
}

namespace {

Expr log1p_of(Expr x) {
  return log1p({x, x, x, false});
}

}  // namespace

// log(a + sqrt(a^2 + 1)) as log1p(a + a^2 / (1 + sqrt(a^2 + 1))); from 2^28 on log(2 a).
Expr asinh(const Args& in) {
  const Expr a = abs(in.a);
  const Expr inside = fmin(a.like(0x1p28), a), square = inside * inside;
  const Expr root = (square + 1).op1(Op::fsqrt);
  const Expr low = log1p_of(inside + square / (root + 1));
  const Expr high = log({a, a, a, false}) + 0x1.62e42fefa39efp-1;
  return copysign(select(compare(Pred::fugt, a, 0x1p28), high, low), in.a);
}

// With t = x - 1: log1p(t + sqrt(t (t + 2))); NaN below 1.
Expr acosh(const Args& in) {
  const Expr x = in.a;
  const Expr t = fmin(x.like(0x1p28), x) - 1;
  const Expr low = log1p_of(t + (t * (t + 2)).op1(Op::fsqrt));
  const Expr high = log({x, x, x, false}) + 0x1.62e42fefa39efp-1;
  const Expr y = select(compare(Pred::fugt, x, 0x1p28), high, low);
  return select(compare(Pred::olt, x, 1), x.like(__builtin_nan("")), y);
}

Expr atanh(const Args& in) {
  const Expr a = abs(in.a);
  return copysign(log1p_of((a + a) / (a.like(1) - a)) * 0.5, in.a);
}

}  // namespace poot::math::f64
