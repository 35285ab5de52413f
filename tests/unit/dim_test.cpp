// Size expressions: canonical form, text, evaluation, intervals.
#include "support/dim.h"

#include <gtest/gtest.h>

#include <random>

#include "support/errors.h"

namespace poot {
namespace {

Dim P(std::string_view s) {
  return Dim::parse(s);
}

std::string constraint(const auto& action) {
  try {
    action();
  } catch (const InvalidGraph& e) {
    return e.constraint();
  }
  return "none";
}

TEST(Dim, SpellingsOfOneSizeAreEqual) {
  EXPECT_EQ(P("s0 + s0"), P("2*s0"));
  EXPECT_EQ(P("(s0 + 1)*(s0 - 1)"), P("s0*s0 - 1"));
  EXPECT_EQ(P("s0 - s0"), Dim(0));
  EXPECT_EQ(P("floordiv(4096*s0, s0)"), Dim(4096));
  EXPECT_EQ(P("floordiv(s0*s1 + s1, s0 + 1)"), P("s1"));
  EXPECT_EQ(P("floordiv(4*s0 + 7, 4)"), P("s0 + 1"));
  EXPECT_EQ(P("floordiv(floordiv(s0 - 3, 2) + 1, 4)"), P("floordiv(s0 - 1, 8)"));
  EXPECT_EQ(P("floordiv(s0 - 1, 2) + 1"), P("floordiv(s0 + 1, 2)"));
  EXPECT_EQ(P("mod(6*s0 + 4, 4)"), P("2*mod(s0, 2)"));
  EXPECT_EQ(P("mod(8*s0 + 3, 4)"), Dim(3));
  EXPECT_EQ(P("max(s0, s0 + 2)"), P("s0 + 2"));
  EXPECT_EQ(P("max(max(s1, 1), s0)"), P("max(s0, max(1, s1, s0))"));
  EXPECT_EQ(P("min(s0, s0)"), P("s0"));
  EXPECT_NE(P("s0"), P("s1"));
  EXPECT_EQ(P("s0*s1").hash(), P("s1*s0").hash());
}

TEST(Dim, TextRoundTrips) {
  for (const char* text :
       {"0", "-3", "s0", "-s0", "4*s0*s0*s1 + floordiv(s1, 2) - 3", "s0 + s1", "max(1, s0)",
        "mod(s0 + 1, 8)", "floordiv(s0, s1)", "-2*s0 + 7", "-9223372036854775808",
        "s0 + -9223372036854775808", "-9223372036854775808*s0"})
    EXPECT_EQ(P(text).str(), text);
}

TEST(Dim, BadTextIsRefusedWithItsColumn) {
  for (const char* text : {"", "s", "1 +", "s0 s1", "floordiv(1)", "mod(1,2,3)", "q(1,2)", "(1",
                           "99999999999999999999", "s99999999999", "1)"}) {
    try {
      P(text);
      ADD_FAILURE() << text;
    } catch (const InvalidGraph& e) {
      EXPECT_EQ(e.constraint(), "dim-C1") << text;
      EXPECT_TRUE(e.where().starts_with("column ")) << e.where();
    }
  }
  EXPECT_EQ(constraint([] { P(std::string(100000, '(')); }), "dim-C1");
  EXPECT_EQ(constraint([] { P(std::string(100000, '-') + "1"); }), "dim-C1");
}

TEST(Dim, OverflowAndDivisionByZeroAreRefused) {
  const int64_t big[] = {INT64_MAX / 2 + 1};
  EXPECT_EQ(constraint([&] { P("2*s0").eval(big); }), "dim-C2");
  EXPECT_EQ(constraint([] { Dim(INT64_MAX) + Dim(1); }), "dim-C2");
  EXPECT_EQ(constraint([] { Dim(INT64_MIN) - Dim(1); }), "dim-C2");
  EXPECT_EQ(constraint([] { Dim::floordiv(Dim(INT64_MIN), Dim(-1)); }), "dim-C2");
  EXPECT_EQ(constraint([] { P("mod(s0, 0)"); }), "dim-C3");
  const int64_t zero[] = {0, 0};
  EXPECT_EQ(constraint([&] { P("floordiv(s0 + 1, s1)").eval(zero); }), "dim-C3");
  EXPECT_EQ(constraint([] { P("s3").eval({}); }), "symbol-C1");
}

TEST(Dim, RandomExpressionsEvaluateAsWritten) {
  std::mt19937 rng(7);
  auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 500; ++round) {
    const int64_t symbols[] = {1 + pick(20), 1 + pick(20), 1 + pick(20)};
    const SymbolTable table = {{{1, 20}, 4}, {{1, 20}, 5}, {{1, 20}, 6}};
    std::vector<std::pair<Dim, int64_t>> pool;
    for (int i = 0; i < 3; ++i) pool.push_back({Dim::symbol(i), symbols[i]});
    for (int i = 0; i < 3; ++i)
      pool.push_back({Dim(pick(9) - 4), 0}), pool.back().second = pool.back().first.value();
    for (int step = 0; step < 6; ++step) {
      const auto [a, x] = pool[pick(static_cast<int>(pool.size()))];
      const auto [b, y] = pool[pick(static_cast<int>(pool.size()))];
      const int64_t d = 1 + pick(6);
      const int64_t q = (x - ((x % d) + d) % d) / d;
      switch (pick(6)) {
        case 0:
          pool.push_back({a + b, x + y});
          break;
        case 1:
          pool.push_back({a - b, x - y});
          break;
        case 2:
          if (std::abs(x * y) < 100000) pool.push_back({a * b, x * y});
          break;
        case 3:
          pool.push_back({Dim::floordiv(a, d), q});
          break;
        case 4:
          pool.push_back({Dim::mod(a, d), x - q * d});
          break;
        default:
          pool.push_back({Dim::max(a, Dim::min(b, 3)), std::max(x, std::min<int64_t>(y, 3))});
      }
      const auto& [e, v] = pool.back();
      ASSERT_EQ(e.eval(symbols), v) << e.str();
      ASSERT_EQ(P(e.str()), e) << e.str();
      ASSERT_TRUE(e.range(table).contains(v)) << e.str();
      const Dim values[] = {symbols[0], symbols[1], symbols[2]};
      ASSERT_EQ(e.substitute(values), Dim(v)) << e.str();
    }
  }
}

TEST(Dim, RangesAndDivisibility) {
  const SymbolTable table = {{{2, 1024}, 128}, {{0, INT64_MAX}, 3}};
  EXPECT_EQ(P("4*s0 - 1").range(table).lo, 7);
  EXPECT_EQ(P("4*s0 - 1").range(table).hi, 4095);
  EXPECT_EQ(P("s0*s1").range(table).hi, INT64_MAX);
  EXPECT_EQ(P("mod(s1, 8)").range(table).hi, 7);
  EXPECT_EQ(P("floordiv(s0, 4)").range(table).hi, 256);
  EXPECT_EQ(P("s0*8 + 16*s1").hint(table), 1072);
  EXPECT_TRUE(P("s0*8 + 16*s1").divisible_by(8));
  EXPECT_FALSE(P("s0*8 + 4").divisible_by(8));
  std::vector<uint32_t> symbols;
  P("max(s3, s1) + s1").collect_symbols(symbols);
  EXPECT_EQ(symbols, (std::vector<uint32_t>{1, 3}));
}

TEST(Dim, LinearInOneSymbol) {
  const auto found = Dim::parse("3*s1 + 4").linear();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->symbol, 1u);
  EXPECT_EQ(found->factor, 3);
  EXPECT_EQ(found->offset, 4);
  EXPECT_EQ(Dim::symbol(2).linear()->factor, 1);
  for (const char* text : {"7", "s0*s1", "s0*s0", "s0 + s1", "floordiv(s0, 2)", "5 - s0"})
    EXPECT_FALSE(Dim::parse(text).linear()) << text;
}

TEST(Dim, VisitCallsOneFunction) {
  struct Count : Dim::Visitor {
    std::string log;
    void constant(int64_t v) override { log += std::to_string(v); }
    void symbol(uint32_t i) override { log += "s" + std::to_string(i); }
    void apply(char op, std::span<const Dim> operands) override {
      log += '(';
      log += op;
      for (const Dim& d : operands) {
        log += ' ';
        d.visit(*this);
      }
      log += ')';
    }
  } count;
  P("4*s0*s1 + floordiv(s1, 2) - 3").visit(count);
  EXPECT_EQ(count.log, "(+ (* 4 s0 s1) (/ s1 2) -3)");
}

TEST(Dim, StridesOfEmptyDimsCountAsOne) {
  EXPECT_EQ(contiguous_strides({Dim(2), Dim(0), Dim(3)}), (Shape{Dim(3), Dim(3), Dim(1)}));
  EXPECT_EQ(str(Shape{P("s0"), Dim(4)}), "[s0, 4]");
  EXPECT_EQ(numel({P("s0"), Dim(4)}), P("4*s0"));
}

}  // namespace
}  // namespace poot
