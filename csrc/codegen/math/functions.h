// The functions behind math::emit, one family a file. Floats are f32 unless a comment says f64 too;
// integers have any width. All lanes are computed: there is no trap and no branch, except the slow
// path of sin and cos.
#pragma once

#include "codegen/math/expr.h"
#include "codegen/math/math.h"

namespace poot::math {

struct Args {
  Expr a, b, c;  // what the op has not, repeats a
  bool is_signed;
};
using Function = Expr (*)(const Args&);

// exp.cpp
Expr exp(const Args& in);
Expr exp_ending_narrow(const Args& in);
Expr exp2(const Args& in);
Expr expm1(const Args& in);
Expr sigmoid(const Args& in);

// log.cpp
Expr log(const Args& in);
Expr log_vector(const Args& in);
Expr log2(const Args& in);
Expr log10(const Args& in);
Expr log1p(const Args& in);

// trig.cpp, inverse_trig.cpp
Expr sin(const Args& in);
Expr cos(const Args& in);
Expr tan(const Args& in);
Expr asin(const Args& in);
Expr acos(const Args& in);
Expr atan2(const Args& in);

// hyperbolic.cpp
Expr sinh(const Args& in);
Expr cosh(const Args& in);
Expr asinh(const Args& in);
Expr acosh(const Args& in);
Expr atanh(const Args& in);

// erf_tanh.cpp, erfc.cpp, gelu_erf.cpp
Expr tanh(const Args& in);
Expr erf(const Args& in);
Expr erfc(const Args& in);
Expr gelu_erf(const Args& in);

// approximate.cpp: what a GPU uses instead of the f32 function of an op, or null.
Function gpu_function(ir::OpCode op, Accuracy accuracy);

// pow.cpp
Expr pow(const Args& in);
Expr pow_int(const Args& in);

// division.cpp: f64 too (on x86)
Expr fmod(const Args& in);
Expr remainder(const Args& in);
Expr floor_div(const Args& in);
Expr trunc_div(const Args& in);

// integer.cpp
Expr fmod_int(const Args& in);
Expr remainder_int(const Args& in);
Expr floor_div_int(const Args& in);
Expr trunc_div_int(const Args& in);
Expr shift_left(const Args& in);
Expr shift_right(const Args& in);

}  // namespace poot::math
