// Products of matrices in vector registers: the generator's programs and their lowerings against
// the oracle.
#include "native_harness.h"
#include "product_cases.h"

namespace poot::testing {
namespace {

using passes::RequestKind;

TEST(GenerateProduct, few_rows_by_a_matrix_in_rows) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const int64_t k : {1, 2, 15, 16, 17, 33, 64, 65}) run_tile_case(product(dtype, 2, 40, k));
    for (const int64_t n : {2, 16, 31, 32, 33, 64, 130, 300})
      run_tile_case(product(dtype, 1, n, 20));
    for (const int64_t m : {3, 5, 8, 9, 13, 16}) run_tile_case(product(dtype, m, 70, 35));
  }
  run_tile_case(product("f64", 3, 40, 33));
}

TEST(GenerateProduct, pairs_of_rows_of_a_matrix) {
  for (const int64_t k : {1, 2, 31, 32, 33, 70})
    run_native(product("bf16", 3, 100, k), "dot_pairs", "x86-64-v4-bf16");
  for (const int64_t n : {2, 31, 32, 33, 64, 300})
    run_native(product("bf16", 1, n, 20), "dot_pairs", "x86-64-v4-bf16");
  for (const int64_t m : {5, 8, 9, 16})
    run_native(product("bf16", m, 70, 35), "dot_pairs", "x86-64-v4-bf16");
  run_native(product("bf16", 2, 70, 35, true), "dot_pairs", "x86-64-v4-bf16");
}

TEST(GenerateProduct, many_rows) {
  for (const char* dtype : {"f32", "bf16", "f16"})
    for (const bool turned_x : {false, true})
      for (const bool turned_w : {false, true})
        for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
                 {17, 64, 16}, {20, 65, 33}, {33, 9, 130}, {70, 30, 1}, {24, 80, 48}})
          run_tile_case(product(dtype, m, n, k, turned_x, turned_w));
  run_tile_case(product("f64", 20, 40, 33));
  run_tile_case(product("f32", 300, 40, 16));
  run_tile_case(product("f32", 18, 130, 300));
  run_tile_case(product("f32", 7, 20, 2500));
  run_tile_case(product("f32", 20, 20, 2060, true));
}

TEST(GenerateProduct, many_rows_of_pairs) {
  for (const bool turned_x : {false, true})
    for (const bool turned_w : {false, true})
      for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
               {17, 64, 32}, {20, 65, 33}, {33, 9, 130}, {70, 30, 1}, {18, 130, 450}, {24, 80, 64}})
        run_native(product("bf16", m, n, k, turned_x, turned_w), "dot_pairs", "x86-64-v4-bf16");
}

TEST(GenerateProduct, empty_sizes) {
  run_tile_case(product("f32", 2, 70, 0));
  run_tile_case(product("bf16", 20, 70, 0));
  run_tile_case(product("f32", 0, 70, 8));
  run_tile_case(product("f32", 20, 0, 8, false, true));
}

TEST(GenerateProduct, strides_and_offsets) {
  for (const char* dtype : {"f32", "bf16"}) {
    const uint32_t align = dtype[0] == 'f' ? 4 : 2;
    TileCase c = product(dtype, 3, 66, 50);
    c.inputs = {{0, ir::Layout{{77, 1}, 3, align}}, {1, ir::Layout{{71, 1}, 1, align}}};
    c.outputs = {{0, ir::Layout{{1, 5}, 2, align}}};
    run_tile_case(c);
    c = product(dtype, 20, 66, 50);
    c.inputs = {{0, ir::Layout{{3, 64}, 3, align}}, {1, ir::Layout{{140, 2}, 1, align}}};
    run_tile_case(c);
    c.inputs = {{0, ir::Layout{{0, 1}, 0, align}}, {1, ir::Layout{{0, 1}, 1, align}}};
    run_tile_case(c);
  }
}

TEST(GenerateProduct, symbolic_rows_and_depth) {
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{40, 100}, {1, 1}, {7, 0}, {0, 9}, {257, 3}})
    for (const char* dtype : {"f32", "bf16"}) {
      const std::string d = dtype;
      run_tile_case({.kind = RequestKind::Contraction,
                     .graph = "graph @s(s0 in [0, inf] hint 40, s1 in [0, inf] hint 100, %x: " + d +
                              "[s0,s1], %w: " + d + "[s1,70]) -> (" + d +
                              "[s0,70]) {\n%0 = matmul %x, %w : " + d + "[s0,70]\nreturn %0\n}",
                     .symbols = sizes,
                     .tolerance = d == "f32" ? 1e-4 : 0.03});
    }
}

TEST(GenerateProduct, what_follows) {
  TileCase c = product_with_what_follows(2, 10, 40, 0.03);
  c.inputs = {{1, ir::Layout{{900, 80, 1}, 3, 2}}};
  run_tile_case(c);
}

TEST(GenerateProduct, two_products_of_one_operand) {
  for (const char* rows : {"3", "30"}) {
    const std::string m = rows;
    run_tile_case(
        {.kind = RequestKind::Contraction,
         .graph = "graph @gated(%x: f32[" + m + ",48], %g: f32[48,50], %u: f32[48,50]) -> (f32[" +
                  m + ",50]) {\n%1 = matmul %x, %g : f32[" + m + ",50]\n%2 = sigmoid %1 : f32[" +
                  m + ",50]\n%3 = mul %1, %2 : f32[" + m + ",50]\n%5 = matmul %x, %u : f32[" + m +
                  ",50]\n%6 = mul %3, %5 : f32[" + m + ",50]\nreturn %6\n}",
         .tolerance = 1e-4});
  }
}

TEST(GenerateProduct, operands_that_are_computed) {
  for (const char* dtype : {"f32", "bf16"}) {
    const std::string d = dtype;
    run_tile_case({.kind = RequestKind::Contraction,
                   .graph = "graph @computed(%x: " + d + "[20,37], %w: " + d + "[37,70]) -> (" + d +
                            "[20,70]) {\n%0 = abs %x : " + d +
                            "[20,37]\n%1 = reciprocal %0 : " + d + "[20,37]\n%2 = minimum %1, " +
                            d + " 4 : " + d + "[20,37]\n%3 = add %w, " + d + " 1 : " + d +
                            "[37,70]\n%5 = matmul %2, %3 : " + d + "[20,70]\nreturn %5\n}",
                   .tolerance = d == "f32" ? 1e-4 : 0.05});
  }
}

}  // namespace
}  // namespace poot::testing
