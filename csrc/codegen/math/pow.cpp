// Floats: |x|^y = 2^(y log2|x|) in f64, where the f32 arguments have no denormals and 2^±150 is far
// from the ends; one rounding to f32. Zeros and infinities follow from log2 being ∓inf there. The
// sign, the integer test of y and C's special cases come after.
//
// f64: the same with a logarithm of two parts.
//
// Integers: square and multiply over as many bits as the largest exponent has.
#include "codegen/math/functions_f64.h"
#include "codegen/math/tables.h"

namespace poot::math {
namespace {

const double kInf = __builtin_inf();

Expr log2_f64(Expr a) {
  const Expr m = a.op1(Op::fmantissa);
  const Expr e = a.op1(Op::fexponent).to(Op::sitofp, Elem::F64);
  const Expr index = shr(m.as(Elem::I64), 48) & m.bits(15, Elem::I64);
  const Expr exponent = select(compare(Pred::oge, m, 1.5), e + 1, e);
  const Expr r = fma(m, lookup("pow_t", kPowT, index), m.like(-1));
  const Expr p = horner(
      r, {0x1.8446a10adab7cp-3, -0x1.ec7041ef64d35p-3, 0x1.277f11fc554d7p-2, -0x1.71548c42168fcp-2,
          0x1.ec709caba23a2p-2, -0x1.71547651b5c0cp-1, 0x1.71547652b9b28p+0});
  const Expr sum = (exponent + lookup("pow_l", kPowL, index)) + p * r;
  const Expr endless = select(compare(Pred::oeq, a, kInf), a, sum);
  return select(compare(Pred::oeq, a, 0), a.like(-kInf), endless);
}

// 2^z in f64 for results that f32 holds; z is clamped to where f32 has zero and infinity.
Expr exp2_f64(Expr z) {
  const Expr inside = fmax(z.like(-160), fmin(z.like(130), z));
  const Expr n = inside.op1(Op::frint);
  const Expr q =
      horner(inside - n, {0x1.41d1d358d13f2p-13, 0x1.5f47304a30acfp-10, 0x1.3b2dc22541cd4p-7,
                          0x1.c6aed1383a51dp-5, 0x1.ebfbdaccaab45p-3, 0x1.62e430ca7c1abp-1,
                          0x1.000000026b36fp+0});
  return fscale_whole(q, n);
}

// |x|^y with its sign and C's special cases.
Expr with_special_cases(Expr x, Expr y, Expr of_magnitudes) {
  const Elem raw = x.elem() == Elem::F64 ? Elem::I64 : Elem::I32;
  const Expr a = abs(x), one = x.like(1);
  const Expr unit = compare(Pred::oeq, a, 1);  // 1^inf is 1
  const Expr magnitude = select(unit, one, of_magnitudes);
  const Expr half = y * 0.5;
  const Expr integer = compare(Pred::oeq, y.op1(Op::frint), y);
  const Expr odd = integer & compare(Pred::une, half.op1(Op::frint), half);
  const Expr below = compare(Pred::slt, x.as(raw), x.bits(0, raw));
  const Expr with_sign = select(below & odd, -magnitude, magnitude);
  const Expr real = compare(Pred::olt, x, 0) & compare(Pred::one, a, kInf) & ~integer;
  const Expr in_reals = select(real, x.like(__builtin_nan("")), with_sign);
  const Expr nan = compare(Pred::uno, x, y);
  const Expr always_one = compare(Pred::oeq, y, 0) | compare(Pred::oeq, x, 1);
  return select(always_one, one, select(nan, x + y, in_reals));
}

}  // namespace

Expr pow(const Args& in) {
  const Expr z = in.b.to(Op::fpext, Elem::F64) * log2_f64(abs(in.a).to(Op::fpext, Elem::F64));
  return with_special_cases(in.a, in.b, exp2_f64(z).to(Op::fptrunc, Elem::F32));
}

namespace f64 {

// e^(y log|x|) with the logarithm and the product in two parts.
Expr pow(const Args& in) {
  const Expr a = abs(in.a), y = in.b;
  const Pair l = log_pair(a, a.like(0));
  const Pair product = two_product(y, l.hi);
  const Expr ordinary = exp_of({product.hi, fma(y, l.lo, product.lo)});
  // Of 0 and infinity: by the sign of y.
  const Expr none = a.like(0), endless = a.like(kInf);
  const Expr falls = compare(Pred::olt, y, 0);
  const Expr of_zero = select(falls, endless, none), of_infinity = select(falls, none, endless);
  const Expr at_zero = compare(Pred::oeq, a, 0), at_infinity = compare(Pred::oeq, a, kInf);
  return with_special_cases(in.a, y,
                            select(at_zero, of_zero, select(at_infinity, of_infinity, ordinary)));
}

}  // namespace f64

Expr pow_int(const Args& in) {
  auto& b = in.a.builder();
  const Expr zero = in.a.bits(0), one = in.a.bits(1);
  const Expr e = in.is_signed ? in.b.op2(Op::smax, zero) : in.b;
  const Expr most = e.type().lanes == 1 ? e : e.op1(Op::reduce_or);
  const Expr bits = most.bits(static_cast<uint64_t>(most.width())) - most.op1(Op::ctlz);
  const Expr trips = most.width() == 64 ? bits : bits.to(Op::zext, Elem::I64);
  const auto out =
      b.for_loop(b.i64(0), trips.id(), b.i64(1), {one.id(), in.a.id(), e.id()},
                 [&](kir::ValueId, std::span<const kir::ValueId> carried) {
                   const Expr result(b, carried[0]), base(b, carried[1]), rest(b, carried[2]);
                   const Expr taken = rest.to(Op::itrunc, Elem::I1);
                   const Expr next = select(taken, result * base, result);
                   const Expr square = base * base, shifted = shr(rest, 1);
                   return std::vector<kir::ValueId>{next.id(), square.id(), shifted.id()};
                 });
  const Expr power(b, out[0]);
  if (!in.is_signed) return power;
  // A negative exponent: 1 for 1, ±1 for -1, else 0.
  const Expr minus_one = in.a.bits(kir::low_bits(in.a.width()));
  const Expr odd = in.b.to(Op::itrunc, Elem::I1);
  const Expr alternating = select(odd, minus_one, one);
  const Expr of_minus_one = select(compare(Pred::eq, in.a, minus_one), alternating, zero);
  const Expr inverse = select(compare(Pred::eq, in.a, one), one, of_minus_one);
  return select(compare(Pred::slt, in.b, zero), inverse, power);
}

}  // namespace poot::math
