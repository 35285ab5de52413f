// Expressions over KirBuilder: a value and its builder, so that a formula reads as one. Operators
// emit the instruction of the operand's element type; a plain number becomes a constant of the same
// type and lanes. Nothing is folded or reordered.
#pragma once

#include <concepts>

#include "codegen/kir/kir.h"

namespace poot::math {

using kir::Elem;
using kir::Op;
using kir::Pred;
using kir::Type;

class Expr {
 public:
  Expr(kir::KirBuilder& b, kir::ValueId v) : b_(&b), v_(v) {}

  kir::KirBuilder& builder() const { return *b_; }
  kir::ValueId id() const { return v_; }
  Type type() const { return b_->type(v_); }
  Elem elem() const { return type().elem; }
  int64_t width() const { return kir::bit_width(elem()); }

  // Constants with this value's lanes, of this value's element or of another.
  Expr like(double v) const { return like(v, elem()); }
  Expr like(double v, Elem e) const;  // floats: rounded to the element; ints: exact
  Expr bits(uint64_t v) const { return bits(v, elem()); }
  Expr bits(uint64_t v, Elem e) const { return {*b_, b_->constant(type().with(e), v)}; }

  Expr op1(Op op) const { return {*b_, b_->emit(op, {v_})}; }
  Expr op2(Op op, Expr b) const { return {*b_, b_->emit(op, {v_, b.v_})}; }
  Expr to(Op conversion, Elem e) const { return {*b_, b_->emit(conversion, type().with(e), {v_})}; }
  Expr as(Elem e) const { return e == elem() ? *this : to(Op::bitcast, e); }
  Expr to_i32() const { return to(Op::fptosi, Elem::I32); }

 private:
  kir::KirBuilder* b_;
  kir::ValueId v_;
};

inline Expr operator+(Expr a, Expr b) {
  return a.op2(kir::is_float(a.elem()) ? Op::fadd : Op::iadd, b);
}
inline Expr operator-(Expr a, Expr b) {
  return a.op2(kir::is_float(a.elem()) ? Op::fsub : Op::isub, b);
}
inline Expr operator*(Expr a, Expr b) {
  return a.op2(kir::is_float(a.elem()) ? Op::fmul : Op::imul, b);
}
inline Expr operator/(Expr a, Expr b) {
  return a.op2(Op::fdiv, b);
}
inline Expr operator-(Expr a) {
  return kir::is_float(a.elem()) ? a.op1(Op::fneg) : a.bits(0) - a;
}
inline Expr operator&(Expr a, Expr b) {
  return a.op2(Op::band, b);
}
inline Expr operator|(Expr a, Expr b) {
  return a.op2(Op::bor, b);
}
inline Expr operator^(Expr a, Expr b) {
  return a.op2(Op::bxor, b);
}
inline Expr operator~(Expr a) {
  return a ^ a.bits(kir::low_bits(a.width()));
}

template <std::convertible_to<double> N>
Expr operator+(Expr a, N b) {
  return a + a.like(b);
}
template <std::convertible_to<double> N>
Expr operator-(Expr a, N b) {
  return a - a.like(b);
}
template <std::convertible_to<double> N>
Expr operator*(Expr a, N b) {
  return a * a.like(b);
}

inline Expr fma(Expr a, Expr b, Expr c) {
  return {a.builder(), a.builder().emit(Op::fma, {a.id(), b.id(), c.id()})};
}
// Horner's rule in x; coefficients from the highest power down.
Expr horner(Expr x, std::initializer_list<double> coefficients);

inline Expr compare(Pred p, Expr a, Expr b) {
  auto& k = a.builder();
  return {k, kir::is_float(p) ? k.fcmp(p, a.id(), b.id()) : k.icmp(p, a.id(), b.id())};
}
inline Expr compare(Pred p, Expr a, double b) {
  return compare(p, a, a.like(b));
}
inline Expr select(Expr m, Expr a, Expr b) {
  return {a.builder(), a.builder().select(m.id(), a.id(), b.id())};
}
inline Expr abs(Expr a) {
  return a.op1(Op::fabs);
}
inline Expr copysign(Expr magnitude, Expr sign) {
  return magnitude.op2(Op::fcopysign, sign);
}
// a < b ? a : b, and b where unordered: the second operand's NaN survives.
inline Expr fmin(Expr a, Expr b) {
  return a.op2(Op::fmin, b);
}
inline Expr fmax(Expr a, Expr b) {
  return a.op2(Op::fmax, b);
}
inline Expr fscale(Expr a, Expr n) {
  return a.op2(Op::fscale, n);
}
inline Expr fscale_whole(Expr a, Expr n) {
  return a.op2(Op::fscale_whole, n);
}
inline Expr shr(Expr a, int n) {
  return a.op2(Op::lshr, a.bits(static_cast<uint64_t>(n)));
}
inline Expr shl(Expr a, int n) {
  return a.op2(Op::shl, a.bits(static_cast<uint64_t>(n)));
}
inline Expr is_nan(Expr a) {
  return compare(Pred::uno, a, a);
}

Expr any(Expr mask);  // scalar

Expr lookup(std::string_view name, std::span<const float> table, Expr index);
Expr lookup(std::string_view name, std::span<const double> table, Expr index);

}  // namespace poot::math
