// Floor division and remainders of floats, as ATen's div_floor and remainder: both start from fmod,
// which is exact.
//
// fmod of f32 goes through f64: r = |a| is reduced by multiples of |b| * 2^k, with k chosen so that
// the quotient stays below 2^29 and quotient * divisor is exact. One step takes 27 bits of the
// exponents' distance; their largest, 277, needs 11. The number of steps is that of the worst lane.
// f64 has no wider type and uses the instruction.
#include "codegen/math/functions.h"

namespace poot::math {
namespace {

constexpr double kStepBits = 27;

Expr exponent_field(Expr a) {  // of a non-negative f64
  return shr(a.as(Elem::I64), 52).to(Op::itrunc, Elem::I32);
}

// r less the largest multiple of b * 2^k below it; 0 <= r, 0 < b.
Expr reduce_once(Expr r, Expr b) {
  const Expr distance = exponent_field(r) - exponent_field(b) - kStepBits;
  const Expr divisor = fscale(b, distance.op2(Op::smax, distance.bits(0)));
  const Expr q = (r / divisor).op1(Op::ftrunc);
  const Expr rest = fma(-q, divisor, r);
  return select(compare(Pred::olt, rest, 0), rest + divisor, rest);  // q was rounded up
}

Expr fmod_f32(Expr a, Expr b) {
  auto& k = a.builder();
  const double inf = __builtin_inf();
  // a finite, b not zero: elsewhere 1 and 1 stand in, and the result is replaced.
  const Expr undefined = compare(Pred::fuge, abs(a), inf) | compare(Pred::ueq, b, 0);
  const Expr whole = compare(Pred::oeq, abs(b), inf);
  const Expr ra = select(undefined, a.like(1), abs(a)).to(Op::fpext, Elem::F64);
  const Expr rb = select(undefined | whole, b.like(1), abs(b)).to(Op::fpext, Elem::F64);
  const Expr steps = (exponent_field(ra) - exponent_field(rb)).op2(Op::smax, ra.like(0, Elem::I32));
  const Expr most = steps.type().lanes == 1 ? steps : steps.op1(Op::reduce_smax);
  const Expr trips = most.op2(Op::udiv, most.like(kStepBits)) + 1;
  const auto out =
      k.for_loop(k.i64(0), trips.to(Op::zext, Elem::I64).id(), k.i64(1), {ra.id()},
                 [&](kir::ValueId, std::span<const kir::ValueId> carried) {
                   return std::vector<kir::ValueId>{reduce_once(Expr(k, carried[0]), rb).id()};
                 });
  const Expr rest = copysign(Expr(k, out[0]).to(Op::fptrunc, Elem::F32), a);
  const Expr nan = select(compare(Pred::uno, a, b), a + b, a.bits(0x7fc00000));
  return select(undefined | is_nan(b), nan, select(whole, a, rest));
}

}  // namespace

Expr fmod(const Args& in) {
  return in.a.elem() == Elem::F32 ? fmod_f32(in.a, in.b) : in.a.op2(Op::frem, in.b);
}

Expr remainder(const Args& in) {
  const Expr mod = fmod(in);
  const Expr signs_differ = compare(Pred::olt, in.b, 0) ^ compare(Pred::olt, mod, 0);
  const Expr adjust = signs_differ & compare(Pred::une, mod, 0);
  return select(adjust, mod + in.b, mod);
}

// (a - mod) / b is an integer but for its rounding: the floor is corrected upward by one where it
// fell short, and a zero keeps the sign of a / b.
Expr floor_div(const Args& in) {
  const Expr a = in.a, b = in.b;
  const Expr mod = fmod(in), ratio = a / b;
  const Expr exact = (a - mod) / b;
  const Expr signs_differ = compare(Pred::olt, b, 0) ^ compare(Pred::olt, mod, 0);
  const Expr adjust = signs_differ & compare(Pred::une, mod, 0);
  const Expr quotient = select(adjust, exact - 1, exact);
  const Expr floor = quotient.op1(Op::ffloor);
  const Expr short_by_one = compare(Pred::ogt, quotient - floor, 0.5);
  const Expr nearest = select(short_by_one, floor + 1, floor);
  const Expr zero = compare(Pred::oeq, quotient, 0);
  const Expr value = select(zero, copysign(quotient.like(0), ratio), nearest);
  return select(compare(Pred::oeq, b, 0), ratio, value);
}

Expr trunc_div(const Args& in) {
  return (in.a / in.b).op1(Op::ftrunc);
}

}  // namespace poot::math
