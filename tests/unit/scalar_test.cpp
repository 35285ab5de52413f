// Scalar semantics at the places where implementations differ.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/scalar_eval.h"

namespace poot::ir {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double eval(OpCode op, DType d, std::initializer_list<double> args) {
  std::vector<Bits> bits;
  for (const double a : args) bits.push_back(from_double(a, d));
  return to_double(eval_pointwise(op, d, d, bits, nullptr), d);
}

int64_t eval_int(OpCode op, DType d, std::initializer_list<int64_t> args,
                 ScalarFault* fault = nullptr) {
  std::vector<Bits> bits;
  for (const int64_t a : args) bits.push_back(from_int(a, d));
  return to_int(eval_pointwise(op, d, d, bits, fault), d);
}

Bits cast(double v, DType from, DType to) {
  const Bits bits[] = {from_double(v, from)};
  return eval_pointwise(OpCode::cast, from, to, bits, nullptr);
}

TEST(Scalar, HalvesRoundTripAndRoundToEven) {
  for (uint32_t b = 0; b < 65536; ++b)
    for (const DType d : {DType::F16, DType::BF16}) {
      const double v = to_double(b, d);
      if (std::isnan(v)) continue;
      ASSERT_EQ(from_double(v, d), b) << name(d) << " " << b;
    }
  EXPECT_EQ(from_double(1 + 0x1p-11, DType::F16), from_double(1, DType::F16));
  EXPECT_EQ(to_double(from_double(1 + 3 * 0x1p-11, DType::F16), DType::F16), 1 + 0x1p-9);
  EXPECT_EQ(to_double(from_double(65520, DType::F16), DType::F16), kInf);
  EXPECT_EQ(to_double(from_double(65519, DType::F16), DType::F16), 65504);
  EXPECT_EQ(from_double(0x1p-25, DType::F16), 0u);
  EXPECT_EQ(from_double(0x1.8p-25, DType::F16), 1u);
  EXPECT_EQ(to_double(from_double(1 + 0x1p-8, DType::BF16), DType::BF16), 1);
  EXPECT_TRUE(std::isnan(to_double(from_double(NAN, DType::BF16), DType::BF16)));
}

TEST(Scalar, FloorDivisionAndRemainderOfFloats) {
  EXPECT_EQ(eval(OpCode::floor_div, DType::F64, {1.0, 0.1}), 9);
  EXPECT_EQ(eval(OpCode::floor_div, DType::F32, {1.0, 0.1}), 9);
  EXPECT_EQ(eval(OpCode::floor_div, DType::F64, {6.0, 0.2}), 29);
  EXPECT_EQ(eval(OpCode::floor_div, DType::F32, {-7.0, 2.0}), -4);
  EXPECT_EQ(eval(OpCode::floor_div, DType::F32, {1.0, 0.0}), kInf);
  EXPECT_TRUE(std::signbit(eval(OpCode::floor_div, DType::F32, {-0.0, 3.0})));
  EXPECT_EQ(eval(OpCode::trunc_div, DType::F32, {-7.0, 2.0}), -3);
  EXPECT_EQ(eval(OpCode::remainder, DType::F32, {-7.0, 3.0}), 2);
  EXPECT_EQ(eval(OpCode::fmod, DType::F32, {-7.0, 3.0}), -1);
  EXPECT_EQ(eval(OpCode::remainder, DType::F32, {7.0, -3.0}), -2);
}

TEST(Scalar, IntegersWrapAndFaultOnZero) {
  for (const DType d : {DType::I32, DType::I64}) {
    const int64_t lowest =
        d == DType::I32 ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min();
    EXPECT_EQ(eval_int(OpCode::floor_div, d, {lowest, -1}), lowest);
    EXPECT_EQ(eval_int(OpCode::trunc_div, d, {lowest, -1}), lowest);
    EXPECT_EQ(eval_int(OpCode::remainder, d, {lowest, -1}), 0);
    EXPECT_EQ(eval_int(OpCode::neg, d, {lowest}), lowest);
    EXPECT_EQ(eval_int(OpCode::abs, d, {lowest}), lowest);
    EXPECT_EQ(eval_int(OpCode::sub, d, {lowest, 1}), -(lowest + 1));
  }
  for (const OpCode op : {OpCode::floor_div, OpCode::trunc_div, OpCode::remainder, OpCode::fmod}) {
    ScalarFault fault = ScalarFault::None;
    eval_int(op, DType::I32, {5, 0}, &fault);
    EXPECT_EQ(fault, ScalarFault::DivideByZero);
  }
  EXPECT_EQ(eval_int(OpCode::floor_div, DType::I32, {-7, 2}), -4);
  EXPECT_EQ(eval_int(OpCode::remainder, DType::I32, {-7, 3}), 2);
  EXPECT_EQ(eval_int(OpCode::fmod, DType::I32, {-7, 3}), -1);
  EXPECT_EQ(eval_int(OpCode::neg, DType::U8, {1}), 255);
  EXPECT_EQ(eval_int(OpCode::pow, DType::I32, {3, 5}), 243);
  EXPECT_EQ(eval_int(OpCode::pow, DType::I32, {-1, -3}), -1);
  EXPECT_EQ(eval_int(OpCode::pow, DType::I32, {2, -1}), 0);
}

TEST(Scalar, ShiftsAsAten) {
  EXPECT_EQ(eval_int(OpCode::shift_left, DType::I32, {1, 31}), -(int64_t{1} << 31));
  EXPECT_EQ(eval_int(OpCode::shift_left, DType::I32, {1, 32}), 0);
  EXPECT_EQ(eval_int(OpCode::shift_left, DType::I32, {1, -1}), 0);
  EXPECT_EQ(eval_int(OpCode::shift_right, DType::I32, {-8, 1}), -4);
  EXPECT_EQ(eval_int(OpCode::shift_right, DType::I32, {-8, 99}), -1);
  EXPECT_EQ(eval_int(OpCode::shift_right, DType::I32, {8, -1}), 0);
  EXPECT_EQ(eval_int(OpCode::shift_right, DType::U8, {200, 3}), 25);
}

TEST(Scalar, NaNAndSignedZero) {
  EXPECT_TRUE(std::isnan(eval(OpCode::maximum, DType::F32, {NAN, 1})));
  EXPECT_TRUE(std::isnan(eval(OpCode::minimum, DType::F32, {1, NAN})));
  EXPECT_TRUE(std::signbit(eval(OpCode::maximum, DType::F32, {0.0, -0.0})));
  EXPECT_FALSE(std::signbit(eval(OpCode::maximum, DType::F32, {-0.0, 0.0})));
  EXPECT_EQ(eval(OpCode::sign, DType::F32, {NAN}), 0);
  EXPECT_TRUE(std::signbit(eval(OpCode::mul, DType::F32, {0.0, -1})));
  EXPECT_TRUE(std::signbit(eval(OpCode::copysign, DType::F32, {3, -0.0})));
  EXPECT_EQ(eval(OpCode::round, DType::F32, {2.5}), 2);
  EXPECT_TRUE(std::signbit(eval(OpCode::round, DType::F32, {-0.25})));
  EXPECT_EQ(eval(OpCode::sigmoid, DType::F32, {-kInf}), 0);
  const Bits zeros[] = {from_double(0.0, DType::F32), from_double(-0.0, DType::F32)};
  EXPECT_EQ(eval_pointwise(OpCode::eq, DType::F32, DType::Bool, zeros, nullptr), 1u);
  const Bits pick[] = {1, from_double(NAN, DType::F32) | 0x12345, 7};
  EXPECT_EQ(eval_pointwise(OpCode::select, DType::F32, DType::F32, pick, nullptr), pick[1]);
}

TEST(Scalar, EachStepRoundsToItsType) {
  EXPECT_EQ(eval(OpCode::add, DType::BF16, {256, 1}), 256);
  EXPECT_EQ(eval(OpCode::add, DType::F16, {2048, 1}), 2048);
  EXPECT_EQ(eval(OpCode::fma, DType::F32, {1 + 0x1p-12, 1 + 0x1p-12, -1}), 0x1p-11 + 0x1p-24);
  EXPECT_EQ(eval(OpCode::mul, DType::F32, {1 + 0x1p-12, 1 + 0x1p-12}), 1 + 0x1p-11);
}

TEST(Scalar, Casts) {
  EXPECT_EQ(to_int(cast(-1.9, DType::F32, DType::I32), DType::I32), -1);
  EXPECT_EQ(to_int(cast(3e9, DType::F32, DType::I32), DType::I32),
            std::numeric_limits<int32_t>::min());
  EXPECT_EQ(to_int(cast(NAN, DType::F64, DType::I64), DType::I64),
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(to_int(cast(300, DType::F32, DType::U8), DType::U8), 44);
  EXPECT_EQ(to_int(cast(-5, DType::F32, DType::U8), DType::U8), 251);
  EXPECT_EQ(cast(NAN, DType::F32, DType::Bool), 1u);
  EXPECT_EQ(cast(-0.0, DType::F32, DType::Bool), 0u);
  EXPECT_EQ(to_double(cast(1e39, DType::F64, DType::F32), DType::F32), kInf);
  EXPECT_EQ(to_double(from_int((int64_t{1} << 24) + 1, DType::F32), DType::F32), 0x1p24);
}

TEST(Scalar, ReductionIdentitiesAreNeutral) {
  const OpCode ops[] = {OpCode::reduce_sum, OpCode::reduce_prod, OpCode::reduce_max,
                        OpCode::reduce_min};
  for (const DType d : {DType::U8, DType::I8, DType::I32, DType::I64, DType::F16, DType::F32})
    for (const OpCode op : ops)
      for (const int64_t v : {0, 1, 5, 127}) {
        const Bits x = from_int(v, d);
        EXPECT_EQ(reduce_step(op, d, reduce_identity(op, d), x), x) << op_info(op).name << name(d);
      }
  EXPECT_TRUE(std::isnan(to_double(
      reduce_step(OpCode::reduce_max, DType::F32, from_double(NAN, DType::F32), 0), DType::F32)));
}

}  // namespace
}  // namespace poot::ir
