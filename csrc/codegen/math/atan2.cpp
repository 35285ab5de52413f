// The angle of (x, y) from the smaller over the larger of |x| and |y|, moved below tan(pi/8) by
// atan t = pi/4 + atan((t - 1) / (t + 1)), then the Taylor series; all in f64, which keeps the
// quadrant's sums exact enough for one rounding to f32.
#include "codegen/math/functions.h"

namespace poot::math {

Expr atan2(const Args& in) {
  const double inf = __builtin_inf();
  const double pi = 3.14159265358979323846;
  const Expr y = in.a.to(Op::fpext, Elem::F64), x = in.b.to(Op::fpext, Elem::F64);
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
  const Expr base = select(folded | endless, t.like(pi / 4), t.like(0));
  const Expr octant = fma(series, t, base);
  const Expr half = select(steep, octant.like(pi / 2) - octant, octant);
  const Expr left = compare(Pred::slt, in.b.as(Elem::I32), 0);
  const Expr angle = copysign(select(left, half.like(pi) - half, half), y);
  const Expr nan = compare(Pred::uno, in.a, in.b);
  return select(nan, in.a + in.b, angle.to(Op::fptrunc, Elem::F32));
}

}  // namespace poot::math
