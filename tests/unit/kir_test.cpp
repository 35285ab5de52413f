// KIR text, builder and verifier: round trips, and every rule broken once.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "codegen/kir/kir.h"

namespace poot::kir {
namespace {

Kernel sample() {
  Kernel k;
  k.name = "scale";
  k.meta_words = 1;
  KirBuilder b(k);
  const ObjectId x = b.add_object({.name = "x"});
  const ObjectId y = b.add_object({.name = "y", .writable = true});
  const ObjectId t = b.table("t", Elem::F32, std::vector<uint64_t>{0x3f800000, 0x40000000});
  const ValueId n = b.meta(0);
  const Type v16{Elem::F32, 16};
  auto sums = b.for_loop(b.i64(0), n, b.i64(16), {b.f32(-0.0f, 16)},
                         [&](ValueId i, std::span<const ValueId> carried) {
                           const ValueId v = b.load(x, v16, i, 4);
                           const ValueId m = b.fcmp(Pred::fugt, v, b.f32(1.5f, 16));
                           const ValueId w = b.lookup(t, b.i32(1, 16));
                           b.store(y, i, b.select(m, v, w), 4, true);
                           return std::vector<ValueId>{b.emit(Op::fadd, {carried[0], v})};
                         });
  const ValueId s = b.emit(Op::reduce_fadd, {sums[0]});
  const ValueId big = b.fcmp(Pred::ogt, s, b.f32(3));
  auto r = b.if_else(
      big, [&] { return std::vector<ValueId>{s}; },
      [&] { return std::vector<ValueId>{b.emit(Op::fneg, {s})}; });
  b.store(y, b.i64(0), r[0]);
  b.fail(2, b.icmp(Pred::slt, n, b.i64(-5)));
  return k;
}

TEST(KirText, RoundTripIsExact) {
  const Kernel k = sample();
  ASSERT_TRUE(verify(k).empty()) << verify(k)[0].constraint << verify(k)[0].detail;
  const std::string text = k.str();
  EXPECT_EQ(parse_kernel(text).str(), text);
  EXPECT_NE(text.find("= constant 0x80000000 f32x16"), std::string::npos) << text;
}

std::string wrap(const std::string& body, const std::string& head = "x86 meta=1 threads=1") {
  return "kernel @k " + head + " {\nbuffer %x f32\nbuffer %y f32 out\ntable %t f32 [0x1, 0x2]\n" +
         body + "\n}\n";
}

std::string error_of(const std::string& text) {
  try {
    parse_kernel(text);
  } catch (const InvalidGraph& e) {
    return e.constraint() + " " + e.where();
  }
  return "";
}

TEST(KirVerify, EachRuleIsBrokenByOneText) {
  const std::pair<const char*, std::string> cases[] = {
      {"kir-P1 5:1", wrap("@")},
      {"kir-P1 5:6", wrap("%0 = nothing i64")},
      {"kir-C1 5:11", wrap("%0 = fneg %1 f32")},
      {"kir-C1 6:1", wrap("%0 = meta 0 i64\n%0 = meta 0 i64")},
      {"kir-C2 6:6", wrap("%0 = constant 0x0 f32\n%1 = fadd %0 f32")},
      {"kir-C3 6:6", wrap("%0 = constant 0 i32\n%1 = fneg %0 i32")},
      {"kir-C3 7:6", wrap("%0 = constant 0x0 f32\n%1 = constant 0x0 f32x4\n%2 = fadd %0, %1 f32")},
      {"kir-C3 7:6",
       wrap("%0 = constant 0x0 f32x4\n%1 = constant 0x0 bf16x4\n%2 = dot_pairs %0, %1, %1 f32x4")},
      {"kir-C3 7:6",
       wrap("%0 = constant 0x0 f64x4\n%1 = constant 0x0 bf16x8\n%2 = dot_pairs %0, %1, %1 f64x4")},
      {"kir-C4 6:6", wrap("%0 = constant 0x0 f32\n%1 = fneg %0 f64")},
      {"kir-C4 6:6", wrap("%0 = constant 0x0 f64\n%1 = fptrunc %0 bf16")},
      {"kir-C5 5:19", wrap("%0 = constant 0x0 f32x65")},
      {"kir-C4 6:6", wrap("%0 = constant 0x0 f32x3\n%1 = reduce_fadd %0 f32")},
      {"kir-C6 5:1", wrap("barrier")},
      {"kir-C7 6:6", wrap("%0 = constant 0 i64\n%1 = load %x[%0] f64")},
      {"kir-C7 6:6", wrap("%0 = constant 0 i64\n%1 = load %t[%0] f32")},
      {"kir-C7 6:11", wrap("%0 = constant 0 i64\n%1 = load %z[%0] f32")},
      {"kir-C7 7:1", wrap("%0 = constant 0 i64\n%1 = constant 0x0 f32\nstore %x[%0, %1]")},
      {"kir-C9 6:6", wrap("%0 = constant 0 i64\n%1 = load %x[%0] f32 align 6")},
      {"kir-C10 5:6", wrap("%0 = meta 1 i64")},
      {"kir-C10 5:15", wrap("%0 = constant 300 i8")},
      {"kir-C10 5:1", wrap("tile_zero 8")},
      {"kir-C10 5:1", wrap("tile_dot [0, 1]")},
      {"kir-C10 5:1", wrap("tile_dot [0, 1, 8]")},
      {"kir-C7 6:1", wrap("%0 = constant 0 i64\ntile_store 0 %x[%0, %0]")},
      {"kir-C10 6:6", wrap("%0 = constant 0x0 f32x4\n%1 = extract 4 %0 f32")},
      {"kir-C11 6:11", wrap("%0 = constant 0 i32\n%1 = icmp olt %0, %0 i1")},
  };
  for (const auto& [want, text] : cases) EXPECT_EQ(error_of(text), want) << text;
}

TEST(KirVerify, StructuralRules) {
  auto constraint = [](const std::string& text) {
    const std::string e = error_of(text);
    return e.substr(0, e.find(' '));
  };
  const std::string zero = "%0 = constant 0 i64\n";
  EXPECT_EQ(constraint(wrap(zero + "for %1 = %0 to %0 step %0 {\n}")), "kir-C8");
  EXPECT_EQ(constraint(wrap(zero + "for %1 = %0 to %0 step %0 {\nyield %1\n}")), "kir-C8");
  EXPECT_EQ(constraint(wrap(zero + "for %1 = %0 to %0 step %0 carry (%2 = %0 : i64) -> (%3) {\n"
                                   "%4 = constant 0x0 f32\nyield %4\n}")),
            "kir-C8");
  EXPECT_EQ(constraint(wrap(zero + "yield")), "kir-C8");
  EXPECT_EQ(constraint(wrap(zero + "for %1 = %0 to %0 step %0 {\n%2 = constant 1 i64\nyield\n}\n"
                                   "%3 = iadd %2, %2 i64")),
            "kir-C1");
  EXPECT_EQ(constraint(wrap("%0 = constant 2 i32\n%1 = lookup %t[%0] f32")), "kir-C13");
  EXPECT_EQ(constraint(wrap("", "x86 meta=0 threads=2")), "kir-C12");
  EXPECT_EQ(constraint("kernel @k x86 meta=0 threads=1 {\nbuffer %x f32\nbuffer %x f32\n}"),
            "kir-C12");
  EXPECT_EQ(constraint("kernel @k x86 meta=0 threads=1 {\narray %x workgroup f32 4\n}"), "kir-C12");
  EXPECT_EQ(constraint("kernel @k x86 meta=0 threads=1 {\narray %x private f32 0\n}"), "kir-C12");
  EXPECT_EQ(constraint("kernel @k ptx meta=0 threads=32 cluster=3 {\n}"), "kir-C12");
  EXPECT_EQ(constraint("kernel @k ptx meta=0 threads=16 cluster=2 {\n}"), "kir-C12");
  EXPECT_EQ(constraint("kernel @k x86 meta=0 threads=1 dependent {\n}"), "kir-C12");
  EXPECT_EQ(constraint("kernel @k ptx meta=0 threads=32 cluster=2 {\nbuffer %y f32 out\n" + zero +
                       "%1 = constant 0x0 f32\nstore_peer %y[%0, %0, %1]\n}"),
            "kir-C7");
  std::string deep = zero + "%1 = constant 1 i1\n";
  for (int i = 0; i < 5000; ++i) deep += "if %1 {\n";
  EXPECT_EQ(constraint(wrap(deep)), "kir-P2");
}

TEST(KirVerify, ReportsAllViolations) {
  Kernel k = sample();
  k.body.insts[0].args.push_back(ValueId(900));
  k.body.insts.back().imm = 0;
  const auto found = verify(k);
  ASSERT_GE(found.size(), 2u);
  EXPECT_EQ(found[0].constraint, "kir-C1");
  EXPECT_EQ(found.back().constraint, "kir-C10");
}

TEST(KirParse, DamagedTextNeverCrashes) {
  const std::string text = sample().str();
  std::mt19937 random(7);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string s = text;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const size_t at = random() % s.size();
      switch (random() % 4) {
        case 0:
          s.erase(at, 1 + random() % 9);
          break;
        case 1:
          s.insert(at, 1, "%{}[](),=:->0x1f#@\n -9e"[random() % 23]);
          break;
        case 2:
          s[at] = static_cast<char>(random() % 256);
          break;
        default:
          s.insert(at, s.substr(random() % s.size(), random() % 40));
      }
      if (s.empty()) s = " ";
    }
    try {
      const Kernel k = parse_kernel(s);
      EXPECT_EQ(parse_kernel(k.str()).str(), k.str());
      ++accepted;
    } catch (const InvalidGraph& e) {
      EXPECT_TRUE(e.constraint().starts_with("kir-")) << e.what();
    }
  }
  EXPECT_LT(accepted, 2900);
}

}  // namespace
}  // namespace poot::kir
