// The f64 functions of the math library, run by the KIR interpreter, against long double libm.
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "math_harness.h"

namespace poot::math {
namespace {

using Wide = long double;
using C = ir::OpCode;
static_assert(std::numeric_limits<Wide>::digits >= 64);
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Error in units of the last place of the f64 nearest to `want`.
double ulp_error(double got, Wide want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : kInf;
  const auto rounded = static_cast<double>(want);
  if (got == rounded) return 0;
  if (std::isinf(got) || std::isinf(rounded)) {
    // Overflow may come a unit early or late.
    const Wide limit = std::ldexp(1.0L, 1024);
    const Wide finite = std::isinf(got) ? std::fabs(want) : std::fabs(static_cast<Wide>(got));
    return finite < limit ? static_cast<double>((limit - finite) / std::ldexp(1.0L, 971)) : kInf;
  }
  const int exponent = std::max(rounded == 0 ? -1074 : std::ilogb(rounded), -1022);
  return static_cast<double>(std::fabs(got - want) / std::ldexp(1.0L, exponent - 52));
}

const double kSpecial[] = {0.0,
                           -0.0,
                           kInf,
                           -kInf,
                           kNan,
                           1.0,
                           -1.0,
                           0x1p-1074,
                           -0x1p-1074,
                           0x1.fffffffffffffp1023,
                           -0x1.fffffffffffffp1023,
                           0x1p-1022,
                           0x1.921fb54442d18p0,
                           0x1.fffffffffffffp-1,
                           0x1.0000000000001p0};

std::vector<double> sample(double range) {
  std::vector<double> v(std::begin(kSpecial), std::end(kSpecial));
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> dense(-range, range);
  for (int i = 0; i < 6000; ++i) v.push_back(std::bit_cast<double>(random()));
  for (int i = 0; i < 12000; ++i) v.push_back(dense(random));
  for (int i = 0; i < 3000; ++i) v.push_back(1 + dense(random) / range / 16);
  return v;
}

struct Case {
  ir::OpCode op;
  Wide (*reference)(Wide);
  double range, limit;
};
class UnaryF64 : public testing::TestWithParam<Case> {};

TEST_P(UnaryF64, StaysWithinItsError) {
  const Case c = GetParam();
  const std::vector<double> x = sample(c.range);
  const std::vector<double> y = apply<double>(c.op, columns(x));
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const Wide want = c.reference(x[i]);
    const double e = ulp_error(y[i], want);
    if (e > worst) worst = e, at = i;
    if (want == 0 && y[i] == 0) {
      EXPECT_EQ(std::signbit(y[i]), std::signbit(want)) << x[i];
    }
  }
  EXPECT_LE(worst, c.limit) << ir::op_info(c.op).name << "(" << std::hexfloat << x[at]
                            << ") = " << y[at] << ", not " << c.reference(x[at]);
  RecordProperty("ulp_hundredths", static_cast<int>(worst * 100));
}

Wide sigmoid(Wide x) {
  return x > 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

INSTANTIATE_TEST_SUITE_P(
    Functions, UnaryF64,
    testing::Values(Case{C::exp, std::exp, 745, 1.3}, Case{C::exp2, std::exp2, 1074, 1.3},
                    Case{C::expm1, std::expm1, 40, 1.5}, Case{C::sigmoid, sigmoid, 745, 1.3},
                    Case{C::tanh, std::tanh, 22, 1.3}, Case{C::sinh, std::sinh, 5, 2.5},
                    Case{C::cosh, std::cosh, 5, 1.5}, Case{C::log, std::log, 1e6, 0.6},
                    Case{C::log2, std::log2, 1e6, 0.6}, Case{C::log10, std::log10, 1e6, 0.6},
                    Case{C::log1p, std::log1p, 1, 0.6}, Case{C::sin, std::sin, 1e5, 1.0},
                    Case{C::cos, std::cos, 1e5, 1.0}, Case{C::tan, std::tan, 1e5, 2.5},
                    Case{C::erf, std::erf, 6, 1.0}, Case{C::erfc, std::erfc, 27, 4.0},
                    Case{C::asin, std::asin, 1, 2.5}, Case{C::acos, std::acos, 1, 2.5},
                    Case{C::asinh, std::asinh, 100, 2.5}, Case{C::acosh, std::acosh, 100, 2.5},
                    Case{C::atanh, std::atanh, 1, 2.5}),
    [](const auto& p) { return std::string(ir::op_info(p.param.op).name); });

void expect_binary(ir::OpCode op, Wide (*reference)(Wide, Wide), double range, double limit) {
  std::vector<double> x, y;
  for (const double a : kSpecial)
    for (const double b :
         {0.0, -0.0, 1.0, -1.0, 2.0, 3.0, -3.0, 0.5, -2.5, 1e300, kInf, -kInf, kNan})
      x.push_back(a), y.push_back(b);
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> dense(-range, range);
  for (int i = 0; i < 8000; ++i) {
    x.push_back(i % 2 ? dense(random) : std::exp(dense(random)));
    y.push_back(i % 3 ? dense(random) : std::round(dense(random)));
  }
  const std::vector<double> z = apply<double>(op, columns(x, y));
  for (size_t i = 0; i < x.size(); ++i) {
    const Wide want = reference(x[i], y[i]);
    ASSERT_LE(ulp_error(z[i], want), limit)
        << std::hexfloat << x[i] << " and " << y[i] << " give " << z[i] << ", not " << want;
    if (want == 0 && z[i] == 0) {
      ASSERT_EQ(std::signbit(z[i]), std::signbit(want)) << x[i] << " and " << y[i];
    }
  }
}

TEST(BinaryF64, pow) {
  expect_binary(C::pow, std::pow, 200, 1.5);
}
TEST(BinaryF64, atan2) {
  expect_binary(C::atan2, std::atan2, 50, 1.5);
}

}  // namespace
}  // namespace poot::math
