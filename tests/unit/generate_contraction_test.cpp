// Products of a few rows with a matrix: the generator's programs and their lowerings against the
// oracle.
#include "native_harness.h"
#include "product_cases.h"

namespace poot::testing {
namespace {

using passes::RequestKind;

// y = x w^T: x [m, k], w [n, k].
TileCase linear(const std::string& dtype, int64_t m, int64_t n, int64_t k) {
  return product(dtype, m, n, k, false, true);
}

TileCase within(double tolerance, TileCase c) {
  c.tolerance = tolerance;
  return c;
}

TEST(GenerateContraction, sizes_around_vectors_and_rows) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const int64_t k : {1, 2, 15, 16, 17, 63, 64, 65, 127, 200})
      run_tile_case(linear(dtype, 1, 5, k));
    for (const int64_t n : {1, 2, 3, 64, 65, 130}) run_tile_case(linear(dtype, 1, n, 40));
    for (int64_t m = 1; m <= 8; ++m) run_tile_case(linear(dtype, m, 9, 70));
  }
  run_tile_case(linear("f64", 3, 10, 33));
}

TEST(GenerateContraction, empty_sizes) {
  run_tile_case(linear("f32", 1, 5, 0));
  run_tile_case(linear("bf16", 2, 5, 0));
  run_tile_case(linear("f32", 1, 0, 8));
}

TEST(GenerateContraction, few_columns_against_many_rows) {
  run_tile_case({.kind = RequestKind::Contraction,
                 .graph = R"(
    graph @right(%w: f32[70,40], %x: f32[40,1]) -> (f32[70,1]) {
      %0 = matmul %w, %x : f32[70,1]
      return %0
    })",
                 .tolerance = 1e-5});
}

TEST(GenerateContraction, strides_and_offsets) {
  TileCase c = within(0.02, linear("bf16", 3, 33, 50));
  c.inputs = {{0, ir::Layout{{77, 1}, 3, 2}}, {1, ir::Layout{{64, 1}, 1, 2}}};
  c.outputs = {{0, ir::Layout{{1, 5}, 2, 2}}};
  run_tile_case(c);
  // A matrix stored the other way round is right, if slow.
  c = within(1e-5, linear("f32", 2, 33, 50));
  c.inputs = {{1, ir::Layout{{1, 40}, 0, 4}}};
  run_tile_case(c);
}

TEST(GenerateContraction, symbolic_sizes) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{200, 100}, {1, 1}, {7, 0}, {0, 9}})
    run_tile_case({.kind = RequestKind::Contraction,
                   .graph = R"(
    graph @s(s0 in [0, inf] hint 200, s1 in [0, inf] hint 100, %x: bf16[2,s1], %w: bf16[s0,s1])
        -> (bf16[2,s0]) {
      %0 = transpose %w {perm=[1,0]} : bf16[s1,s0]
      %1 = matmul %x, %0 : bf16[2,s0]
      return %1
    })",
                   .symbols = sizes,
                   .tolerance = 0.02});
}

TEST(GenerateContraction, bias_scales_and_what_follows) {
  run_tile_case(product_with_what_follows(1, 2, 40, 0.03));
}

TEST(GenerateContraction, two_products_of_one_operand) {
  run_tile_case({.kind = RequestKind::Contraction,
                 .graph = R"(
    graph @gated(%x: f32[3,48], %g: f32[50,48], %u: f32[50,48]) -> (f32[3,50]) {
      %0 = transpose %g {perm=[1,0]} : f32[48,50]
      %1 = matmul %x, %0 : f32[3,50]
      %2 = sigmoid %1 : f32[3,50]
      %3 = mul %1, %2 : f32[3,50]
      %4 = transpose %u {perm=[1,0]} : f32[48,50]
      %5 = matmul %x, %4 : f32[3,50]
      %6 = mul %3, %5 : f32[3,50]
      return %6
    })",
                 .tolerance = 1e-5});
}

TEST(GenerateContraction, an_operand_that_is_computed_keeps_masked_lanes_out) {
  run_tile_case({.kind = RequestKind::Contraction,
                 .graph = R"(
    graph @computed(%x: f32[1,37], %w: f32[9,37]) -> (f32[1,9]) {
      %0 = abs %x : f32[1,37]
      %1 = add %0, f32 1 : f32[1,37]
      %2 = reciprocal %0 : f32[1,37]
      %3 = div %2, %1 : f32[1,37]
      %4 = transpose %w {perm=[1,0]} : f32[37,9]
      %5 = matmul %3, %4 : f32[1,9]
      return %5
    })",
                 .tolerance = 1e-3});
}

TEST(GenerateContraction, batches_of_matrices_are_refused) {
  const auto request = make_request({.kind = RequestKind::Contraction, .graph = R"(
    graph @batch(%x: f32[4,1,8], %w: f32[4,8,16]) -> (f32[4,1,16]) {
      %0 = matmul %x, %w : f32[4,1,16]
      return %0
    })"});
  EXPECT_THROW(codegen::generate(request, Target::parse("x86-64-v4")), Unsupported);
}

TEST(GenerateContraction, many_rows_are_refused_on_a_gpu) {
  const auto request = make_request(linear("f32", 9, 9, 64));
  EXPECT_THROW(codegen::generate(request, Target::parse("sm_90a")), Unsupported);
}

TEST(GenerateContraction, bf16_pairs) {
  for (const int64_t k : {1, 31, 32, 33, 300})
    run_native(within(0.02, linear("bf16", 3, 7, k)), "dot_pairs");
}

TEST(GenerateContraction, tiles_of_many_rows) {
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
           {16, 64, 32}, {33, 70, 64}, {9, 130, 96}, {257, 64, 32}, {20, 9, 544}, {32, 64, 1056}})
    run_native(within(0.05, linear("bf16", m, n, k)), "tile_dot");
}

TEST(GenerateContraction, tiles_of_a_matrix_in_rows) {
  for (const int64_t n : {64, 70, 33})
    run_native(within(0.05, product("bf16", 40, n, 96)), "tile_dot");
}

TEST(GenerateContraction, tiles_with_what_follows_and_strides) {
  TileCase c = product_with_what_follows(2, 10, 64, 0.05);
  c.inputs = {{1, ir::Layout{{900, 80, 1}, 3, 2}}, {2, ir::Layout{{72, 1}, 1, 2}}};
  run_native(c, "tile_dot");
}

TEST(GenerateContraction, tiles_of_two_products) {
  run_native({.kind = RequestKind::Contraction,
              .graph = R"(
    graph @gated(%x: bf16[40,64], %g: bf16[80,64], %u: bf16[80,64]) -> (bf16[40,80]) {
      %0 = transpose %g {perm=[1,0]} : bf16[64,80]
      %1 = matmul %x, %0 : bf16[40,80]
      %2 = transpose %u {perm=[1,0]} : bf16[64,80]
      %3 = matmul %x, %2 : bf16[40,80]
      %4 = mul %1, %3 : bf16[40,80]
      return %4
    })",
              .tolerance = 0.1},
             "tile_dot");
}

}  // namespace
}  // namespace poot::testing
