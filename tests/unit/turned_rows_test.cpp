// Rows whose operand runs across them in memory while a result runs along them: blocks of rows that
// are transposed, in an array or where the result will be. The tile program against the oracle, its
// lowering for both vector widths against the tile program.
#include "tile_harness.h"

namespace poot::testing {
namespace {

using passes::RequestKind;

const char* kSoftmax = R"(graph @s(%x: T[R,N]) -> (T[R,N]) {
  %0 = reduce_max %x {axes=[1], keepdim=true} : T[R,1]
  %1 = sub %x, %0 : T[R,N]
  %2 = exp %1 : T[R,N]
  %3 = reduce_sum %2 {axes=[1], keepdim=true} : T[R,1]
  %4 = div %2, %3 : T[R,N]
  return %4
})";

std::string sized(const char* graph, const char* dtype, int64_t rows, int64_t n) {
  return replace(replace(replace(graph, "T[", std::string(dtype) + "["), "R", std::to_string(rows)),
                 "N", std::to_string(n));
}

// x [R, N] lying as [N, R].
ir::Layout across(Dim rows) {
  return {{1, rows}, 0, 4};
}

int64_t loops(const tile::Program& p) {
  return std::ranges::count_if(p.body.insts,
                               [](const tile::Inst& i) { return i.op == tile::Op::for_; });
}

TEST(TurnedRows, short_rows_are_kept_in_an_array) {
  for (const int64_t rows : {16, 17, 33, 70})
    for (const int64_t n : {16, 17, 100}) {
      const tile::Program p = run_tile_case({.kind = RequestKind::Row,
                                             .graph = sized(kSoftmax, "f32", rows, n),
                                             .inputs = {{0, across(rows)}},
                                             .tolerance = 1e-5});
      EXPECT_EQ(loops(p), 0);
      const std::string kir = codegen::lower(p, Target::parse("x86-64-v4")).str();
      EXPECT_EQ(kir.find("gather"), std::string::npos);
      EXPECT_EQ(kir.find("scatter"), std::string::npos);
    }
}

TEST(TurnedRows, long_rows_are_turned_where_the_result_will_be) {
  for (const int64_t rows : {16, 37}) {
    const tile::Program p = run_tile_case({.kind = RequestKind::Row,
                                           .graph = sized(kSoftmax, "f32", rows, 4003),
                                           .inputs = {{0, across(rows)}},
                                           .tolerance = 1e-5});
    EXPECT_EQ(loops(p), 1);
    const std::string kir = codegen::lower(p, Target::parse("x86-64-v4")).str();
    EXPECT_EQ(kir.find("gather"), std::string::npos);
    EXPECT_EQ(kir.find("scatter"), std::string::npos);
  }
}

TEST(TurnedRows, dtypes) {
  for (const char* d : {"bf16", "f16", "f64"})
    for (const int64_t n : {33, 3100})
      run_tile_case({.kind = RequestKind::Row,
                     .graph = sized(kSoftmax, d, 35, n),
                     .inputs = {{0, across(35)}},
                     .tolerance = d[0] == 'f' && d[1] == '6' ? 1e-12 : 1e-2});
}

// Channels of an image, last in the result only.
TEST(TurnedRows, channels_of_images) {
  run_tile_case(
      {.kind = RequestKind::Row,
       .graph = R"(graph @n(%x: f32[2,40,24], %w: f32[24]) -> (f32[2,40,24], f32[2,40,1]) {
    %0 = reduce_sum %x {axes=[2], keepdim=true} : f32[2,40,1]
    %1 = mul %0, f32 0.0416666679 : f32[2,40,1]
    %2 = sub %x, %1 : f32[2,40,24]
    %3 = mul %2, %w : f32[2,40,24]
    return %3, %1
  })",
       .inputs = {{0, {{960, 1, 40}, 0, 4}}},
       .tolerance = 1e-5});
}

// The sum is a result too, but lies as the operands do; neither may overwrite what the last phase
// reads.
TEST(TurnedRows, results_that_come_before_the_last_phase) {
  for (const int64_t n : {60, 2100})
    for (const bool along : {false, true})
      run_tile_case({.kind = RequestKind::Row,
                     .graph = sized(R"(graph @n(%x: T[R,N], %y: T[R,N]) -> (T[R,N], T[R,N]) {
             %0 = add %x, %y : T[R,N]
             %1 = reduce_sum %0 {axes=[1], keepdim=true} : T[R,1]
             %2 = sub %x, %1 : T[R,N]
             return %0, %2
           })",
                                    "f32", 50, n),
                     .inputs = {{0, across(50)}},
                     .outputs = along ? std::vector<std::pair<size_t, ir::Layout>>{}
                                      : std::vector<std::pair<size_t, ir::Layout>>{{0, across(50)}},
                     .tolerance = 1e-4});
}

TEST(TurnedRows, symbolic_sizes) {
  for (const int64_t rows : {0, 1, 65})
    for (const int64_t n : {1, 5, 90, 300})
      run_tile_case(
          {.kind = RequestKind::Row,
           .graph = replace(replace(R"(graph @s(s0 in [0, inf] hint 600, s1 in [1, inf] hint 300,
                                                   %x: f32[R,N]) -> (f32[R,1], f32[R,N]) {
                       %0 = reduce_sum %x {axes=[1], keepdim=true} : f32[R,1]
                       %1 = sub %x, %0 : f32[R,N]
                       return %0, %1
                     })",
                                    "R", "s0"),
                            "N", "s1"),
           .symbols = {rows, n},
           .inputs = {{0, across(Dim::symbol(0))}},
           .tolerance = 1e-4});
}

}  // namespace
}  // namespace poot::testing
