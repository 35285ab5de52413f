// erf by intervals of width 1/16, each a Taylor series about its middle with a leading term of two
// parts; near zero an odd series whose leading factor is x + 0.128 x. From 6 on the result is 1.
#include <iterator>
#include <string>

#include "codegen/math/erf_table_f64.h"
#include "codegen/math/functions_f64.h"

namespace poot::math::f64 {

Expr erf(const Args& in) {
  const Expr x = in.a;
  const Expr a = fmin(x.like(5.9999), abs(x));
  const Expr scaled = (a * 16).op1(Op::ffloor);
  const Expr known = select(is_nan(a), a.like(0), scaled);
  const Expr index = known.to_i32();
  const Expr d = a - (known + 0.5) * 0.0625;
  const int last = std::size(kErf) - 1;
  Expr sum = lookup("erf64_" + std::to_string(last), kErf[last], index);
  for (int k = last; k-- > 0;)
    sum = fma(sum, d, lookup("erf64_" + std::to_string(k), kErf[k], index));
  const Expr whole =
      lookup("erf64", kErf0, index) + fma(sum, d, lookup("erf64_lo", kErf0Lo, index));
  const Expr z = a * a;
  const Expr series = horner(z, {0x1.f9a326f9b89b7p-14, -0x1.c02db40040b86p-11,
                                 0x1.565bcd0e6a53fp-8, -0x1.b82ce31288b51p-6, 0x1.ce2f21a042be2p-4,
                                 -0x1.812746b0379e7p-2, 0x1.06eba8214db69p-3});
  const Expr near = fma(a, series, a);
  return copysign(select(compare(Pred::olt, a, 0.0625), near, whole), x);
}

}  // namespace poot::math::f64
