// One row an op: what it is for floats, integers and bools. An empty place is Unsupported. f64 has
// the function of floats, or one of its own.
#include "codegen/math/math.h"

#include "codegen/math/functions_f64.h"

namespace poot::math {
namespace {

template <Op op>
Expr one(const Args& in) {
  return in.a.op1(op);
}
template <Op op>
Expr two(const Args& in) {
  return in.a.op2(op, in.b);
}
template <Pred p>
Expr relation(const Args& in) {
  return compare(p, in.a, in.b);
}
template <Pred of_signed, Pred of_unsigned>
Expr order(const Args& in) {
  return compare(in.is_signed ? of_signed : of_unsigned, in.a, in.b);
}
Expr same(const Args& in) {
  return in.a;
}
Expr negate(const Args& in) {
  return -in.a;
}
Expr complement(const Args& in) {
  return ~in.a;
}
Expr choose(const Args& in) {
  return select(in.a, in.b, in.c);
}
Expr fused(const Args& in) {
  return fma(in.a, in.b, in.c);
}
Expr invert(const Args& in) {
  return in.a.like(1) / in.a;
}
Expr invert_sqrt(const Args& in) {
  return in.a.like(1) / in.a.op1(Op::fsqrt);
}
Expr never(const Args& in) {
  return in.a.bits(0, Elem::I1);
}
Expr unordered(const Args& in) {
  return is_nan(in.a);
}

// 0 for NaN and for both zeros, as ATen's difference of two comparisons.
Expr sign_float(const Args& in) {
  const Expr below = select(compare(Pred::olt, in.a, 0), in.a.like(-1), in.a.like(0));
  return select(compare(Pred::ogt, in.a, 0), in.a.like(1), below);
}
Expr sign_int(const Args& in) {
  const Expr zero = in.a.bits(0), one = in.a.bits(1);
  if (!in.is_signed) return in.a.op2(Op::umin, one);
  return in.a.op2(Op::smin, one).op2(Op::smax, zero - one);
}
Expr abs_int(const Args& in) {
  return in.is_signed ? in.a.op2(Op::smax, -in.a) : in.a;
}

// The second operand of equal ones, as ATen's vector code; NaN if either is.
template <Op op>
Expr extreme(const Args& in) {
  return select(is_nan(in.a), in.a, in.a.op2(op, in.b));
}
template <Op of_signed, Op of_unsigned>
Expr extreme_int(const Args& in) {
  return in.a.op2(in.is_signed ? of_signed : of_unsigned, in.b);
}

// Bools in order false, true.
Expr bool_eq(const Args& in) {
  return ~(in.a ^ in.b);
}
Expr bool_lt(const Args& in) {
  return ~in.a & in.b;
}
Expr bool_le(const Args& in) {
  return ~in.a | in.b;
}
Expr bool_gt(const Args& in) {
  return in.a & ~in.b;
}
Expr bool_ge(const Args& in) {
  return in.a | ~in.b;
}

struct Row {
  ir::OpCode op;
  Function on_float, on_int, on_bool;
  Function on_f64 = on_float;
};
using C = ir::OpCode;
constexpr Function none = nullptr;
constexpr Row kRows[] = {
    {C::neg, negate, negate, none},
    {C::abs, one<Op::fabs>, abs_int, same},
    {C::sign, sign_float, sign_int, same},
    {C::exp, exp, none, none, f64::exp},
    {C::exp2, exp2, none, none, f64::exp2},
    {C::expm1, expm1, none, none, f64::expm1},
    {C::log, log, none, none, f64::log},
    {C::log_vector, log_vector, none, none, f64::log},
    {C::log2, log2, none, none, f64::log2},
    {C::log10, log10, none, none, f64::log10},
    {C::log1p, log1p, none, none, f64::log1p},
    {C::sqrt, one<Op::fsqrt>, none, none},
    {C::rsqrt, invert_sqrt, none, none},
    {C::reciprocal, invert, none, none},
    {C::sin, sin, none, none, f64::sin},
    {C::cos, cos, none, none, f64::cos},
    {C::tan, tan, none, none, f64::tan},
    {C::asin, asin, none, none, f64::asin},
    {C::acos, acos, none, none, f64::acos},
    {C::sinh, sinh, none, none, f64::sinh},
    {C::cosh, cosh, none, none, f64::cosh},
    {C::asinh, asinh, none, none, f64::asinh},
    {C::acosh, acosh, none, none, f64::acosh},
    {C::atanh, atanh, none, none, f64::atanh},
    {C::tanh, tanh, none, none, f64::tanh},
    {C::sigmoid, sigmoid, none, none, f64::sigmoid},
    {C::erf, erf, none, none, f64::erf},
    {C::erfc, erfc, none, none, f64::erfc},
    {C::gelu_erf, gelu_erf, none, none, none},
    {C::floor, one<Op::ffloor>, same, same},
    {C::ceil, one<Op::fceil>, same, same},
    {C::trunc, one<Op::ftrunc>, same, same},
    {C::round, one<Op::frint>, same, same},
    {C::bit_not, none, complement, complement},
    {C::is_nan, unordered, never, never},
    {C::add, two<Op::fadd>, two<Op::iadd>, two<Op::bor>},
    {C::sub, two<Op::fsub>, two<Op::isub>, none},
    {C::mul, two<Op::fmul>, two<Op::imul>, two<Op::band>},
    {C::div, two<Op::fdiv>, none, none},
    {C::floor_div, floor_div, floor_div_int, none},
    {C::trunc_div, trunc_div, trunc_div_int, none},
    {C::remainder, remainder, remainder_int, none},
    {C::fmod, fmod, fmod_int, none},
    {C::pow, pow, pow_int, none, f64::pow},
    {C::atan2, atan2, none, none, f64::atan2},
    {C::copysign, two<Op::fcopysign>, none, none},
    {C::maximum, extreme<Op::fmax>, extreme_int<Op::smax, Op::umax>, two<Op::bor>},
    {C::minimum, extreme<Op::fmin>, extreme_int<Op::smin, Op::umin>, two<Op::band>},
    {C::bit_and, none, two<Op::band>, two<Op::band>},
    {C::bit_or, none, two<Op::bor>, two<Op::bor>},
    {C::bit_xor, none, two<Op::bxor>, two<Op::bxor>},
    {C::shift_left, none, shift_left, none},
    {C::shift_right, none, shift_right, none},
    {C::eq, relation<Pred::oeq>, relation<Pred::eq>, bool_eq},
    {C::ne, relation<Pred::une>, relation<Pred::ne>, two<Op::bxor>},
    {C::lt, relation<Pred::olt>, order<Pred::slt, Pred::ult>, bool_lt},
    {C::le, relation<Pred::ole>, order<Pred::sle, Pred::ule>, bool_le},
    {C::gt, relation<Pred::ogt>, order<Pred::sgt, Pred::ugt>, bool_gt},
    {C::ge, relation<Pred::oge>, order<Pred::sge, Pred::uge>, bool_ge},
    {C::select, choose, choose, choose},
    {C::fma, fused, none, none},
};

}  // namespace

kir::ValueId emit(kir::KirBuilder& b, ir::OpCode op, std::span<const kir::ValueId> a,
                  bool is_signed, Accuracy accuracy) {
  const ir::OpInfo& info = ir::op_info(op);
  if (!info.accepts(static_cast<int>(a.size())) || a.empty())
    throw InternalError("math: " + std::string(info.name) + " of " + std::to_string(a.size()) +
                        " operands");
  for (const Row& row : kRows) {
    if (row.op != op) continue;
    const Args in{
        {b, a[0]}, {b, a.size() > 1 ? a[1] : a[0]}, {b, a.size() > 2 ? a[2] : a[0]}, is_signed};
    const Elem e = op == C::select ? in.b.elem() : in.a.elem();
    if (e == Elem::F32 && b.kernel().isa == Isa::Ptx)
      if (const Function f = gpu_function(op, accuracy)) return f(in).id();
    if (e == Elem::F32 && op == C::exp && accuracy != Accuracy::Full)
      return exp_ending_narrow(in).id();
    const Function f = e == Elem::F64     ? row.on_f64
                       : kir::is_float(e) ? row.on_float
                       : e == Elem::I1    ? row.on_bool
                                          : row.on_int;
    if (!f) break;
    return f(in).id();
  }
  throw Unsupported(std::string(info.name), "a kernel function of " + b.type(a.back()).str());
}

}  // namespace poot::math
