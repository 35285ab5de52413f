// The angle of a point: with t = small / large of the two coordinates and c the nearest sixteenth,
// arctan t = arctan c + arctan((small - c large) / (large + c small)), whose argument is at most
// 1/32, so that a short Taylor series does. Both coordinates are first scaled by the larger one's
// power of two. asin x is the angle of (sqrt(1 - x^2), x), acos x that of (x, sqrt(1 - x^2)).
#include "codegen/math/functions_f64.h"
#include "codegen/math/tables_f64.h"

namespace poot::math::f64 {
namespace {

constexpr double kPiHi = 0x1.921fb54442d18p+1, kPiLo = 0x1.1a62633145c07p-53;

// From pi (or half of it) less an angle given in two parts.
Pair turned(double hi, double lo, Pair angle) {
  const Pair s = fast_two_sum(angle.hi.like(hi), -angle.hi);
  return {s.hi, s.lo + (angle.hi.like(lo) - angle.lo)};
}
Pair select_pair(Expr m, Pair a, Pair b) {
  return {select(m, a.hi, b.hi), select(m, a.lo, b.lo)};
}

Expr angle_of(Expr y, Expr x) {
  const double inf = __builtin_inf();
  const Expr ay = abs(y), ax = abs(x);
  const Expr steep = compare(Pred::ogt, ay, ax);
  const Expr endless = compare(Pred::oeq, select(steep, ay, ax), inf);
  const auto or_infinite = [&](Expr v) {  // infinite: 1 beside finite numbers, which become 0
    const Expr one_or_zero = select(compare(Pred::oeq, v, inf), v.like(1), v.like(0));
    return select(endless, one_or_zero, v);
  };
  const Expr low = or_infinite(select(steep, ax, ay)), high = or_infinite(select(steep, ay, ax));
  const Expr origin = compare(Pred::oeq, high, 0);
  const Expr safe = select(origin, high.like(1), high);
  const Expr scale = -safe.op1(Op::fexponent);
  const Expr large = fscale(safe, scale), small = fscale(low, scale);
  const Expr sixteenths = ((small / large) * 16).op1(Op::frint);
  const Expr known = select(is_nan(sixteenths), small.like(0), sixteenths);
  const Expr index = known.to_i32();
  const Expr c = known * 0.0625;
  const Expr z = fma(-c, large, small) / fma(c, small, large);
  const Expr w = z * z;
  const Expr series = horner(w, {1.0 / 13, -1.0 / 11, 1.0 / 9, -1.0 / 7, 1.0 / 5, -1.0 / 3});
  const Expr rest = fma(w * z, series, lookup("angle64_lo", kAngleLo, index));
  const Pair sum = fast_two_sum(lookup("angle64_hi", kAngleHi, index), z);
  const Pair octant{sum.hi, sum.lo + rest};
  const Pair half = select_pair(steep, turned(kPiHi / 2, kPiLo / 2, octant), octant);
  const Expr left = compare(Pred::slt, x.as(Elem::I64), x.bits(0, Elem::I64));
  const Pair whole = select_pair(left, turned(kPiHi, kPiLo, half), half);
  const Expr angle = copysign(whole.hi + whole.lo, y);
  return select(compare(Pred::uno, x, y), x + y, angle);
}

Expr root_of_rest(Expr x) {
  return ((x.like(1) - x) * (x + 1)).op1(Op::fsqrt);
}

}  // namespace

Expr atan2(const Args& in) {
  return angle_of(in.a, in.b);
}

Expr asin(const Args& in) {
  return angle_of(in.a, root_of_rest(in.a));
}

Expr acos(const Args& in) {
  return angle_of(root_of_rest(in.a), in.a);
}

}  // namespace poot::math::f64
