// erfc z = t e^(-z^2 + p(t)), t = 2 / (2 + z), z = |x|; p by Chebyshev coefficients (Press et al.,
// Numerical Recipes, third edition, section 6.2.2), the sixteen that f32 needs, summed by
// Clenshaw's recurrence in f64. erfc(-z) = 2 - erfc z.
#include "codegen/math/functions.h"
#include "codegen/math/wide.h"

namespace poot::math {
namespace {

constexpr double kBeyond = 12;  // erfc is 0 in f32
constexpr double kChebyshev[] = {
    -1.3026537197817094,  6.4196979235649026e-1, 1.9476473204185836e-2, -9.561514786808631e-3,
    -9.46595344482036e-4, 3.66839497852761e-4,   4.2523324806907e-5,    -2.0278578112534e-5,
    -1.624290004647e-6,   1.303655835580e-6,     1.5626441722e-8,       -8.5238095915e-8,
    6.529054439e-9,       5.059343495e-9,        -9.91364156e-10,       -2.27365122e-10};

}  // namespace

Expr erfc(const Args& in) {
  const Expr x = widen(in.a);
  const Expr z = fmin(x.like(kBeyond), abs(x));
  const Expr t = x.like(2) / (z + 2);
  const Expr ty = t * 4 - 2;
  Expr d = x.like(0), before = x.like(0);
  for (size_t k = std::size(kChebyshev) - 1; k > 0; --k) {
    const Expr next = fma(ty, d, x.like(kChebyshev[k]) - before);
    before = d;
    d = next;
  }
  const Expr p = fma(ty, d, x.like(kChebyshev[0])) * 0.5 - before;
  const Expr y = t * wide_exp(fma(-z, z, p));
  return narrow(select(compare(Pred::olt, x, 0), x.like(2) - y, y));
}

}  // namespace poot::math
