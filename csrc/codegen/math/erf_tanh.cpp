// tanh and erf by 32 intervals of |x|: a polynomial of degree 5 about the interval's centre. The
// first interval holds 0 and is evaluated as a + a * small, which keeps its relative error near
// half a unit; beyond the last the functions are 1 in f32.
#include "codegen/math/functions.h"
#include "codegen/math/tables.h"

namespace poot::math {
namespace {

struct Intervals {
  const char* name;
  double saturation;  // |x| from which the result is 1; below 16
  std::span<const float> centre, c[6];
};
const Intervals kTanh = {
    "tanh", 9.015, kTanhCentre, {kTanh0, kTanh1, kTanh2, kTanh3, kTanh4, kTanh5}};
const Intervals kErf = {"erf", 3.925, kErfCentre, {kErf0, kErf1, kErf2, kErf3, kErf4, kErf5}};

Expr evaluate(const Intervals& in, Expr x) {
  const Expr a = fmin(x.like(in.saturation), abs(x));
  const Expr from_sixteenth = shr(a.as(Elem::I32), 21) - (127 - 4) * 4;
  const Expr index = from_sixteenth.op2(Op::smax, from_sixteenth.bits(0)) & from_sixteenth.bits(31);
  auto at = [&](const char* part, std::span<const float> table) {
    return lookup(std::string(in.name) + part, table, index);
  };
  const Expr d = a - at("_centre", in.centre);
  const Expr first = compare(Pred::eq, index, index.bits(0));
  const Expr c0 = select(first, a, at("_0", in.c[0]));
  Expr sum = at("_5", in.c[5]);
  sum = fma(sum, d, at("_4", in.c[4]));
  sum = fma(sum, d, at("_3", in.c[3]));
  sum = fma(sum, d, at("_2", in.c[2]));
  sum = fma(sum, d, at("_1", in.c[1]));
  return copysign(fma(sum, d, c0), x);
}

}  // namespace

Expr tanh(const Args& in) {
  return evaluate(kTanh, in.a);
}

Expr erf(const Args& in) {
  return evaluate(kErf, in.a);
}

}  // namespace poot::math
