// Operands that lie across the result: square tiles, transposed in registers. The tile program
// against the oracle, its lowering for both vector widths against the tile program.
#include "tile_harness.h"

namespace poot::testing {
namespace {

std::string with(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

TEST(Transposed, sizes_around_vectors_and_tiles) {
  for (const int64_t rows : {16, 17, 31, 64, 65, 130})
    for (const int64_t columns : {16, 33, 64, 100})
      run_tile_case({.graph = with(with(R"(graph @t(%x: f32[R,C]) -> (f32[C,R]) {
        %0 = transpose %x {perm=[1,0]} : f32[C,R]
        return %0
      })",
                                        "R", std::to_string(rows)),
                                   "C", std::to_string(columns))});
}

TEST(Transposed, dtypes) {
  for (const char* d : {"bool", "u8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"})
    run_tile_case({.graph = with(R"(graph @t(%x: T[37,90]) -> (T[90,37]) {
      %0 = transpose %x {perm=[1,0]} : T[90,37]
      return %0
    })",
                                 "T", d)});
}

TEST(Transposed, symbolic_sizes) {
  for (const int64_t n : {0, 1, 15, 64, 81})
    for (const int64_t m : {0, 1, 17, 64})
      run_tile_case({.graph = R"(graph @t(s0 in [0, inf] hint 128, s1 in [0, inf] hint 128,
                                          %x: f32[s0,s1], %y: f32[s1,s0]) -> (f32[s1,s0]) {
        %0 = transpose %x {perm=[1,0]} : f32[s1,s0]
        %1 = add %0, %y : f32[s1,s0]
        return %1
      })",
                     .symbols = {n, m}});
}

TEST(Transposed, operands_beside_others) {
  const char* graph = R"(graph @g(%x: bf16[70,50], %y: bf16[50,70], %z: f32[50]) -> (bf16[70,50]) {
    %0 = transpose %y {perm=[1,0]} : bf16[70,50]
    %1 = mul %x, %0 : bf16[70,50]
    %2 = cast %z {to=bf16} : bf16[50]
    %3 = add %1, %2 : bf16[70,50]
    return %3
  })";
  run_tile_case({.graph = graph});
}

TEST(Transposed, one_square_for_each_position_of_other_axes) {
  const tile::Program p =
      run_tile_case({.graph = R"(graph @g(%x: f32[2,3,40,70]) -> (f32[2,70,3,40]) {
    %0 = transpose %x {perm=[0,3,1,2]} : f32[2,70,3,40]
    return %0
  })"});
  EXPECT_FALSE(p.grid[2].is_const(1));
}

TEST(Transposed, reads_whole_vectors_and_gathers_nothing) {
  const passes::KernelRequest request =
      make_request({.graph = R"(graph @t(%x: f32[128,256], %y: f32[256,128]) -> (f32[256,128]) {
    %0 = transpose %x {perm=[1,0]} : f32[256,128]
    %1 = mul %0, %y : f32[256,128]
    return %1
  })"});
  const Target target = Target::parse("x86-64-v4");
  const std::string kir = codegen::lower(codegen::generate(request, target), target).str();
  EXPECT_EQ(kir.find("gather"), std::string::npos);
  EXPECT_NE(kir.find("shuffle"), std::string::npos);
}

}  // namespace
}  // namespace poot::testing
