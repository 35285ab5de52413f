// erfc z = t e^(-z^2 + p(t)), t = 2 / (2 + z), z = |x|; p by Chebyshev coefficients (Press et al.,
// Numerical Recipes, third edition, section 6.2.2), summed by Clenshaw's recurrence in f64: the
// sixteen that f32 needs, or all. In f64 the exponent is kept in two parts, since its last place
// alone is hundreds of the result's far out. erfc(-z) = 2 - erfc z.
#include <iterator>

#include "codegen/math/functions.h"
#include "codegen/math/functions_f64.h"
#include "codegen/math/wide.h"

namespace poot::math {
namespace {

constexpr double kBeyond = 12;     // erfc is 0 in f32
constexpr double kBeyondF64 = 28;  // and in f64
constexpr double kChebyshev[] = {-1.3026537197817094,
                                 6.4196979235649026e-1,
                                 1.9476473204185836e-2,
                                 -9.561514786808631e-3,
                                 -9.46595344482036e-4,
                                 3.66839497852761e-4,
                                 4.2523324806907e-5,
                                 -2.0278578112534e-5,
                                 -1.624290004647e-6,
                                 1.303655835580e-6,
                                 1.5626441722e-8,
                                 -8.5238095915e-8,
                                 6.529054439e-9,
                                 5.059343495e-9,
                                 -9.91364156e-10,
                                 -2.27365122e-10,
                                 9.6467911e-11,
                                 2.394038e-12,
                                 -6.886027e-12,
                                 8.94487e-13,
                                 3.13092e-13,
                                 -1.12708e-13,
                                 3.81e-16,
                                 7.106e-15,
                                 -1.523e-15,
                                 -9.4e-17,
                                 1.21e-16,
                                 -2.8e-17};
constexpr size_t kTermsOfF32 = 16;

Expr exponent(Expr t, size_t terms) {
  const Expr ty = t * 4 - 2;
  Expr d = t.like(0), before = t.like(0);
  for (size_t k = terms - 1; k > 0; --k) {
    const Expr next = fma(ty, d, t.like(kChebyshev[k]) - before);
    before = d;
    d = next;
  }
  return fma(ty, d, t.like(kChebyshev[0])) * 0.5 - before;
}

}  // namespace

Expr erfc(const Args& in) {
  const Expr x = widen(in.a);
  const Expr z = fmin(x.like(kBeyond), abs(x));
  const Expr t = x.like(2) / (z + 2);
  const Expr y = t * wide_exp(fma(-z, z, exponent(t, kTermsOfF32)));
  return narrow(select(compare(Pred::olt, x, 0), x.like(2) - y, y));
}

Expr f64::erfc(const Args& in) {
  const Expr x = in.a;
  const Expr z = fmin(x.like(kBeyondF64), abs(x));
  const Expr t = x.like(2) / (z + 2);
  const Pair square = two_product(z, z);
  const Pair sum = two_sum(-square.hi, exponent(t, std::size(kChebyshev)));
  const Expr y = t * exp_of({sum.hi, sum.lo - square.lo});
  return select(compare(Pred::olt, x, 0), x.like(2) - y, y);
}

}  // namespace poot::math
