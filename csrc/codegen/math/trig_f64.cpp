// x = n * pi/2 + r + l, then one of two polynomials by n mod 4. Up to 2^20 pi/2 is taken in four
// parts, the first two so short that their products with n are exact. Beyond it, if any lane needs
// it, the product with 1/(2 pi) is taken in integers (Payne and Hanek): 192 of its bits, chosen by
// the exponent, times the 53-bit mantissa give the turns modulo 1 in 128 bits: two of quadrant and
// 126 of fraction.
#include "codegen/math/functions_f64.h"
#include "codegen/math/tables_f64.h"

namespace poot::math::f64 {
namespace {

constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
constexpr double kHalfPi1 = 0x1.921fb544p+0, kHalfPi2 = 0x1.0b4611ap-34;
constexpr double kHalfPi3 = 0x1.898cc51701b84p-64, kHalfPi4 = -0x1.976b7ed8fbbadp-118;
constexpr double kHalfPiHi = 0x1.921fb54442d18p+0, kHalfPiLo = 0x1.1a62633145c07p-54;
constexpr double kRound = 0x1.8p+52;
constexpr double kFastLimit = 0x1p20;

struct Reduced {
  Expr r, l;  // |r + l| <= pi/4
  Expr quadrant;
};

Reduced reduce_fast(Expr x) {
  const Expr shifted = fma(x, x.like(kTwoOverPi), x.like(kRound));
  const Expr n = shifted - kRound;
  const Expr first = fma(n, x.like(-kHalfPi1), x);
  const Pair second = two_sum(first, n * -kHalfPi2);
  const Pair product = two_product(n, x.like(-kHalfPi3));
  const Pair third = two_sum(second.hi, product.hi);
  const Expr rest = fma(n, x.like(-kHalfPi4), product.lo) + second.lo;
  const Pair r = fast_two_sum(third.hi, third.lo + rest);
  return {r.hi, r.lo, shifted.as(Elem::I64)};
}

// The words at index .. index + 3, shifted left by `bits` (0..63) into three words.
struct Window {
  Expr hi, mid, lo;
};
Window window(Expr index, Expr bits) {
  auto& b = index.builder();
  const kir::ObjectId table = b.table("turn_words64", Elem::I64, kTurnWords);
  Expr at = index;
  Expr word[4] = {at, at, at, at};
  for (Expr& w : word) {
    w = Expr(b, b.lookup(table, at.id()));
    at = at + at.bits(1);
  }
  const Expr left = bits.to(Op::zext, Elem::I64);
  const Expr right = left.bits(63) - left;  // and one more: a shift by 64 is none
  const auto joined = [&](int i) {
    return word[i].op2(Op::shl, left) | shr(word[i + 1].op2(Op::lshr, right), 1);
  };
  return {joined(0), joined(1), joined(2)};
}

Reduced reduce_slow(Expr x) {
  const Expr raw = x.as(Elem::I64);
  const Expr biased = (shr(raw, 52) & raw.bits(0x7ff)).to(Op::itrunc, Elem::I32);
  const Expr e = biased - 1022;  // |x| < 2^e
  const Expr inside = e.op2(Op::smax, e.bits(0)).op2(Op::smin, e.bits(1024));
  const Window w = window(shr(inside, 6), inside & inside.bits(63));
  // The mantissa with its top bit at bit 63, so that the product's integer part falls at bit 126.
  const Expr m = shl(raw, 11) | raw.bits(uint64_t{1} << 63);
  const Expr low = m * w.mid;
  const Expr lower = low + m.op2(Op::umulh, w.lo);
  const Expr carry = select(compare(Pred::ult, lower, low), raw.bits(1), raw.bits(0));
  const Expr upper = m * w.hi + m.op2(Op::umulh, w.mid) + carry;
  const Expr rounded = upper + upper.bits(uint64_t{1} << 61);  // to the nearest quadrant
  const Expr q = shr(rounded, 62);
  const Expr fraction = upper - (rounded & upper.bits(~uint64_t{0} << 62));
  const Expr hi = fraction.to(Op::sitofp, Elem::F64);
  const Expr rest = fraction - hi.to(Op::fptosi, Elem::I64);
  const Expr lo =
      fma(shr(lower, 1).to(Op::sitofp, Elem::F64), x.like(0x1p-63), rest.to(Op::sitofp, Elem::F64));
  const Pair d = fast_two_sum(hi * 0x1p-62, lo * 0x1p-62);
  const Pair product = two_product(d.hi, x.like(kHalfPiHi));
  const Expr tail = fma(d.hi, x.like(kHalfPiLo), fma(d.lo, x.like(kHalfPiHi), product.lo));
  const Pair angle = fast_two_sum(product.hi, tail);
  const Expr negative = compare(Pred::slt, raw, raw.bits(0));
  const Expr finite = compare(Pred::olt, abs(x), __builtin_inf());
  const Expr r = select(negative, -angle.hi, angle.hi);
  return {select(finite, r, x - x), select(negative, -angle.lo, angle.lo), select(negative, -q, q)};
}

Reduced reduce(Expr x) {
  const Reduced fast = reduce_fast(x);
  const Expr big = compare(Pred::fugt, abs(x), kFastLimit);
  auto& b = x.builder();
  const auto out = b.if_else(
      any(big).id(),
      [&] {
        const Reduced slow = reduce_slow(x);
        const Expr r = select(big, slow.r, fast.r), l = select(big, slow.l, fast.l);
        const Expr q = select(big, slow.quadrant, fast.quadrant);
        return std::vector<kir::ValueId>{r.id(), l.id(), q.id()};
      },
      [&] { return std::vector<kir::ValueId>{fast.r.id(), fast.l.id(), fast.quadrant.id()}; });
  return {{b, out[0]}, {b, out[1]}, {b, out[2]}};
}

Expr sine_of(const Reduced& in) {
  const Expr r = in.r, z = r * r;
  const Expr s = horner(
      z, {1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
          -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01});
  return fma(s * z, r, in.l) + r;
}

Expr cosine_of(const Reduced& in) {
  const Expr r = in.r, z = r * r, one = r.like(1);
  const Expr c = horner(
      z, {-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
          2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02});
  const Expr w = fma(z, r.like(-0.5), one);
  const Pair square = two_product(r, r);
  const Expr w_tail = fma(square.hi, r.like(-0.5), one - w);
  const Expr rest = fma(-r, in.l, fma(square.lo, r.like(-0.5), w_tail));
  return w + fma(c, z * z, rest);
}

// sin(x + shift * pi/2)
Expr evaluate(Expr x, int shift) {
  const Reduced in = reduce(x);
  const Expr q = shift ? in.quadrant + in.quadrant.bits(1) : in.quadrant;
  const Expr odd = (q & q.bits(1)).to(Op::itrunc, Elem::I1);
  Expr y = select(odd, cosine_of(in), sine_of(in));
  if (shift == 0) y = select(compare(Pred::olt, abs(x), 0x1p-27), x, y);
  const Expr sign = shl(q & q.bits(2), 62);
  return (y.as(Elem::I64) ^ sign).as(Elem::F64);
}

}  // namespace

Expr sin(const Args& in) {
  return evaluate(in.a, 0);
}

Expr cos(const Args& in) {
  return evaluate(in.a, 1);
}

Expr tan(const Args& in) {
  const Expr x = in.a;
  const Reduced reduced = reduce(x);
  const Expr s = sine_of(reduced), c = cosine_of(reduced), q = reduced.quadrant;
  const Expr odd = (q & q.bits(1)).to(Op::itrunc, Elem::I1);
  const Expr y = select(odd, -c, s) / select(odd, s, c);
  return select(compare(Pred::olt, abs(x), 0x1p-27), x, y);
}

}  // namespace poot::math::f64
