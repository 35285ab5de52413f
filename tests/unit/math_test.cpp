// The math library, run by the KIR interpreter, against double precision libm: the largest error in
// units of the last place over strided bit patterns of all floats and a dense range about zero, and
// the special values.
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "math_harness.h"

namespace poot::math {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Error in units of the last place of the f32 nearest to `want`; infinite where one is NaN or both
// are not the same infinity.
double ulp_error(float got, double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : kInf;
  const auto rounded = static_cast<float>(want);
  if (got == rounded) return 0;
  if (std::isinf(got) || std::isinf(rounded)) {
    // Overflow may come half a unit early or late.
    const double limit = 0x1p128;
    if (std::isinf(got) && std::fabs(want) < limit) return (limit - std::fabs(want)) / 0x1p104;
    if (!std::isinf(got)) return (limit - std::fabs(static_cast<double>(got))) / 0x1p104;
    return kInf;
  }
  const int exponent = std::max(rounded == 0 ? -149 : std::ilogb(rounded), -126);
  return std::fabs(static_cast<double>(got) - want) / std::ldexp(1.0, exponent - 23);
}

std::vector<float> sample(float range, size_t count) {
  std::vector<float> v = {0.0f,
                          -0.0f,
                          kInf,
                          -kInf,
                          kNan,
                          1.0f,
                          -1.0f,
                          0x1p-149f,
                          -0x1p-149f,
                          0x1.fffffep127f,
                          -0x1.fffffep127f,
                          0x1p-126f,
                          0x1.fffffcp-127f};
  const auto stride = static_cast<uint32_t>((uint64_t{1} << 32) / count) | 1;
  for (size_t i = 0; i < count; ++i)
    v.push_back(std::bit_cast<float>(static_cast<uint32_t>(i) * stride));
  std::mt19937 random(11);
  std::uniform_real_distribution<float> dense(-range, range);
  for (size_t i = 0; i < count / 2; ++i) v.push_back(dense(random));
  return v;
}

// Infinite where e^|x| is none of f32's numbers, as eager.
double early(double x, double y) {
  return std::fabs(x) > 0x1.62e42ep+6 ? std::copysign(double{kInf}, y) : y;
}

struct Case {
  ir::OpCode op;
  double (*reference)(double);
  float range;   // of the dense part
  double limit;  // ulp
};
using C = ir::OpCode;

class Unary : public testing::TestWithParam<Case> {};

TEST_P(Unary, StaysWithinItsError) {
  const Case c = GetParam();
  const std::vector<float> x = sample(c.range, 16000);
  const std::vector<float> y = apply<float>(c.op, columns(x));
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = c.reference(x[i]);
    const double e = ulp_error(y[i], want);
    if (e > worst) worst = e, at = i;
    if (want == 0 && y[i] == 0) {
      EXPECT_EQ(std::signbit(y[i]), std::signbit(want)) << x[i];
    }
  }
  EXPECT_LE(worst, c.limit) << ir::op_info(c.op).name << "(" << x[at] << ") = " << y[at] << ", not "
                            << c.reference(x[at]);
  RecordProperty("ulp_hundredths", static_cast<int>(worst * 100));
}

INSTANTIATE_TEST_SUITE_P(
    Math, Unary,
    testing::Values(Case{C::exp, [](double x) { return std::exp(x); }, 100, 1.1},
                    Case{C::exp2, [](double x) { return std::exp2(x); }, 140, 1.15},
                    Case{C::expm1, [](double x) { return std::expm1(x); }, 2, 1.45},
                    Case{C::log, [](double x) { return std::log(x); }, 2, 0.9},
                    Case{C::log_vector, [](double x) { return std::log(x); }, 2, 1.0},
                    Case{C::log2, [](double x) { return std::log2(x); }, 2, 0.75},
                    Case{C::log10, [](double x) { return std::log10(x); }, 2, 0.85},
                    Case{C::log1p, [](double x) { return std::log1p(x); }, 1, 1.15},
                    Case{C::sin, [](double x) { return std::sin(x); }, 20, 0.9},
                    Case{C::cos, [](double x) { return std::cos(x); }, 20, 0.9},
                    Case{C::tan, [](double x) { return std::tan(x); }, 20, 0.52},
                    Case{C::asin, [](double x) { return std::asin(x); }, 1, 0.52},
                    Case{C::acos, [](double x) { return std::acos(x); }, 1, 0.52},
                    Case{C::sinh, [](double x) { return early(x, std::sinh(x)); }, 95, 0.52},
                    Case{C::cosh, [](double x) { return early(x, std::cosh(x)); }, 95, 0.52},
                    Case{C::asinh, [](double x) { return std::asinh(x); }, 1e6, 0.52},
                    Case{C::acosh, [](double x) { return std::acosh(x); }, 1e6, 0.52},
                    Case{C::atanh, [](double x) { return std::atanh(x); }, 1, 0.52},
                    Case{C::erfc, [](double x) { return std::erfc(x); }, 12, 0.52},
                    Case{C::tanh, [](double x) { return std::tanh(x); }, 10, 0.85},
                    Case{C::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 100, 1.5},
                    Case{C::erf, [](double x) { return std::erf(x); }, 4, 1.05},
                    Case{C::sqrt, [](double x) { return std::sqrt(x); }, 4, 0.5},
                    Case{C::reciprocal, [](double x) { return 1 / x; }, 4, 0.5},
                    Case{C::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 4, 1.5},
                    Case{C::floor, [](double x) { return std::floor(x); }, 9, 0},
                    Case{C::ceil, [](double x) { return std::ceil(x); }, 9, 0},
                    Case{C::trunc, [](double x) { return std::trunc(x); }, 9, 0},
                    Case{C::round, [](double x) { return std::nearbyint(x); }, 9, 0},
                    Case{C::abs, [](double x) { return std::fabs(x); }, 9, 0},
                    Case{C::neg, [](double x) { return -x; }, 9, 0},
                    Case{C::sign, [](double x) { return double(x > 0) - double(x < 0); }, 9, 0}),
    [](const auto& info) { return std::string(ir::op_info(info.param.op).name); });

TEST(GeluErf, IsOneBeyondAndHasNoNumberAtInfinity) {
  const std::vector<float> x = sample(6, 16000);
  const std::vector<float> y = apply<float>(C::gelu_erf, columns(x));
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i])) {
      EXPECT_TRUE(std::isnan(y[i])) << x[i];
      continue;
    }
    EXPECT_NEAR(y[i], std::erf(x[i] / std::sqrt(2.0)), 0x1p-20) << x[i];
    if (std::fabs(x[i]) > 5.5426) {
      EXPECT_EQ(std::fabs(y[i]), 1) << x[i];
    }
    EXPECT_EQ(std::signbit(x[i]), std::signbit(y[i])) << x[i];
  }
}

float largest(float a, float b) {
  return std::isnan(a) ? a : a > b ? a : b;
}
float smallest(float a, float b) {
  return std::isnan(a) ? a : a < b ? a : b;
}
float aten_remainder(float a, float b) {
  float m = std::fmod(a, b);
  if (m != 0 && ((b < 0) != (m < 0))) m += b;
  return m;
}
float aten_floor_div(float a, float b) {
  if (b == 0) return a / b;
  const float mod = std::fmod(a, b);
  float div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
  if (div == 0) return std::copysign(0.0f, a / b);
  float floor = std::floor(div);
  if (div - floor > 0.5f) floor += 1;
  return floor;
}

struct Pairs {
  std::vector<float> a, b;
};
Pairs pairs() {
  const std::vector<float> special = {0.0f,
                                      -0.0f,
                                      1.0f,
                                      -1.0f,
                                      2.0f,
                                      -2.0f,
                                      3.0f,
                                      -3.0f,
                                      0.5f,
                                      -0.5f,
                                      kInf,
                                      -kInf,
                                      kNan,
                                      0x1p-149f,
                                      0x1.fffffep127f,
                                      -0x1.fffffep127f,
                                      16777216.0f,
                                      -16777217.0f,
                                      1e-30f,
                                      7.25f};
  Pairs p;
  for (float a : special)
    for (float b : special) p.a.push_back(a), p.b.push_back(b);
  std::mt19937 random(5);
  std::uniform_real_distribution<float> near(-30, 30);
  for (int i = 0; i < 4000; ++i) {
    p.a.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    p.b.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    p.a.push_back(near(random));
    p.b.push_back(i % 2 ? near(random) : std::floor(near(random)));
  }
  return p;
}

void expect_exact(C op, float (*reference)(float, float)) {
  const Pairs p = pairs();
  const std::vector<float> y = apply<float>(op, columns(p.a, p.b));
  for (size_t i = 0; i < y.size(); ++i) {
    const float want = reference(p.a[i], p.b[i]);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(y[i])) << p.a[i] << " " << p.b[i] << " " << y[i];
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(want))
          << ir::op_info(op).name << " " << p.a[i] << " " << p.b[i] << " " << y[i] << " " << want;
    }
  }
}

TEST(MathBinary, FloatsEqualTheirDefinition) {
  expect_exact(C::add, [](float a, float b) { return a + b; });
  expect_exact(C::sub, [](float a, float b) { return a - b; });
  expect_exact(C::mul, [](float a, float b) { return a * b; });
  expect_exact(C::div, [](float a, float b) { return a / b; });
  expect_exact(C::maximum, largest);
  expect_exact(C::minimum, smallest);
  expect_exact(C::copysign, [](float a, float b) { return std::copysign(a, b); });
  expect_exact(C::trunc_div, [](float a, float b) { return std::trunc(a / b); });
  expect_exact(C::fmod, [](float a, float b) { return std::fmod(a, b); });
  expect_exact(C::remainder, aten_remainder);
  expect_exact(C::floor_div, aten_floor_div);
}

void expect_close(C op, double (*reference)(double, double), double limit) {
  const Pairs p = pairs();
  const std::vector<float> y = apply<float>(op, columns(p.a, p.b));
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double want = reference(p.a[i], p.b[i]);
    const double e = ulp_error(y[i], want);
    if (e > worst) worst = e, at = i;
    if (want == 0 && y[i] == 0) {
      EXPECT_EQ(std::signbit(y[i]), std::signbit(want)) << p.a[i] << " " << p.b[i];
    }
  }
  EXPECT_LE(worst, limit) << ir::op_info(op).name << " " << p.a[at] << " " << p.b[at] << " = "
                          << y[at];
  testing::Test::RecordProperty("ulp_hundredths_" + std::string(ir::op_info(op).name),
                                static_cast<int>(worst * 100));
}

TEST(MathBinary, PowAndAtan2StayWithinTheirError) {
  expect_close(C::pow, [](double a, double b) { return std::pow(a, b); }, 0.6);
  expect_close(C::atan2, [](double a, double b) { return std::atan2(a, b); }, 0.51);
}

TEST(MathUnary, IsNanAndF64) {
  EXPECT_EQ(apply<int8_t>(C::is_nan, columns(std::vector<float>{kNan, 1, kInf, -0.0f})),
            (std::vector<int8_t>{1, 0, 0, 0}));
  EXPECT_EQ(apply<double>(C::rsqrt, columns(std::vector<double>{4, 0.25})),
            (std::vector<double>{0.5, 2}));
  EXPECT_EQ(
      apply<double>(C::floor_div, columns(std::vector<double>{-7, 7}, std::vector<double>{2, 2})),
      (std::vector<double>{-4, 3}));
  EXPECT_THROW(apply<double>(C::gelu_erf, columns(std::vector<double>{1})), Unsupported);
  EXPECT_THROW(apply<float>(C::bit_and, columns(std::vector<float>{1}, std::vector<float>{1})),
               Unsupported);
}

template <class T>
T wrap(__int128 v) {
  return static_cast<T>(v);
}
template <class T>
T int_pow(T a, T b) {
  if (std::is_signed_v<T> && b < 0) {
    if (a == 1) return 1;
    if (a == static_cast<T>(-1)) return b % 2 ? static_cast<T>(-1) : T{1};
    return 0;
  }
  uint64_t r = 1, base = static_cast<uint64_t>(a);
  for (auto e = static_cast<uint64_t>(b); e; e >>= 1, base *= base)
    if (e & 1) r *= base;
  return static_cast<T>(r);
}
template <class T>
T shifted_left(T a, T b) {
  if (b < 0 || b >= static_cast<T>(8 * sizeof(T))) return 0;
  return static_cast<T>(static_cast<uint64_t>(a) << b);
}
template <class T>
T shifted_right(T a, T b) {
  const auto most = static_cast<T>(8 * sizeof(T) - std::is_signed_v<T>);
  return static_cast<T>(a >> (b < 0 || b >= most ? most : b));
}

template <class T>
void expect_ints(Isa isa, uint16_t lanes) {
  std::vector<T> values = {0,
                           1,
                           2,
                           3,
                           5,
                           7,
                           8,
                           31,
                           63,
                           100,
                           static_cast<T>(-1),
                           static_cast<T>(-2),
                           static_cast<T>(-7),
                           std::numeric_limits<T>::min(),
                           std::numeric_limits<T>::max(),
                           static_cast<T>(std::numeric_limits<T>::max() - 1)};
  std::mt19937_64 random(3);
  for (int i = 0; i < 16; ++i) values.push_back(static_cast<T>(random()));
  std::vector<T> a, b;
  for (T x : values)
    for (T y : values) a.push_back(x), b.push_back(y);
  auto check = [&](C op, const std::function<__int128(__int128, __int128)>& f, bool divides) {
    const auto got = apply<T>(op, columns(a, b), isa, lanes);
    for (size_t i = 0; i < a.size(); ++i) {
      if (divides && b[i] == 0) continue;
      ASSERT_EQ(got[i], wrap<T>(f(a[i], b[i])))
          << ir::op_info(op).name << sizeof(T) << " " << int64_t(a[i]) << " " << int64_t(b[i]);
    }
  };
  const auto floor_of = [](__int128 x, __int128 y) {
    const __int128 q = x / y;
    return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
  };
  check(C::add, [](auto x, auto y) { return x + y; }, false);
  check(C::sub, [](auto x, auto y) { return x - y; }, false);
  check(C::mul, [](auto x, auto y) { return x * y; }, false);
  check(C::trunc_div, [](auto x, auto y) { return x / y; }, true);
  check(C::fmod, [](auto x, auto y) { return x % y; }, true);
  check(C::floor_div, floor_of, true);
  check(C::remainder, [&](auto x, auto y) { return x - floor_of(x, y) * y; }, true);
  check(C::maximum, [](auto x, auto y) { return std::max(x, y); }, false);
  check(C::minimum, [](auto x, auto y) { return std::min(x, y); }, false);
  check(C::bit_xor, [](auto x, auto y) { return x ^ y; }, false);
  check(C::pow, [](auto x, auto y) { return int_pow<T>(T(x), T(y)); }, false);
  check(C::shift_left, [](auto x, auto y) { return shifted_left<T>(T(x), T(y)); }, false);
  check(C::shift_right, [](auto x, auto y) { return shifted_right<T>(T(x), T(y)); }, false);
  const auto lt = apply<int8_t>(C::lt, columns(a, b), isa, lanes);
  const auto ge = apply<int8_t>(C::ge, columns(a, b), isa, lanes);
  const auto sign = apply<T>(C::sign, columns(a), isa, lanes);
  const auto abs = apply<T>(C::abs, columns(a), isa, lanes);
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(lt[i], a[i] < b[i]);
    ASSERT_EQ(ge[i], a[i] >= b[i]);
    ASSERT_EQ(sign[i], static_cast<T>((a[i] > 0) - (a[i] < 0)));
    ASSERT_EQ(abs[i], wrap<T>(a[i] < 0 ? -static_cast<__int128>(a[i]) : a[i]));
  }
}

TEST(MathInteger, EveryWidthWraps) {
  expect_ints<uint8_t>(Isa::X86, 16);
  expect_ints<int8_t>(Isa::X86, 16);
  expect_ints<int16_t>(Isa::X86, 8);
  expect_ints<int32_t>(Isa::X86, 16);
  expect_ints<int64_t>(Isa::X86, 8);
}

TEST(MathInteger, ScalarLanesOfAGpu) {
  expect_ints<uint8_t>(Isa::Ptx, 1);
  expect_ints<int32_t>(Isa::Ptx, 1);
  expect_ints<int64_t>(Isa::Ptx, 1);
  const std::vector<float> x = {0.5f, 1e6f, -3e38f, kInf};
  const std::vector<float> y = apply<float>(C::sin, columns(x), Isa::Ptx, 1);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_LE(ulp_error(y[i], std::sin(double(x[i]))), 1.5);
}

TEST(MathBool, TruthTables) {
  for (auto [op, table] : {std::pair{C::add, 0b1110},
                           {C::mul, 0b1000},
                           {C::maximum, 0b1110},
                           {C::minimum, 0b1000},
                           {C::bit_xor, 0b0110},
                           {C::eq, 0b1001},
                           {C::ne, 0b0110},
                           {C::lt, 0b0010},
                           {C::le, 0b1011},
                           {C::gt, 0b0100},
                           {C::ge, 0b1101}}) {
    for (int row = 0; row < 4; ++row) {
      kir::Kernel k;
      k.name = "bools";
      KirBuilder b(k);
      const kir::ObjectId y = b.add_object({.name = "y", .elem = Elem::I8, .writable = true});
      const ValueId args[] = {b.constant({Elem::I1, 1}, uint64_t(row >> 1)),
                              b.constant({Elem::I1, 1}, row & 1u)};
      b.store(y, b.i64(0), b.emit(kir::Op::zext, Type{Elem::I8, 1}, {emit(b, op, args, false)}));
      std::vector<int8_t> out(1);
      kir::interpret(k, {{std::as_writable_bytes(std::span(out))}, {}, {1, 1, 1}}, 0, 1);
      EXPECT_EQ(out[0], table >> row & 1) << ir::op_info(op).name << row;
    }
  }
}

}  // namespace
}  // namespace poot::math
