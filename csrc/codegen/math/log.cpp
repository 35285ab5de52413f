// log x = e * log 2 + L[i] + log1p(m * T[i] - 1), where x = 2^e * m and i is m's top four bits (see
// tables.h). Near x = 1 both e and L are zero, so the relative error stays that of the polynomial.
// Sums run from the largest part down, each tail kept.
#include <limits>

#include "codegen/math/functions.h"
#include "codegen/math/tables.h"

namespace poot::math {
namespace {

constexpr double kLn2Hi = 0x1.62e43p-1, kLn2Lo = -0x1.05c61p-29;

struct Split {
  Expr index;     // of the tables
  Expr mantissa;  // in [1, 2)
  Expr exponent;  // f32; one higher where the mantissa counts as below 1
};

Split split(Expr x) {
  const Expr m = x.op1(Op::fmantissa);
  const Expr e = x.op1(Op::fexponent).to(Op::sitofp, Elem::F32);
  const Expr index = shr(m.as(Elem::I32), 19) & m.like(15, Elem::I32);
  const Expr up = compare(Pred::oge, m, 1.5);
  return {index, m, select(up, e + 1, e)};
}

// (log1p(r) - r) / r^2 on [-1/32, 1/16], relative error of the whole 2^-33.
Expr tail_polynomial(Expr r) {
  return horner(r, {-0x1.3ed2bcp-3, 0x1.999b72p-3, -0x1.000306p-2, 0x1.55555ap-2, -0.5});
}

// Replaces y where x is not a positive finite number: zero, negative, infinity, NaN.
Expr with_limits(Expr y, Expr x) {
  const double inf = std::numeric_limits<double>::infinity();
  const Expr ordinary = compare(Pred::ult, x.as(Elem::I32) - 1, x.bits(0x7f7fffff, Elem::I32));
  const Expr nan = x.bits(0x7fc00000);
  const Expr negative = select(compare(Pred::olt, x, 0), nan, x);
  const Expr limit = select(compare(Pred::oeq, x, 0), x.like(-inf), negative);
  return select(ordinary, y, limit);
}

// The logarithm to a base b: scale is 1 / ln b and two is log_b 2, each in two parts; two_hi is
// short, so that its product with an exponent is exact. The tables hold log_b of the reciprocals.
Expr log_to_base(Expr x, std::span<const float> hi_table, std::span<const float> lo_table,
                 double scale_hi, double scale_lo, double two_hi, double two_lo) {
  const Split s = split(x);
  const Expr r = fma(s.mantissa, lookup("log_t", kLogT, s.index), x.like(-1));
  const Expr l = lookup("log_hi", hi_table, s.index);
  const Expr l_tail = lookup("log_lo", lo_table, s.index);
  const Expr hi = fma(s.exponent, x.like(two_hi), l);
  const Expr hi_tail = l + fma(s.exponent, x.like(two_hi), -hi);
  // log1p(r) = r + r^2 q, scaled: p + p_tail
  const Expr rest = r * r * tail_polynomial(r);
  const Expr p = r * scale_hi;
  const Expr p_tail = fma(r, x.like(scale_hi), -p) + fma(rest, x.like(scale_hi), r * scale_lo);
  const Expr sum = hi + p;
  const Expr sum_tail = (hi - sum) + p;
  const Expr low = fma(s.exponent, x.like(two_lo), l_tail + hi_tail);
  return with_limits(sum + (sum_tail + (p_tail + low)), x);
}

struct Sum {
  Expr value, tail;
};
Sum exact_sum(Expr a, Expr b) {
  const Expr sum = a + b, of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}

}  // namespace

Expr log(const Args& in) {
  const Expr x = in.a;
  const Split s = split(x);
  const Expr r = fma(s.mantissa, lookup("log_t", kLogT, s.index), x.like(-1));
  const Expr l = lookup("log_l", kLogL, s.index);
  const Expr hi = fma(s.exponent, x.like(kLn2Hi), l);
  const Expr hi_tail = l + fma(s.exponent, x.like(kLn2Hi), -hi);
  const Expr rest = fma(r * r, tail_polynomial(r), hi_tail);
  const Expr lo = fma(s.exponent, x.like(kLn2Lo), rest);
  return with_limits(hi + (r + lo), x);
}

// SLEEF's form of 1 ulp: log m = 2 artanh((m - 1) / (m + 1)), m in [0.75, 1.5), in pairs of floats.
Expr log_vector(const Args& in) {
  constexpr double kHi = 0.69314718246459960938, kLo = -1.904654323148236017e-09;
  const Expr x = in.a;
  const Split p = split(x);
  const Expr m = select(compare(Pred::oge, p.mantissa, 1.5), p.mantissa * 0.5, p.mantissa);
  const Expr whole = p.exponent * kHi;
  const Expr whole_tail = fma(p.exponent, x.like(kLo), fma(p.exponent, x.like(kHi), -whole));
  const Sum n = exact_sum(x.like(-1), m), d = exact_sum(x.like(1), m);
  // n / d = q + q_tail
  const Expr t = x.like(1) / d.value, q = n.value * t;
  const Expr off = fma(-d.tail, t, fma(-d.value, t, x.like(1)));
  const Expr q_tail = fma(q, off, fma(n.tail, t, fma(t, n.value, -q)));
  const Expr square = q * q;
  const Expr series =
      fma(fma(x.like(0x1.35feb8p-2), square, x.like(0x1.993394p-2)), square, x.like(0x1.5555b4p-1));
  const Expr hi = whole + q * 2;
  const Expr lo = whole - hi + q * 2 + whole_tail + q_tail * 2;
  const Expr rest = square * q * series;
  const Expr sum = hi + rest;
  return with_limits(sum + (hi - sum + rest + lo), x);
}

Expr log2(const Args& in) {
  return log_to_base(in.a, kLog2Hi, kLog2Lo, 0x1.715476p0, 0x1.4ae0cp-26, 1, 0);
}

Expr log10(const Args& in) {
  return log_to_base(in.a, kLog10Hi, kLog10Lo, 0x1.bcb7b2p-2, -0x1.5b235ep-27, 0x1.344p-2,
                     0x1.3509f8p-18);
}

// 1 + x = u + c exactly for |x| < 1; c joins the reduced argument, scaled as the mantissa is.
Expr log1p(const Args& in) {
  const Expr x = in.a;
  const Expr u = x + 1;
  const Split s = split(u);
  const Expr huge = compare(Pred::ogt, x, 1e7);
  const Expr c = select(huge, x.like(0), x - (u - 1));
  const Expr scaled = fscale(c, -u.op1(Op::fexponent));
  const Expr t = lookup("log_t", kLogT, s.index);
  const Expr l = lookup("log_l", kLogL, s.index);
  const Expr r0 = fma(s.mantissa, t, x.like(-1));
  const Expr r = fma(scaled, t, r0);
  const Expr r_tail = fma(scaled, t, r0 - r);
  const Expr rest = fma(r * r, tail_polynomial(r), r_tail);
  const Expr hi = fma(s.exponent, x.like(kLn2Hi), l);
  const Expr hi_tail = l + fma(s.exponent, x.like(kLn2Hi), -hi);
  const Expr lo = fma(s.exponent, x.like(kLn2Lo), rest) + hi_tail;
  const Expr y = with_limits(hi + (r + lo), u);
  return select(compare(Pred::olt, abs(x), 1e-8), x, y);
}

}  // namespace poot::math
