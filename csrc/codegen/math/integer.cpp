// Integer division and shifts. A zero divisor and minimum / -1 must not trap: their quotients are
// unspecified and the minimum, and the lowering reports the zero. On x86 division up to 32 bits
// goes through f64, which has vector instructions and is exact there; LLVM would divide lane by
// lane.
#include "codegen/math/functions.h"

namespace poot::math {
namespace {

Expr quotient_through_f64(const Args& in) {
  auto widen = [&](Expr v) {
    const Expr w = v.width() == 32 ? v : v.to(in.is_signed ? Op::sext : Op::zext, Elem::I32);
    return w.to(Op::sitofp, Elem::F64);
  };
  const Expr a = widen(in.a), b = widen(in.b);
  const Expr q = (a / b).to_i32();  // infinity, NaN and 2^31 become the minimum
  return in.a.width() == 32 ? q : q.to(Op::itrunc, in.a.elem());
}

Expr quotient(const Args& in) {
  const bool x86 = in.a.builder().kernel().isa == Isa::X86;
  if (x86 && in.a.width() <= 32) return quotient_through_f64(in);
  const Expr one = in.a.bits(1);
  if (!in.is_signed) {
    const Expr zero = compare(Pred::eq, in.b, in.b.bits(0));
    return in.a.op2(Op::udiv, select(zero, one, in.b));
  }
  // 0 and -1 divide by 1 instead; b + 1 is 0 or 1 for exactly those two.
  const Expr guarded = compare(Pred::ule, in.b + one, one);
  const Expr q = in.a.op2(Op::sdiv, select(guarded, one, in.b));
  return select(guarded, -in.a, q);
}

Expr rest(const Args& in, Expr q) {
  return in.a - q * in.b;
}

// The rest is not zero and has not the divisor's sign.
Expr crosses_zero(const Args& in, Expr r) {
  const Expr zero = r.bits(0);
  return compare(Pred::ne, r, zero) & compare(Pred::slt, r ^ in.b, zero);
}

}  // namespace

Expr trunc_div_int(const Args& in) {
  return quotient(in);
}

Expr fmod_int(const Args& in) {
  return rest(in, quotient(in));
}

Expr floor_div_int(const Args& in) {
  const Expr q = quotient(in);
  if (!in.is_signed) return q;
  return select(crosses_zero(in, rest(in, q)), q - 1, q);
}

Expr remainder_int(const Args& in) {
  const Expr r = fmod_int(in);
  if (!in.is_signed) return r;
  return select(crosses_zero(in, r), r + in.b, r);
}

// ATen: 0 for a count below zero or from the width on.
Expr shift_left(const Args& in) {
  const Expr zero = in.a.bits(0);
  const Expr inside = compare(Pred::ult, in.b, in.b.bits(static_cast<uint64_t>(in.b.width())));
  return select(inside, in.a.op2(Op::shl, select(inside, in.b, zero)), zero);
}

// ATen: such a count shifts everything out, leaving the sign.
Expr shift_right(const Args& in) {
  const auto width = static_cast<uint64_t>(in.b.width());
  if (in.is_signed) return in.a.op2(Op::ashr, in.b.op2(Op::umin, in.b.bits(width - 1)));
  const Expr zero = in.a.bits(0);
  const Expr inside = compare(Pred::ult, in.b, in.b.bits(width));
  return select(inside, in.a.op2(Op::lshr, select(inside, in.b, zero)), zero);
}

}  // namespace poot::math
