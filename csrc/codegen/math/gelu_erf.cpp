// erf(x / sqrt 2) as oneDNN computes it inside gelu, to the bit: 1 + erf cancels in the tail, where
// each rounding of the polynomial shows in f16 and bf16. A polynomial in |x| by intervals, four an
// octave from 1/8 on; the first serves what lies below. Beyond the largest x whose result is below
// 1 the polynomial is the constant 1, and 0 * |x| makes an infinite x no number.
#include "codegen/math/functions.h"
#include "codegen/math/gelu_table.h"

namespace poot::math {

Expr gelu_erf(const Args& in) {
  constexpr uint64_t kEighth = 0x3e000001;  // intervals hold their right end
  constexpr uint64_t kOneEntry = 22;
  const Expr a = abs(in.a);
  const Expr raw = a.as(Elem::I32);
  const Expr from_eighth = raw - raw.bits(kEighth);
  const Expr interval = shr(from_eighth.op2(Op::smax, raw.bits(0)), 21);
  const Expr beyond = compare(Pred::ogt, a, 0x1.62b9dcp+2);
  const Expr index = select(beyond, raw.bits(kOneEntry), interval & raw.bits(31));
  Expr sum = lookup("gelu_5", kGelu5, index);
  sum = fma(sum, a, lookup("gelu_4", kGelu4, index));
  sum = fma(sum, a, lookup("gelu_3", kGelu3, index));
  sum = fma(sum, a, lookup("gelu_2", kGelu2, index));
  sum = fma(sum, a, lookup("gelu_1", kGelu1, index));
  return copysign(fma(sum, a, lookup("gelu_0", kGelu0, index)), in.a);
}

}  // namespace poot::math
