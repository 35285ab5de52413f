// exp: x = n log 2 + r, |r| <= log 2 / 2, Taylor's polynomial of degree 12, times 2^n by its bits.
// log: x = 2^e m with m in [2^-1/2, 2^1/2), log m = 2 atanh s with s = (m - 1) / (m + 1).
// angle: the smaller over the larger of |x| and |y|, moved below tan(pi/8) by
// atan t = pi/4 + atan((t - 1) / (t + 1)), then Taylor's series.
#include "codegen/math/wide.h"

namespace poot::math {
namespace {

constexpr double kLn2Hi = 0x1.62e42fefap-1, kLn2Lo = 0x1.cf79abc9e3b3ap-40;
constexpr double kPi = 3.14159265358979323846;
// Adding it leaves an integer below 2^51 in the low bits of the sum.
constexpr double kRound = 0x1.8p+52;
constexpr uint64_t kRoundBits = 0x4338000000000000;

}  // namespace

Expr wide_exp(Expr x) {
  const Expr shifted = fma(x, x.like(0x1.71547652b82fep+0), x.like(kRound));
  const Expr n = shifted - kRound;
  const Expr r = fma(n, x.like(-kLn2Lo), fma(n, x.like(-kLn2Hi), x));
  const Expr y =
      horner(r, {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1});
  const Expr exponent = (shifted.as(Elem::I64) - x.bits(kRoundBits - 1023, Elem::I64));
  return y * shl(exponent, 52).as(Elem::F64);
}

Expr wide_log(Expr x) {
  const Expr raw = x.as(Elem::I64);
  // Counted from sqrt(1/2), so that the mantissa is centred about 1.
  const uint64_t half_root = 0x3fe6a09e667f3bcd;
  const Expr e = shr(raw - raw.bits(half_root), 52) & raw.bits(0xfff);
  // A 12-bit difference, negative for x below sqrt(1/2): sign-extended by flipping its top bit.
  const Expr biased = e ^ raw.bits(0x800);
  const Expr count = (biased | raw.bits(0x4330000000000000)).as(Elem::F64) - (0x1p52 + 0x800);
  const Expr m = (raw - shl(e, 52)).as(Elem::F64);
  const Expr s = (m - 1) / (m + 1);
  const Expr z = s * s;
  const Expr series =
      horner(z, {2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3});
  const Expr log_m = fma(s * z, series, s + s);
  return fma(count, x.like(kLn2Hi), fma(count, x.like(kLn2Lo), log_m));
}

Expr wide_angle(Expr y, Expr x) {
  const double inf = __builtin_inf();
  const Expr ay = abs(y), ax = abs(x);
  const Expr steep = compare(Pred::ogt, ay, ax);
  const Expr small = select(steep, ax, ay), large = select(steep, ay, ax);
  const Expr folded = compare(Pred::ogt, small, large * 0.41421356237309503);
  const Expr endless = compare(Pred::oeq, small, inf);  // both infinite: exactly pi/4
  const Expr difference = select(endless, small.like(0), small - large);
  const Expr numerator = select(folded | endless, difference, small);
  const Expr origin = compare(Pred::oeq, large, 0);
  const Expr sum = select(folded | endless, small + large, large);
  const Expr t = numerator / select(origin, large.like(1), sum);
  const Expr z = t * t;
  const Expr series =
      horner(z, {1.0 / 29, -1.0 / 27, 1.0 / 25, -1.0 / 23, 1.0 / 21, -1.0 / 19, 1.0 / 17, -1.0 / 15,
                 1.0 / 13, -1.0 / 11, 1.0 / 9, -1.0 / 7, 1.0 / 5, -1.0 / 3, 1.0});
  const Expr base = select(folded | endless, t.like(kPi / 4), t.like(0));
  const Expr octant = fma(series, t, base);
  const Expr half = select(steep, octant.like(kPi / 2) - octant, octant);
  const Expr left = compare(Pred::slt, x.as(Elem::I64), 0);
  const Expr angle = copysign(select(left, half.like(kPi) - half, half), y);
  return select(compare(Pred::uno, x, y), x + y, angle);
}

}  // namespace poot::math
