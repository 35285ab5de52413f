// Softmax and its kin: the algebra of their parts, and the exponential of their terms.
#include "codegen/math/softmax.h"

#include "codegen/math/functions.h"

namespace poot::math {

using C = ir::OpCode;

bool is_exponential(C op) {
  return op == C::exp;
}

std::optional<Part> part_of(C op, Part a, Part b) {
  const auto are = [&](Part x, Part y) { return a == x && b == y; };
  const auto either = [&](Part x, Part y) { return are(x, y) || are(y, x); };
  switch (op) {
    case C::sub:
      if (are(Part::None, Part::Maximum)) return Part::Shifted;
      if (either(Part::Shifted, Part::LogSum)) return Part::None;
      break;
    case C::exp:
      if (a == Part::Shifted) return Part::Exponential;
      break;
    case C::log:
    case C::log_vector:
      if (a == Part::Sum) return Part::LogSum;
      break;
    case C::reciprocal:
      if (a == Part::Sum) return Part::Inverse;
      break;
    case C::div:
      if (are(Part::Exponential, Part::Sum)) return Part::None;
      break;
    case C::mul:
      if (either(Part::Exponential, Part::Inverse)) return Part::None;
      break;
    case C::add:
      if (either(Part::Maximum, Part::LogSum)) return Part::None;
      break;
    default:
      break;
  }
  return std::nullopt;
}

// e^x for x = v - m, m the maximum of the v or a guess at it. Such an x is seldom far below 0, so
// one constant reduces it (an error of 1.9e-9 n), and a polynomial of degree 5 in Horner's form is
// exact enough for a term of a sum: 2.1 ulp on [-5, 0], 4.7 on [-80, 0]. Above 0 it is right to
// about 80; further up it may be anything.
kir::ValueId exp_of_difference(kir::KirBuilder& b, kir::ValueId v) {
  constexpr double kLog2E = 0x1.715476p+0, kLn2 = 0x1.62e43p-1, kRound = 0x1.8p+23;
  const Expr x = fmax(Expr{b, v}.like(-104), Expr{b, v});
  const Expr n = fma(x, x.like(kLog2E), x.like(kRound)) - kRound;
  const Expr r = fma(n, x.like(-kLn2), x);
  const Expr p = horner(r, {0x1.10628cp-7, 0x1.572beap-5, 0x1.5557b2p-3, 0x1.fffdf8p-2, 1.0, 1.0});
  return fscale_whole(p, n).id();
}

}  // namespace poot::math
