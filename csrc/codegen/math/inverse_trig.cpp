// Through the angle of a point, in f64, then one rounding to f32: asin x is the angle of
// (sqrt(1 - x^2), x), acos x that of (x, sqrt(1 - x^2)). Outside [-1, 1] the root is NaN.
#include "codegen/math/functions.h"
#include "codegen/math/wide.h"

namespace poot::math {
namespace {

Expr root_of_rest(Expr x) {
  return ((x.like(1) - x) * (x + 1)).op1(Op::fsqrt);
}

}  // namespace

Expr atan2(const Args& in) {
  return narrow(wide_angle(widen(in.a), widen(in.b)));
}

Expr asin(const Args& in) {
  const Expr x = widen(in.a);
  return narrow(wide_angle(x, root_of_rest(x)));
}

Expr acos(const Args& in) {
  const Expr x = widen(in.a);
  return narrow(wide_angle(root_of_rest(x), x));
}

}  // namespace poot::math
