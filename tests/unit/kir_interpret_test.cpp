// The interpreter: memory checks, control flow, threads of a workgroup.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "codegen/kir/kir.h"

namespace poot::kir {
namespace {

template <class T>
std::span<std::byte> bytes(std::vector<T>& v) {
  return std::as_writable_bytes(std::span<T>(v));
}

struct Runner {
  std::vector<float> x = std::vector<float>(64), y = std::vector<float>(64, -1);
  uint32_t grid = 1;
  uint32_t run(const std::string& text, std::vector<int64_t> meta = {}) {
    const Kernel k = parse_kernel(text);
    RunArgs args{{bytes(x), bytes(y)}, std::move(meta), {grid, 1, 1}};
    return interpret(k, args, 0, grid);
  }
  std::string error(const std::string& text) {
    try {
      run(text);
    } catch (const InvalidGraph& e) {
      return e.constraint();
    }
    return "";
  }
};

std::string kernel(const std::string& body, const std::string& head = "x86 meta=1 threads=1") {
  return "kernel @k " + head + " {\nbuffer %x f32\nbuffer %y f32 out\n" + body + "\n}\n";
}
const char* kGpu = "ptx meta=0 threads=64";

TEST(KirInterpret, LoopsCarryValuesAndSwapThem) {
  Runner r;
  // (a, b) = (b, a + b) ten times from (0, 1): Fibonacci numbers.
  r.run(kernel("%0 = constant 0 i64\n%1 = constant 10 i64\n%2 = constant 1 i64\n"
               "for %3 = %0 to %1 step %2 carry (%4 = %0 : i64, %5 = %2 : i64) -> (%6, %7) {\n"
               "%8 = iadd %4, %5 i64\nyield %5, %8\n}\n"
               "%9 = sitofp %6 f32\nstore %y[%0, %9]"),
        {0});
  EXPECT_EQ(r.y[0], 55);
}

TEST(KirInterpret, FailSetsStatus) {
  Runner r;
  EXPECT_EQ(r.run(kernel("%0 = meta 0 i64\n%1 = constant 3 i64\n%2 = icmp slt %0, %1 i1\n"
                         "fail 4 %2\n%3 = icmp eq %0, %1 i1\nfail 1 %3"),
                  {2}),
            4u);
}

TEST(KirInterpret, MaskedLanesTouchNoMemory) {
  Runner r;
  std::iota(r.x.begin(), r.x.end(), 1.0f);
  r.run(kernel("%0 = constant 60 i64\n%1 = lane_ids i32x8\n%2 = constant 4 i32x8\n"
               "%3 = icmp slt %1, %2 i1x8\n%4 = constant 0x0 f32x8\n"
               "%5 = load_masked %x[%0, %3, %4] f32x8\nstore_masked %y[%0, %3, %5]\n"
               "%6 = reduce_fadd %5 f32\n%7 = constant 0 i64\nstore %y[%7, %6]"),
        {0});
  EXPECT_EQ(r.y[63], 64);
  EXPECT_EQ(r.y[0], 61 + 62 + 63 + 64);
}

TEST(KirInterpret, ReducesByHalving) {
  Runner r;
  r.x[0] = 1e8f, r.x[1] = 1, r.x[2] = -1e8f, r.x[3] = 1;
  r.run(kernel("%0 = constant 0 i64\n%1 = load %x[%0] f32x4\n%2 = reduce_fadd %1 f32\n"
               "store %y[%0, %2]"),
        {0});
  EXPECT_EQ(r.y[0], 2);  // (x0 + x2) + (x1 + x3)
}

TEST(KirInterpret, ReportsBadMemory) {
  Runner r;
  const std::string at = "%0 = constant 61 i64\n";
  EXPECT_EQ(r.error(kernel(at + "%1 = load %x[%0] f32x4", "x86 meta=0 threads=1")), "kir-run-C1");
  EXPECT_EQ(r.error(kernel(at + "%1 = load %x[%0] f32 align 8", "x86 meta=0 threads=1")),
            "kir-run-C7");
  EXPECT_EQ(r.error("kernel @k x86 meta=0 threads=1 {\nbuffer %x f32\nbuffer %y f32 out\n"
                    "array %a private f32 64\n" +
                    at + "%1 = load %a[%0] f32\n}"),
            "kir-run-C2");
  EXPECT_EQ(r.error(kernel("", "x86 meta=1 threads=1")), "kir-run-C6");
  EXPECT_EQ(r.error("kernel @k x86 meta=0 threads=1 {\n}"), "kir-run-C6");
}

TEST(KirInterpret, ReportsMisuseOfTiles) {
  Runner r;
  const std::string head = "x86 meta=0 threads=1", n = "%0 = constant 17 i64\n";
  EXPECT_EQ(r.error(kernel("tile_zero 0", head)), "kir-run-C8");
  EXPECT_EQ(r.error(kernel(n + "tile_rows %0", head)), "kir-run-C8");
  const std::string four = "%0 = constant 4 i64\ntile_rows %0\n";
  EXPECT_EQ(r.error(kernel(four + "tile_dot [0, 4, 5]", head)), "");
  EXPECT_EQ(r.error(kernel(four + "tile_dot [0, 6, 5]", head)), "kir-run-C8");
  EXPECT_EQ(r.error(kernel(four + "tile_dot [0, 4, 1]", head)), "kir-run-C8");
  EXPECT_EQ(r.error(kernel(four + "tile_release\ntile_zero 5", head)), "kir-run-C8");
}

TEST(KirInterpret, ReportsUndefinedArithmetic) {
  Runner r;
  const std::string head = "x86 meta=0 threads=1";
  EXPECT_EQ(r.error(kernel("%0 = constant 0 i64\n%1 = sdiv %0, %0 i64", head)), "kir-run-C5");
  EXPECT_EQ(
      r.error(kernel("%0 = constant -128 i8\n%1 = constant -1 i8\n%2 = srem %0, %1 i8", head)),
      "kir-run-C5");
  EXPECT_EQ(r.error(kernel("%0 = constant 32 i32\n%1 = shl %0, %0 i32", head)), "kir-run-C5");
  EXPECT_EQ(r.error(kernel("%0 = constant 0 i64\nfor %1 = %0 to %0 step %0 {\nyield\n}", head)),
            "kir-run-C5");
}

const char* kArray = "array %s workgroup f32 64\n";
const char* kThread =
    "%0 = thread_id i32\n%1 = sext %0 i64\n%2 = constant 63 i64\n%3 = isub %2, %1 i64\n";

TEST(KirInterpret, WorkgroupMemoryNeedsABarrier) {
  Runner r;
  std::iota(r.x.begin(), r.x.end(), 0.0f);
  const std::string body =
      std::string(kArray) + kThread + "%4 = load %x[%1] f32\nstore %s[%1, %4]\n";
  const std::string rest = "%5 = load %s[%3] f32\nstore %y[%1, %5]";
  EXPECT_EQ(r.error(kernel(body + rest, kGpu)), "kir-run-C4");
  EXPECT_EQ(r.run(kernel(body + "barrier\n" + rest, kGpu)), 0u);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(r.y[static_cast<size_t>(i)], 63 - i);
}

// Each workgroup of two writes its rank to the other's array.
TEST(KirInterpret, ClustersExchangeThroughEachOthersMemory) {
  Runner r;
  r.grid = 3;
  const std::string head = "ptx meta=0 threads=32 cluster=2";
  const std::string write =
      "array %s workgroup f32 1\n%0 = thread_id i32\n%1 = workgroup_rank i32\n%2 = constant 1 i32\n"
      "%3 = isub %2, %1 i32\n%4 = sext %3 i64\n%5 = sitofp %1 f32\n%6 = constant 0 i64\n"
      "%7 = constant 0 i32\n%8 = icmp eq %0, %7 i1\n"
      "if %8 {\nstore_peer %s[%4, %6, %5]\nyield\n} else {\nyield\n}\n";
  const std::string read =
      "%9 = load %s[%6] f32\n%10 = block_id 0 i64\n%11 = constant 2 i64\n%12 = imul %10, %11 i64\n"
      "%13 = sext %1 i64\n%14 = iadd %12, %13 i64\n"
      "if %8 {\nstore %y[%14, %9]\nyield\n} else {\nyield\n}";
  EXPECT_EQ(r.run(kernel(write + "cluster_barrier\n" + read, head)), 0u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(r.y[i], 1 - static_cast<float>(i % 2));
  EXPECT_EQ(r.error(kernel(write + "barrier\n" + read, head)), "kir-run-C4");
  const std::string outside =
      "array %s workgroup f32 1\n%0 = constant 2 i64\n%1 = constant 0 i64\n"
      "%2 = constant 0x0 f32\nstore_peer %s[%0, %1, %2]";
  EXPECT_EQ(r.error(kernel(outside, head)), "kir-run-C1");
}

TEST(KirInterpret, ReportsWriteRacesAndDivergence) {
  Runner r;
  const std::string one = "%9 = constant 0x3f800000 f32\n%8 = constant 0 i64\n";
  EXPECT_EQ(r.error(kernel(kThread + one + "store %y[%8, %9]", kGpu)), "kir-run-C4");
  const std::string split =
      std::string(kThread) + "%4 = constant 40 i64\n%5 = icmp slt %1, %4 i1\n";
  EXPECT_EQ(r.error(kernel(split + "if %5 {\nbarrier\nyield\n} else {\nyield\n}", kGpu)),
            "kir-run-C3");
  EXPECT_EQ(r.error(kernel(split + "if %5 {\n%6 = shuffle_xor 1 %0 i32\nyield\n} else {\nyield\n}",
                           kGpu)),
            "kir-run-C3");
  EXPECT_EQ(r.error(kernel(std::string(kThread) + "for %4 = %1 to %2 step %2 {\nbarrier\nyield\n}",
                           kGpu)),
            "kir-run-C3");
}

TEST(KirInterpret, ShufflesReduceAWarp) {
  Runner r;
  std::iota(r.x.begin(), r.x.end(), 0.0f);
  std::string body = std::string(kThread) + "%4 = load %x[%1] f32\n";
  int value = 4;
  for (int lane = 16; lane > 0; lane /= 2) {
    const std::string v = std::to_string(value), a = std::to_string(value + 1),
                      b = std::to_string(value + 2);
    body += "%" + a + " = shuffle_xor " + std::to_string(lane) + " %" + v + " f32\n%" + b +
            " = fadd %" + v + ", %" + a + " f32\n";
    value += 2;
  }
  body += "store %y[%1, %" + std::to_string(value) + "]\n";
  r.run(kernel(body, kGpu));
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(r.y[i], i < 32 ? 496 : 1520);
}

TEST(KirInterpret, ShuffleDownKeepsItsOwnValueAtTheEnd) {
  Runner r;
  std::iota(r.x.begin(), r.x.end(), 0.0f);
  r.run(kernel(
      std::string(kThread) + "%4 = load %x[%1] f32\n%5 = shuffle_down 1 %4 f32\nstore %y[%1, %5]",
      kGpu));
  EXPECT_EQ(r.y[0], 1);
  EXPECT_EQ(r.y[31], 31);
  EXPECT_EQ(r.y[63], 63);
}

TEST(KirInterpret, BlocksOfAGridHaveTheirIds) {
  Runner r;
  r.grid = 5;
  r.run(
      kernel("%0 = block_id 0 i64\n%1 = grid_size 0 i64\n%2 = isub %1, %0 i64\n"
             "%3 = sitofp %2 f32\nstore %y[%0, %3]",
             "x86 meta=0 threads=1"));
  EXPECT_EQ(r.y[0], 5);
  EXPECT_EQ(r.y[4], 1);
  EXPECT_EQ(r.y[5], -1);
}

// Conversions of small floats against the definition: nearest even of every f16 neighbourhood.
TEST(KirInterpret, SmallFloatsRoundToNearestEven) {
  std::vector<uint16_t> half(1 << 16);
  std::iota(half.begin(), half.end(), uint16_t{0});
  std::vector<float> wide(half.size());
  const auto widen = [&](const char* type) {
    const Kernel k =
        parse_kernel("kernel @k x86 meta=0 threads=1 {\nbuffer %x " + std::string(type) +
                     "\nbuffer %y f32 out\n%0 = constant 0 i64\n%1 = constant 65536 "
                     "i64\n%2 = constant 64 i64\nfor %3 = %0 to %1 step %2 {\n%4 = "
                     "load %x[%3] " +
                     type + "x64\n%5 = fpext %4 f32x64\nstore %y[%3, %5]\nyield\n}\n}");
    interpret(k, {{bytes(half), bytes(wide)}, {}, {1, 1, 1}}, 0, 1);
  };
  const auto narrow = [&](const char* type, std::vector<float> in) {
    std::vector<uint16_t> out(in.size());
    const std::string n = std::to_string(in.size());
    const Kernel k =
        parse_kernel("kernel @k x86 meta=0 threads=1 {\nbuffer %x f32\nbuffer %y " +
                     std::string(type) + " out\n%0 = constant 0 i64\n%1 = constant " + n +
                     " i64\n%2 = constant 1 i64\nfor %3 = %0 to %1 step %2 {\n%4 "
                     "= load %x[%3] f32\n%5 = fptrunc %4 " +
                     type + "\nstore %y[%3, %5]\nyield\n}\n}");
    interpret(k, {{bytes(in), bytes(out)}, {}, {1, 1, 1}}, 0, 1);
    return out;
  };
  for (const char* type : {"f16", "bf16"}) {
    widen(type);
    const std::vector<uint16_t> back = narrow(type, wide);
    std::vector<float> middle;
    std::vector<uint16_t> even;
    for (uint32_t h = 0; h < 0x7fff; ++h) {
      if (std::isnan(wide[h])) continue;
      ASSERT_EQ(back[h], half[h]) << type;
      if (!std::isfinite(wide[h + 1]) || std::isnan(wide[h + 1])) continue;
      middle.push_back(static_cast<float>((static_cast<double>(wide[h]) + wide[h + 1]) / 2));
      even.push_back(static_cast<uint16_t>(h % 2 ? h + 1 : h));
    }
    const std::vector<uint16_t> got = narrow(type, middle);
    // The middle of bf16's two least numbers is no f32.
    for (size_t i = 1; i < got.size(); ++i) ASSERT_EQ(got[i], even[i]) << type;
  }
  EXPECT_EQ(narrow("f16", {65520.0f, 65519.0f, NAN, -INFINITY, 0x1p-25f, 0x1.8p-25f}),
            (std::vector<uint16_t>{0x7c00, 0x7bff, 0x7e00, 0xfc00, 0, 1}));
}

}  // namespace
}  // namespace poot::kir
