// What the threads of a GPU do together: rows shared by clusters of workgroups, blocks transposed
// in workgroup memory, columns that are reduced by a block each.
#include "tile_harness.h"

namespace poot::testing {
namespace {

using passes::RequestKind;

kir::Kernel lowered(const TileCase& c, const char* target = "sm_90a") {
  const Target gpu = Target::parse(target);
  return codegen::lower(codegen::generate(make_request(c), gpu), gpu);
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++n;
  return n;
}

TileCase softmax(const char* dtype, const std::string& columns, int64_t value) {
  const std::string wide = "f32[2," + columns + "]", narrow = "f32[2,1]";
  return {.kind = RequestKind::Row,
          .graph = "graph @softmax(s0 in [1, inf] hint 100000, %x: " + std::string(dtype) + "[2," +
                   columns + "]) -> (" + wide + ") {\n%0 = cast %x {to=f32} : " + wide +
                   "\n%1 = reduce_max %0 {axes=[1], keepdim=true} : " + narrow +
                   "\n%2 = sub %0, %1 : " + wide + "\n%3 = exp %2 : " + wide +
                   "\n%4 = reduce_sum %3 {axes=[1], keepdim=true} : " + narrow +
                   "\n%5 = div %3, %4 : " + wide + "\nreturn %5\n}",
          .symbols = {value},
          .tolerance = 1e-4};
}

// The second walk finds the row in the cache only if few rows are worked on at a time.
TEST(LowerGpuShared, long_rows_are_shared_by_a_cluster) {
  for (const int64_t columns : {65544, 70003}) {
    const TileCase c = softmax("bf16", std::to_string(columns), 1);
    const kir::Kernel k = lowered(c);
    EXPECT_EQ(k.cluster, 8u);
    EXPECT_EQ(kir::parse_kernel(k.str()).str(), k.str());
    // One before any writes to another, one for each reduction.
    EXPECT_EQ(count(k.str(), "cluster_barrier"), 3u);
    run_tile_case(c);
  }
  EXPECT_EQ(lowered(softmax("bf16", "65536", 1)).cluster, 1u);
  EXPECT_EQ(lowered(softmax("bf16", "131072", 1), "sm_80").cluster, 1u);
}

TEST(LowerGpuShared, rows_of_unknown_length_are_shared_too) {
  for (const int64_t columns : {1, 9, 5000, 66001}) run_tile_case(softmax("f32", "s0", columns));
  EXPECT_EQ(lowered(softmax("f32", "s0", 1)).cluster, 8u);
}

// Rows in registers: each workgroup keeps its part.
TEST(LowerGpuShared, a_row_that_a_clusters_registers_hold_is_read_once) {
  const TileCase c{.kind = RequestKind::Row,
                   .graph = R"(graph @centred(%x: bf16[2,66000]) -> (f32[2,66000]) {
      %0 = cast %x {to=f32} : f32[2,66000]
      %1 = reduce_sum %0 {axes=[1], keepdim=true} : f32[2,1]
      %2 = sub %0, %1 : f32[2,66000]
      return %2
    })",
                   .tolerance = 1e-3};
  EXPECT_EQ(lowered(c).cluster, 8u);
  EXPECT_EQ(count(lowered(c).str(), "\n  for "), 0u);
  run_tile_case(c);
}

TEST(LowerGpuShared, rows_that_are_walked_once_need_no_cluster) {
  const TileCase c{.kind = RequestKind::Row,
                   .graph = R"(graph @total(%x: f32[2,100000]) -> (f32[2,1]) {
      %0 = reduce_sum %x {axes=[1], keepdim=true} : f32[2,1]
      return %0
    })",
                   .tolerance = 1e-3};
  EXPECT_EQ(lowered(c).cluster, 1u);
}

TileCase transposed_sum(const char* dtype, int64_t rows, int64_t columns) {
  const std::string d(dtype), r = std::to_string(rows), c = std::to_string(columns);
  const std::string out = d + "[" + r + "," + c + "]";
  return {.graph = "graph @turned(%x: " + d + "[" + c + "," + r + "], %y: " + out + ") -> (" + out +
                   ") {\n%0 = transpose %x {perm=[1,0]} : " + out + "\n%1 = add %0, %y : " + out +
                   "\nreturn %1\n}"};
}

TEST(LowerGpuShared, what_lies_across_is_turned_in_workgroup_memory) {
  for (const char* dtype : {"bf16", "f32", "i8", "i64"})
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{64, 64}, {128, 192}, {70, 130}, {17, 300}, {200, 64}}) {
      const TileCase c = transposed_sum(dtype, rows, columns);
      EXPECT_EQ(count(lowered(c).str(), " workgroup "), 1u) << c.graph;
      run_tile_case(c);
    }
}

TEST(LowerGpuShared, turned_blocks_are_read_and_written_in_whole_vectors) {
  const std::string text = lowered(transposed_sum("bf16", 256, 256)).str();
  EXPECT_EQ(count(text, "bf16x8 align 16"), 3u) << text;  // x, y, the kept part
  EXPECT_EQ(count(text, "barrier"), 1u);
}

TEST(LowerGpuShared, inner_axes_are_turned_beside_outer_ones) {
  run_tile_case({.graph = R"(graph @heads(%x: bf16[3,40,5,72]) -> (bf16[3,5,72,40]) {
      %0 = transpose %x {perm=[0,2,3,1]} : bf16[3,5,72,40]
      %1 = neg %0 : bf16[3,5,72,40]
      return %1
    })"});
}

// 4224 positions of 64 columns: 64 blocks, where one block of 16 threads would walk them all.
TEST(LowerGpuShared, few_columns_have_a_block_each) {
  const TileCase c{.kind = RequestKind::Reduce,
                   .graph = R"(graph @total(%x: f32[264,16,64]) -> (f32[64]) {
      %0 = reduce_sum %x {axes=[0,1], keepdim=false} : f32[64]
      return %0
    })",
                   .tolerance = 1e-3};
  const Target gpu = Target::parse("sm_90a");
  const tile::Program p = codegen::generate(make_request(c), gpu);
  EXPECT_EQ(p.grid[0].str(), "64") << p.str();
  run_tile_case(c);
}

}  // namespace
}  // namespace poot::testing
