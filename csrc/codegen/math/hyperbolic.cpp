// By their definitions in f64, then one rounding to f32, which also makes the overflow and the
// denormals. Near 0, where the definitions cancel, a series or the argument itself. sinh and cosh
// are infinite where e^|x| is, as eager's on a CPU: a little early.
#include "codegen/math/functions.h"
#include "codegen/math/wide.h"

namespace poot::math {
namespace {

// Beyond it e^x / 2 is infinite in f32.
constexpr double kBeyond = 100;
// The last f32 whose exponential is finite in f32.
constexpr double kLogLargest = 0x1.62e42ep+6;

struct Exponentials {
  Expr x, grown, decayed;  // x, e^|x|, e^-|x|
};
Exponentials exponentials(Expr a) {
  const Expr x = widen(a);
  const Expr grown = wide_exp(fmin(x.like(kBeyond), abs(x)));
  return {x, grown, x.like(1) / grown};
}

Expr bounded(Expr x, Expr y) {
  if (x.builder().kernel().isa == Isa::Ptx) return y;
  const Expr endless = copysign(y.bits(0x7f800000), y);
  return select(compare(Pred::ogt, abs(x), kLogLargest), endless, y);
}

Expr keep_small(Expr argument, double below, Expr y) {
  return select(compare(Pred::olt, abs(argument), below), argument, y);
}

}  // namespace

Expr sinh(const Args& in) {
  const Exponentials e = exponentials(in.a);
  const Expr z = e.x * e.x;
  const Expr series = fma(e.x * z, horner(z, {1.0 / 362880, 1.0 / 5040, 1.0 / 120, 1.0 / 6}), e.x);
  const Expr near = compare(Pred::olt, abs(e.x), 0.25);
  return bounded(in.a, narrow(select(near, series, copysign((e.grown - e.decayed) * 0.5, e.x))));
}

Expr cosh(const Args& in) {
  const Exponentials e = exponentials(in.a);
  return bounded(in.a, narrow((e.grown + e.decayed) * 0.5));
}

Expr asinh(const Args& in) {
  const Expr x = widen(in.a), a = abs(x);
  const Expr y = wide_log(a + fma(a, a, a.like(1)).op1(Op::fsqrt));
  // The logarithm takes finite numbers only: infinities and NaN are their own results.
  const Expr finite = compare(Pred::olt, abs(in.a), in.a.bits(0x7f800000));
  return select(finite, keep_small(in.a, 0x1p-24, narrow(copysign(y, x))), in.a);
}

Expr acosh(const Args& in) {
  const Expr x = widen(in.a);
  const Expr y = narrow(wide_log(x + ((x - 1) * (x + 1)).op1(Op::fsqrt)));
  const Expr nan = in.a.bits(0x7fc00000);
  const Expr finite = compare(Pred::olt, in.a, in.a.bits(0x7f800000));
  const Expr inside = compare(Pred::oge, in.a, 1);
  // Not below 1 and not finite: infinity and NaN stay.
  return select(compare(Pred::olt, in.a, 1), nan, select(inside & finite, y, in.a));
}

Expr atanh(const Args& in) {
  const Expr x = widen(in.a), a = abs(in.a);
  const Expr inside = compare(Pred::olt, a, 1);
  const Expr safe = select(inside, x, x.like(0));
  const Expr y = narrow(wide_log((safe + 1) / (safe.like(1) - safe)) * 0.5);
  const Expr edge =
      copysign(select(compare(Pred::oeq, a, 1), a.bits(0x7f800000), a.bits(0x7fc00000)), in.a);
  return select(inside, keep_small(in.a, 0x1p-20, y), edge);
}

}  // namespace poot::math
