// Functions of a GPU, where 2^x, 1/x and the larger of two numbers are one instruction each.
// `half`: for values that end as f16 or bf16, errors stay far below half a unit there; otherwise
// they are as good as those of the plain functions (2 ulp of f32).
//
// Reading and writing a bf16 element once leaves about 27 issue slots: exp takes 5 (full: 10), as a
// term or below its maximum 2 or 3, sigmoid 4, tanh 8, erf 16, gelu 11. 2^x that keeps denormal
// results takes three slots more than the one that makes them zero.
#include "codegen/math/functions.h"
#include "codegen/math/math.h"

namespace poot::math {
namespace {

constexpr double kLog2E = 0x1.715476p+0;
constexpr double kLog2ELow = 0x1.4ae0bep-26;

Expr exp2_of(Expr x) {
  return x.op1(Op::fexp2_approx);
}
// Where a denormal result is added to something of moderate size or multiplied to nothing.
Expr exp2_flushed(Expr x) {
  return x.op1(Op::fexp2_flush);
}
Expr reciprocal_of(Expr x) {
  return x.op1(Op::frecip_approx);
}

// e^x = 2^n 2^r with n near x log2 e, so that r is exact where x is large. n is rounded by adding a
// number whose last bit counts ones, and stays where 2^n is normal: beyond, r grows.
Expr exp_full(const Args& in) {
  constexpr double kRound = 0x1.8p+23;
  constexpr int kMantissa = 23, kMost = 126;
  const Expr x = in.a;
  const Expr shifted = fma(x, x.like(kLog2E), x.like(kRound))
                           .op2(Op::fmaximum, x.like(kRound - kMost))
                           .op2(Op::fminimum, x.like(kRound + kMost));
  const Expr r = fma(x, x.like(kLog2ELow), fma(x, x.like(kLog2E), -(shifted - kRound)));
  const Expr power =
      shl(shifted.as(Elem::I32), kMantissa) + shifted.bits(uint64_t{0x3f800000}, Elem::I32);
  return exp2_flushed(r) * power.as(Elem::F32);
}

Expr exp_half(const Args& in) {
  return exp2_of(in.a * kLog2E);
}

Expr exp_term(const Args& in) {
  return exp2_flushed(in.a * kLog2E);
}

// 1 / (1 + e^-x): 0 and 1 at the infinities, since 1 / inf is 0.
Expr sigmoid_half(const Args& in) {
  return reciprocal_of(exp2_flushed(in.a * -kLog2E) + 1);
}

// 1 - 2 / (1 + e^2x); near 0 that cancels, and tanh x is x there.
Expr tanh_half(const Args& in) {
  const Expr t = reciprocal_of(exp2_flushed(in.a * (2 * kLog2E)) + 1);
  const Expr far = fma(t, t.like(-2), t.like(1));
  return select(compare(Pred::olt, abs(in.a), 0x1p-6),
                fma(in.a * in.a * in.a, in.a.like(-1.0 / 3), in.a), far);
}

// 1 - (a1 t + ... + a5 t^5) e^-x^2 with t = 1 / (1 + p |x|) (Abramowitz and Stegun 7.1.26), within
// 1.5e-7; near 0, two terms of the series.
Expr erfc_of_size(Expr a) {
  const Expr t = reciprocal_of(fma(a, a.like(0.3275911), a.like(1)));
  const Expr polynomial =
      horner(t, {1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592}) * t;
  return polynomial * exp2_flushed(a * a * -kLog2E);
}

Expr erf_half(const Args& in) {
  const Expr a = abs(in.a);
  const Expr far = copysign(a.like(1) - erfc_of_size(a), in.a);
  const Expr near = in.a * fma(a * a, a.like(-0.3761263890318375), a.like(1.1283791670955126));
  return select(compare(Pred::olt, a, 0x1p-5), near, far);
}

Expr divide_half(const Args& in) {
  return in.a.op2(Op::fdiv_approx, in.b);
}
Expr sqrt_half(const Args& in) {
  return in.a.op1(Op::fsqrt_approx);
}
Expr rsqrt_half(const Args& in) {
  return in.a.like(1).op2(Op::fdiv_approx, in.a.op1(Op::fsqrt_approx));
}
Expr invert_half(const Args& in) {
  return in.a.like(1).op2(Op::fdiv_approx, in.a);
}

Expr maximum_of(const Args& in) {
  return in.a.op2(Op::fmaximum, in.b);
}
Expr minimum_of(const Args& in) {
  return in.a.op2(Op::fminimum, in.b);
}

Expr tanh_rounded(const Args& in) {
  return in.a.op1(Op::ftanh_approx);
}

struct Row {
  ir::OpCode op;
  Function full, half, rounded = nullptr, term = nullptr;
};
using C = ir::OpCode;
constexpr Row kRows[] = {
    {C::maximum, maximum_of, maximum_of},
    {C::minimum, minimum_of, minimum_of},
    {C::exp, exp_full, exp_half, nullptr, exp_term},
    {C::sigmoid, nullptr, sigmoid_half},
    {C::tanh, nullptr, tanh_half, tanh_rounded},
    {C::erf, nullptr, erf_half},
    {C::div, nullptr, divide_half},
    {C::sqrt, nullptr, sqrt_half},
    {C::rsqrt, nullptr, rsqrt_half},
    {C::reciprocal, nullptr, invert_half},
};

}  // namespace

// erfc |a| below 0, 2 - erfc a above.
kir::ValueId one_plus_erf_half(kir::KirBuilder& b, kir::ValueId a) {
  const Expr x{b, a};
  const Expr c = erfc_of_size(abs(x));
  return select(compare(Pred::olt, x, 0.0), c, x.like(2) - c).id();
}

// x cdf(x) = max(x, 0) - |x| cdf(-|x|), whose second part is small where |x| is not. The logarithm
// of the normal distribution's integral is close to a parabola: a polynomial of degree 7, fitted to
// it on [0, 9.5], falls everywhere, and gives the integral within 3e-5 of itself to 6, 5e-4 to 8,
// 1e-3 to 9. Infinity would be multiplied by that 0: another large number is. At -inf the product
// is no number, as in eager.
kir::ValueId gelu_half(kir::KirBuilder& b, kir::ValueId a) {
  constexpr double kHuge = 0x1p100;
  const Expr x{b, a};
  const Expr size = abs(x.op2(Op::fminimum, x.like(kHuge)));
  const Expr integral = exp2_flushed(
      horner(size, {-1.2159093785157893e-06, 4.7249148337868974e-05, -7.9995044507086277e-04,
                    7.9187313094735146e-03, -5.2593138068914413e-02, -4.5998325943946838e-01,
                    -1.1506075859069824, -1.0000425577163696}));
  return fma(-size, integral, x.op2(Op::fmaximum, x.like(0))).id();
}

// e^a for a <= 0: computed 2^32 times as large, where nothing that f32 holds is denormal.
kir::ValueId exp_below_maximum_half(kir::KirBuilder& b, kir::ValueId a) {
  const Expr x{b, a};
  return (exp2_flushed(fma(x, x.like(kLog2E), x.like(32))) * 0x1p-32).id();
}

bool is_error_function(ir::OpCode op) {
  return op == ir::OpCode::erf;
}

kir::ValueId gpu_exp(kir::KirBuilder& b, kir::ValueId a) {
  return exp_full({{b, a}, {b, a}, {b, a}, true}).id();
}

Function gpu_function(ir::OpCode op, Accuracy accuracy) {
  for (const Row& row : kRows)
    if (row.op == op) {
      if (accuracy == Accuracy::Rounded && row.rounded) return row.rounded;
      if (accuracy == Accuracy::Term && row.term) return row.term;
      return accuracy == Accuracy::Full ? row.full : row.half;
    }
  return nullptr;
}

}  // namespace poot::math
