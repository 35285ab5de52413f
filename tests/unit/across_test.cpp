// Reductions across memory: one accumulator a column, several levels of reductions, results for
// every position. The tile program against the oracle, its lowering against the tile program.
#include <cmath>

#include "tile_harness.h"

namespace poot::testing {
namespace {

using passes::RequestKind;

std::string with(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

const char* kSoftmax = R"(graph @s(%x: f32[R,N]) -> (f32[R,N]) {
  %0 = reduce_max %x {axes=[1], keepdim=true} : f32[R,1]
  %1 = sub %x, %0 : f32[R,N]
  %2 = exp %1 : f32[R,N]
  %3 = reduce_sum %2 {axes=[1], keepdim=true} : f32[R,1]
  %4 = div %2, %3 : f32[R,N]
  return %4
})";

// x [R, N] lying as [N, R].
ir::Layout across(int64_t rows) {
  return {{1, rows}, 0, 4};
}

TEST(Across, softmax_over_leading_memory) {
  for (const int64_t rows : {1, 17, 64, 200})
    for (const int64_t n : {1, 3, 4, 33, 70, 1100}) {
      const tile::Program p = run_tile_case(
          {.kind = RequestKind::Row,
           .graph = with(with(kSoftmax, "R", std::to_string(rows)), "N", std::to_string(n)),
           .inputs = {{0, across(rows)}},
           .outputs = {{0, across(rows)}},
           .tolerance = 1e-5});
      // Columns of the tile are the rows of the request.
      if (rows > 1 && n > 1) {
        EXPECT_LE(p.axes[0].capacity, 512);
      }
    }
}

TEST(Across, results_may_lie_the_other_way) {
  run_tile_case({.kind = RequestKind::Row,
                 .graph = with(with(kSoftmax, "R", "70"), "N", "33"),
                 .inputs = {{0, across(70)}},
                 .tolerance = 1e-5});
}

TEST(Across, symbolic_sizes) {
  for (const int64_t rows : {0, 1, 65})
    for (const int64_t n : {1, 5, 90})
      run_tile_case(
          {.kind = RequestKind::Row,
           .graph = with(with(R"(graph @s(s0 in [0, inf] hint 600, s1 in [1, inf] hint 300,
                                                   %x: f32[R,N]) -> (f32[R,1], f32[R,N]) {
                       %0 = reduce_sum %x {axes=[1], keepdim=true} : f32[R,1]
                       %1 = sub %x, %0 : f32[R,N]
                       return %0, %1
                     })",
                              "R", "s0"),
                         "N", "s1"),
           .symbols = {rows, n},
           .inputs = {{0, {{1, Dim::symbol(0)}, 0, 4}}},
           .outputs = {{1, {{1, Dim::symbol(0)}, 0, 4}}},
           .tolerance = 1e-5});
}

TEST(Across, largest_with_its_place) {
  run_tile_case({.kind = RequestKind::Row,
                 .graph = R"(graph @m(%x: f32[100,50]) -> (f32[100,1], i64[100,1]) {
    %0 = reduce_max %x {axes=[1], keepdim=true} : f32[100,1]
    %1 = eq %x, %0 : bool[100,50]
    %2 = iota {dtype=i64, size=50, start=0, step=1} : i64[50]
    %3 = select %1, %2, i64 50 : i64[100,50]
    %4 = reduce_min %3 {axes=[1], keepdim=true} : i64[100,1]
    return %0, %4
  })",
                 .inputs = {{0, across(100)}}});
}

TEST(Across, what_columns_share_does_not_turn_the_reduction) {
  const tile::Program p =
      run_tile_case({.kind = RequestKind::Reduce,
                     .graph = R"(graph @g(%x: f32[70,96], %m: f32[70,1]) -> (f32[96]) {
    %0 = mul %x, %m : f32[70,96]
    %1 = reduce_sum %0 {axes=[0], keepdim=false} : f32[96]
    return %1
  })",
                     .tolerance = 1e-5});
  EXPECT_LE(p.axes[0].capacity, 64);  // columns, not the 70 positions
}

TEST(Across, narrow_types_accumulate_in_f32) {
  for (const char* d : {"bf16", "f16", "f64"})
    run_tile_case({.kind = RequestKind::Reduce,
                   .graph = with(R"(graph @r(%x: T[77,96]) -> (T[96], T[96]) {
      %0 = reduce_sum %x {axes=[0], keepdim=false} : T[96]
      %1 = reduce_max %x {axes=[0], keepdim=false} : T[96]
      return %0, %1
    })",
                                 "T", d),
                   .tolerance = d[0] == 'b' ? 1e-2 : 1e-3});
}

// A pass reads a few lines of each row, and asks for those of four passes later.
TEST(Across, long_sums_ask_ahead) {
  const auto kir = [](const std::string& rows) {
    const auto r = make_request({.kind = RequestKind::Reduce,
                                 .graph = with(R"(graph @r(%x: f32[R,512]) -> (f32[512]) {
      %0 = reduce_sum %x {axes=[0], keepdim=false} : f32[512]
      return %0
    })",
                                               "R", rows)});
    Target t = Target::parse("x86-64-v4");
    t.cache_bytes = 1 << 20;
    return codegen::lower_cpu(codegen::generate(r, t), t).str();
  };
  EXPECT_NE(kir("2000").find("prefetch %in0["), std::string::npos);
  EXPECT_EQ(kir("200").find("prefetch"), std::string::npos);
}

// Sums of columns and of their squares, in one accumulator each; x [n, h, w, 40] is read as rows
// that are no whole images.
TEST(Across, sequential_sums) {
  const char* graph = R"(graph @s(%x: f32[5,3,7,40]) -> (f32[3,40], f32[3,40]) {
    %0 = reshape %x {shape=[3,35,40]} : f32[3,35,40]
    %1 = reduce_sum %0 {axes=[1], keepdim=false, order="sequential"} : f32[3,40]
    %2 = mul %0, %0 : f32[3,35,40]
    %3 = reduce_sum %2 {axes=[1], keepdim=false, order="sequential_fma"} : f32[3,40]
    return %1, %3
  })";
  const tile::Program p =
      run_tile_case({.kind = RequestKind::Reduce, .graph = graph, .tolerance = 1e-5});
  std::vector<float> x(size_t{105} * 40), sums(120), squares(120);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i) * 0.7F) + 0.3F;
  const std::span<std::byte> buffers[] = {std::as_writable_bytes(std::span(x)),
                                          std::as_writable_bytes(std::span(sums)),
                                          std::as_writable_bytes(std::span(squares))};
  ASSERT_EQ(tile::interpret(p, buffers, {}), 0U);
  for (size_t column = 0; column < 120; ++column) {
    float sum = 0, square = 0;
    for (size_t i = 0; i < 35; ++i) {
      const float v = x[(column / 40 * 35 + i) * 40 + column % 40];
      sum += v;
      square = std::fma(v, v, square);
    }
    EXPECT_EQ(sums[column], sum);
    EXPECT_EQ(squares[column], square);
  }
}

// What stands beside sequential sums keeps the bits of its own kernel.
TEST(Across, sums_beside_sequential_ones) {
  constexpr size_t kRows = 5000;
  const auto run = [](const std::string& graph, size_t results, size_t columns) {
    SCOPED_TRACE(graph);
    const auto request = make_request({.kind = RequestKind::Reduce, .graph = graph});
    const tile::Program p = codegen::generate(request, Target::parse("x86-64-v4"));
    std::vector<float> x(kRows * columns);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i) * 0.7F) + 3;
    std::vector<std::vector<float>> sums(results, std::vector<float>(columns));
    std::vector<std::span<std::byte>> buffers{std::as_writable_bytes(std::span(x))};
    for (std::vector<float>& s : sums) buffers.push_back(std::as_writable_bytes(std::span(s)));
    EXPECT_EQ(tile::interpret(p, buffers, {}), 0U);
    return sums;
  };
  for (const size_t columns : {8, 64})
    for (const std::string order : {"", ", order=\"cascade\""}) {
      const auto fill = [&](const std::string& text) {
        return with(with(text, "C", std::to_string(columns)), "ORDER", order);
      };
      const auto together = run(fill(R"(graph @g(%x: f32[5000,C]) -> (f32[C], f32[C], f32[C]) {
        %0 = reduce_sum %x {axes=[0], keepdim=false, order="sequential"} : f32[C]
        %1 = reduce_sum %x {axes=[0], keepdim=falseORDER} : f32[C]
        %2 = mul %x, %x : f32[5000,C]
        %3 = reduce_sum %2 {axes=[0], keepdim=false, order="sequential_fma"} : f32[C]
        return %0, %1, %3
      })"),
                                3, columns);
      const auto alone = run(fill(R"(graph @g(%x: f32[5000,C]) -> (f32[C]) {
        %0 = reduce_sum %x {axes=[0], keepdim=falseORDER} : f32[C]
        return %0
      })"),
                             1, columns);
      EXPECT_EQ(together[1], alone[0]);
      EXPECT_NE(together[1], together[0]);
      for (size_t column = 0; column < columns; ++column) {
        float sum = 0, square = 0;
        for (size_t i = 0; i < kRows; ++i) {
          const float v = std::sin(static_cast<float>(i * columns + column) * 0.7F) + 3;
          sum += v;
          square = std::fma(v, v, square);
        }
        EXPECT_EQ(together[0][column], sum);
        EXPECT_EQ(together[2][column], square);
      }
    }
}

}  // namespace
}  // namespace poot::testing
