// x = n * pi/2 + r + l, then one of two polynomials by n mod 4. Up to 2^17 a three-constant
// reduction keeps r + l good to f32 everywhere; beyond it, if any lane needs it, the product with
// 1/(2 pi) is taken in integers (Payne and Hanek): 96 of its bits, chosen by the exponent, times
// the 24-bit mantissa give the turns modulo 1: two bits of quadrant and 62 of fraction.
#include "codegen/math/functions.h"
#include "codegen/math/wide.h"

namespace poot::math {
namespace {

constexpr double kTwoOverPi = 0x1.45f306p-1;
constexpr double kHalfPi1 = 0x1.921fb6p+0, kHalfPi2 = -0x1.777a5cp-25, kHalfPi3 = -0x1.ee59dap-50;
constexpr double kRound = 0x1.8p+23;
constexpr double kFastLimit = 131072;
// 1/(2 pi) in words of 32 bits, after one word of zeros: times x it counts turns, so that the two
// bits above the 62 of the fraction are the quadrant.
constexpr uint64_t kTurnWords[8] = {0,          0x28be60db, 0x9391054a, 0x7f09d5f4,
                                    0x7d4d3770, 0x36d8a566, 0x4f10e410, 0x7f9458ea};

struct Reduced {
  Expr r, l;  // |r + l| <= pi/4
  Expr quadrant;
};

Reduced reduce_fast(Expr x) {
  const Expr shifted = fma(x, x.like(kTwoOverPi), x.like(kRound));
  const Expr n = shifted - kRound;
  const Expr r0 = fma(n, x.like(-kHalfPi1), x);
  const Expr t = n * kHalfPi2;
  const Expr r = r0 - t;
  const Expr t_tail = fma(n, x.like(kHalfPi2), -t);
  const Expr l = fma(n, x.like(-kHalfPi3), ((r0 - r) - t) - t_tail);
  return {r, l, shifted.as(Elem::I32)};  // 1.5 * 2^23 leaves the low bits alone
}

// The words at index .. index + 3, shifted left by `bits` (0..31) into three words.
struct Window {
  Expr hi, mid, lo;
};
Window window(Expr index, Expr bits) {
  auto& b = index.builder();
  const kir::ObjectId table = b.table("turn_words", Elem::I32, kTurnWords);
  const Expr one = index.bits(1);
  Expr at = index;
  Expr word[4] = {at, at, at, at};
  for (Expr& w : word) {
    w = Expr(b, b.lookup(table, at.id())).to(Op::zext, Elem::I64);
    at = at + one;
  }
  const Expr wide = bits.to(Op::zext, Elem::I64);
  const Expr mask = wide.bits(0xffffffff);
  auto joined = [&](int i) {
    const Expr pair = shl(word[i], 32) | word[i + 1];
    return shr(pair.op2(Op::shl, wide), 32) & mask;
  };
  const Expr hi = joined(0), mid = joined(1), lo = joined(2);
  return {hi, mid, lo};
}

Reduced reduce_slow(Expr x) {
  const Expr raw = x.as(Elem::I32);
  const Expr e = (shr(raw, 23) & raw.bits(0xff)) - 126;  // x < 2^e
  const Expr inside = e.op2(Op::smax, e.bits(0)).op2(Op::smin, e.bits(128));
  const Expr index = shr(inside, 5);
  const Window w = window(index, inside & inside.bits(31));
  // The mantissa with its top bit at bit 31, so that the product's integer part falls at bit 62.
  const Expr m = (shl(raw, 8) | raw.bits(0x80000000)).to(Op::zext, Elem::I64);
  const Expr low = shr(m * w.lo, 32) + m * w.mid;
  const Expr product = shl(m * w.hi, 32) + low;
  const Expr rounded = product + product.bits(uint64_t{1} << 61);  // to the nearest quadrant
  const Expr q = shr(rounded, 62).to(Op::itrunc, Elem::I32);
  const Expr fraction = product - (rounded & product.bits(~uint64_t{0} << 62));
  const Expr d = fraction.to(Op::sitofp, Elem::F64) * (1.5707963267948966 * 0x1p-62);
  const Expr negative = compare(Pred::slt, raw, 0);
  const Expr angle = select(negative, -d, d);
  const Expr r = angle.to(Op::fptrunc, Elem::F32);
  const Expr l = (angle - r.to(Op::fpext, Elem::F64)).to(Op::fptrunc, Elem::F32);
  const Expr finite = compare(Pred::olt, abs(x), x.bits(0x7f800000));
  return {select(finite, r, x - x), l, select(negative, -q, q)};
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

// sin(x + shift * pi/2)
Expr evaluate(Expr x, int shift) {
  const Reduced in = reduce(x);
  const Expr r = in.r, l = in.l;
  const Expr q = shift ? in.quadrant + shift : in.quadrant;
  const Expr z = r * r;
  const Expr s = horner(z, {0x1.7c367ap-19, -0x1.a05968p-13, 0x1.111174p-7, -0x1.555556p-3});
  const Expr sine = fma(s * z, r, l) + r;
  const Expr w = fma(z, x.like(-0.5), x.like(1));
  const Expr w_tail = fma(-r, l, fma(z, x.like(-0.5), x.like(1) - w));
  const Expr c = horner(z, {0x1.99e818p-16, -0x1.6c0c28p-10, 0x1.55554ap-5});
  const Expr cosine = w + fma(c, z * z, w_tail);
  const Expr odd = (q & q.bits(1)).to(Op::itrunc, Elem::I1);
  Expr y = select(odd, cosine, sine);
  if (shift == 0) y = select(compare(Pred::olt, abs(x), 1e-5), x, y);
  const Expr sign = shl(q & q.bits(2), 30);
  return (y.as(Elem::I32) ^ sign).as(Elem::F32);
}

}  // namespace

Expr sin(const Args& in) {
  return evaluate(in.a, 0);
}

Expr cos(const Args& in) {
  return evaluate(in.a, 1);
}

// The quotient of both series in f64; an odd quadrant turns it over.
Expr tan(const Args& in) {
  const Expr x = in.a;
  const Reduced reduced = reduce(x);
  const Expr t = widen(reduced.r) + widen(reduced.l);
  const Expr z = t * t;
  const Expr s =
      horner(z, {-1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1}) * t;
  const Expr c =
      horner(z, {1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5, 1});
  const Expr odd = (reduced.quadrant & reduced.quadrant.bits(1)).to(Op::itrunc, Elem::I1);
  const Expr y = narrow(select(odd, -c, s) / select(odd, s, c));
  return select(compare(Pred::olt, abs(x), 1e-5), x, y);
}

}  // namespace poot::math
