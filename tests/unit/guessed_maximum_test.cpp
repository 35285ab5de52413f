// Softmax and log-softmax over long rows against a guessed maximum (lower/guessed_maximum.cpp).
#include <limits>

#include "codegen/math/softmax.h"
#include "lower_cpu_test.h"

namespace poot::lowering_test {
namespace {

using ir::OpCode;
using tile::AxisId;
using tile::BufferId;
using tile::TileBuilder;
using tile::ValueId;

constexpr DType kF32 = DType::F32;
constexpr float kInf = std::numeric_limits<float>::infinity();
const Dim kN = Dim::symbol(0);

enum class Result { Softmax, LogSoftmax, LogSumExp, Maximum, Picked };

// One row of n columns.
tile::Program program(Result result, DType d, const Dim& n, int64_t capacity) {
  TileBuilder b("guess");
  const BufferId x = b.buffer("x", d, false), out = b.buffer("out", d, true);
  const AxisId c = b.axis("c", capacity, b.dim(n));
  const auto f32 = [&](OpCode op, std::vector<ValueId> a) { return b.pointwise(op, kF32, a); };
  const auto wide = [&](ValueId v) { return d == kF32 ? v : f32(OpCode::cast, {v}); };
  const ValueId v = wide(b.load(x, b.coord(c), {c}));
  const ValueId m = b.reduce(OpCode::reduce_max, v, 0);
  const ValueId t = f32(OpCode::sub, {v, m}), e = f32(OpCode::exp, {t});
  const ValueId s = b.reduce(OpCode::reduce_sum, e, 0);
  const auto store = [&](ValueId y) {
    if (d != kF32) y = b.pointwise(OpCode::cast, d, {y});
    b.store(out, result == Result::Softmax || result == Result::LogSoftmax ? b.coord(c) : b.cst(0),
            y);
  };
  switch (result) {
    case Result::Softmax:
      store(f32(OpCode::div, {e, s}));
      break;
    case Result::LogSoftmax:
      store(f32(OpCode::sub, {t, f32(OpCode::log, {s})}));
      break;
    case Result::LogSumExp:
      store(f32(OpCode::add, {f32(OpCode::log, {s}), m}));
      break;
    case Result::Maximum:  // the maximum itself is wanted
      store(f32(OpCode::mul, {s, m}));
      break;
    case Result::Picked: {
      const ValueId picked = wide(b.load(x, b.cst(5), {AxisId()}));
      store(f32(OpCode::sub, {f32(OpCode::log, {s}), f32(OpCode::sub, {picked, m})}));
    }
  }
  return b.finish();
}

// Logarithms near 0 are right to their terms' digits.
void expect_near(const tile::Program& p, const std::vector<Data>& data,
                 const std::vector<int64_t>& symbols, double relative) {
  const kir::Kernel k = codegen::lower_cpu(p, cpu_target());
  const Data want = run_tiles(p, data, symbols).buffers[1];
  const Data got = run_kir(p, k, data, symbols).buffers[1];
  for (int64_t i = 0; i < want.size(); ++i) {
    const double x = ir::to_double(want.get(i), want.dtype),
                 y = ir::to_double(got.get(i), got.dtype);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    ASSERT_LE(std::abs(x - y), relative * std::abs(x) + 1e-6) << "element " << i << " is " << y;
  }
}

void check(const std::vector<std::pair<int64_t, float>>& changes, int64_t n = 3000,
           float everywhere = 0) {
  for (const DType d : {kF32, DType::BF16})
    for (const Result result :
         {Result::Softmax, Result::LogSoftmax, Result::LogSumExp, Result::Maximum, Result::Picked})
      for (const bool fixed : {true, false}) {
        const bool wide = result == Result::Softmax || result == Result::LogSoftmax;
        std::vector<Data> data{Data::random(d, n, 1), Data(d, wide ? n : 1)};
        for (int64_t i = 0; everywhere != 0 && i < n; ++i)
          data[0].set(i, ir::from_double(everywhere, d));
        for (auto [at, value] : changes) data[0].set(at, ir::from_double(value, d));
        const tile::Program p =
            fixed ? program(result, d, Dim(n), n) : program(result, d, kN, 1 << 30);
        expect_near(p, data, {n}, d == kF32 ? 1e-5 : 0x1p-7);
      }
}

TEST(GuessedMaximum, IsTakenWhereResultsDoNotDependOnIt) {
  const auto text = [](Result r, int64_t n) {
    return codegen::lower_cpu(program(r, kF32, Dim(n), n), cpu_target()).str();
  };
  const auto guesses = [&](Result r, int64_t n) {
    return text(r, n).find("constant 1024 i64") != std::string::npos;
  };
  EXPECT_TRUE(guesses(Result::Softmax, 3000));
  EXPECT_TRUE(guesses(Result::LogSoftmax, 3000));
  EXPECT_TRUE(guesses(Result::LogSumExp, 3000));
  EXPECT_TRUE(guesses(Result::Picked, 3000));
  EXPECT_FALSE(guesses(Result::Maximum, 3000));
  EXPECT_FALSE(guesses(Result::Softmax, 2000));
}

TEST(GuessedMaximum, OrdinaryRows) {
  check({});
  check({}, 2048);
  check({}, 1100);
}

TEST(GuessedMaximum, LateMaxima) {
  check({{2999, 50.0f}});
  check({{2999, 63.0f}});
  check({{1500, 1000.0f}});
  check({{3, 1000.0f}});
  check({{1024, 3e38f}, {5, -3e38f}});
}

TEST(GuessedMaximum, MaskedPrefixes) {
  std::vector<std::pair<int64_t, float>> masked;
  for (int64_t i = 0; i < 1500; ++i) masked.emplace_back(i, -kInf);
  check(masked);
  masked.emplace_back(2000, 100.0f);
  check(masked);
  check({}, 3000, -kInf);
  check({}, 3000, -500);
}

TEST(GuessedMaximum, InfinitiesAndNan) {
  check({{7, kInf}});
  check({{2900, kInf}});
  check({{7, NAN}});
  check({{2900, NAN}});
  check({{2900, NAN}, {2901, 200.0f}});
}

TEST(GuessedMaximum, TermsAreAccurate) {
  kir::Kernel k;
  k.name = "terms";
  kir::KirBuilder b(k);
  b.add_object({.name = "x"});
  b.add_object({.name = "y", .writable = true});
  const int64_t n = 1 << 14;
  b.for_loop(b.i64(0), b.i64(n), b.i64(16), {}, [&](kir::ValueId i, std::span<const kir::ValueId>) {
    const kir::ValueId x = b.load(kir::ObjectId(0), {kir::Elem::F32, 16}, i);
    b.store(kir::ObjectId(1), i, math::exp_of_difference(b, x));
    return std::vector<kir::ValueId>{};
  });
  std::vector<float> x(n), y(n);
  for (int64_t i = 0; i < n; ++i) x[i] = -80 + 140.0f * static_cast<float>(i) / n;
  x[0] = -kInf, x[1] = NAN, x[2] = -1e30f, x[3] = 0, x[4] = -0.0f;
  kir::RunArgs args;
  args.buffers = {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y))};
  kir::interpret(k, args, 0, 1);
  EXPECT_EQ(y[0], 0);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], 1);
  EXPECT_EQ(y[4], 1);
  for (int64_t i = 5; i < n; ++i) {
    const double want = std::exp(static_cast<double>(x[i]));
    const double limit = x[i] >= -5 && x[i] <= 0 ? 2.2 : 5;
    ASSERT_LE(std::abs(y[i] - want), limit * 0x1p-23 * want) << x[i];
  }
}

}  // namespace
}  // namespace poot::lowering_test
