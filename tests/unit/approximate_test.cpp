// Functions of a GPU for values that end as f16 or bf16: their error in units of the narrow type,
// and their values where the argument is special.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "codegen/math/math.h"

namespace poot::math {
namespace {

using kir::KirBuilder;
using kir::ValueId;
using Apply = std::function<ValueId(KirBuilder&, ValueId)>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> values(const Apply& f, std::vector<float> x) {
  std::vector<float> y(x.size());
  kir::Kernel k;
  k.name = "apply";
  k.isa = Isa::Ptx;
  KirBuilder b(k);
  const kir::ObjectId in = b.add_object({.name = "x"});
  const kir::ObjectId out = b.add_object({.name = "y", .writable = true});
  const auto n = static_cast<int64_t>(x.size());
  b.for_loop(b.i64(0), b.i64(n), b.i64(1), {}, [&](ValueId i, std::span<const ValueId>) {
    b.store(out, i, f(b, b.load(in, {kir::Elem::F32, 1}, i)));
    return std::vector<ValueId>{};
  });
  const kir::RunArgs args{
      {std::as_writable_bytes(std::span<float>(x)), std::as_writable_bytes(std::span<float>(y))},
      {}};
  EXPECT_EQ(kir::interpret(k, args, 0, 1), 0u);
  return y;
}

std::vector<float> range(float from, float to, int steps = 20000) {
  std::vector<float> x;
  for (int i = 0; i <= steps; ++i)
    x.push_back(from + (to - from) * static_cast<float>(i) / static_cast<float>(steps));
  return x;
}

// Largest error relative to a unit of bf16 at the reference, not below its denormal unit.
double worst_in_bf16(const std::vector<float>& x, const std::vector<float>& y,
                     const std::function<double(double)>& reference) {
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = reference(x[i]);
    const int exponent = std::max(want == 0 ? -126 : std::ilogb(want), -126);
    worst = std::max(worst, std::fabs(y[i] - want) / std::ldexp(1.0, exponent - 7));
  }
  return worst;
}

const Apply kGelu = [](KirBuilder& b, ValueId v) { return gelu_half(b, v); };
const Apply kExp = [](KirBuilder& b, ValueId v) { return exp_below_maximum_half(b, v); };

TEST(Approximate, gelu_is_within_a_hundredth_of_a_unit_of_bf16_to_minus_6) {
  const auto gelu = [](double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); };
  const auto worst = [&](float from, float to) {
    const std::vector<float> x = range(from, to);
    return worst_in_bf16(x, values(kGelu, x), gelu);
  };
  for (const auto& [from, to] : {std::pair{-6.f, -1e-3f}, {-1e-3f, 1e-3f}, {1e-3f, 40.f}})
    EXPECT_LT(worst(from, to), 0.01) << from;
  EXPECT_LT(worst(-9, -6), 0.3);
  for (const float y : values(kGelu, range(-200, -9))) EXPECT_LT(std::fabs(y), 1.1e-18);
}

TEST(Approximate, gelu_of_special_values_is_eagers) {
  const std::vector<float> y = values(kGelu, {kInf, -kInf, kNan, 0.0f, 3e38f, -3e38f});
  EXPECT_EQ(y[0], kInf);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 0);
  EXPECT_EQ(y[4], 3e38f);
  EXPECT_EQ(y[5], 0);
}

TEST(Approximate, exp_below_the_maximum_keeps_denormals) {
  const auto exp = [](double x) { return std::exp(x); };
  for (const auto& [from, to] : {std::pair{-1.f, 0.f}, {-80.f, -1.f}, {-92.f, -80.f}}) {
    const std::vector<float> x = range(from, to);
    EXPECT_LT(worst_in_bf16(x, values(kExp, x), exp), 0.01) << from;
  }
  const std::vector<float> y = values(kExp, {-kInf, kNan, -1000.0f, 0.0f});
  EXPECT_EQ(y[0], 0);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], 1);
}

// The sum has a term of 1 or so beside it.
TEST(Approximate, terms_of_sums_may_vanish_instead_of_being_denormal) {
  const Apply term = [](KirBuilder& b, ValueId v) {
    return emit(b, ir::OpCode::exp, std::vector{v}, true, Accuracy::Term);
  };
  const std::vector<float> y = values(term, {-1.0f, -88.0f, -kInf});
  EXPECT_NEAR(y[0], std::exp(-1.0f), 1e-6);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], 0);
}

}  // namespace
}  // namespace poot::math
