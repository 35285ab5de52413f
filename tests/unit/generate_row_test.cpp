// Rows and reductions against the graph oracle: the tile program is interpreted on random inputs.
#include "tile_harness.h"

namespace poot::testing {
namespace {

using passes::RequestKind;

const char* kSoftmax = R"(graph @softmax(%x: T[R,C]) -> (T[R,C]) {
    %0 = cast %x {to=f32} : f32[R,C]
    %1 = reduce_max %0 {axes=[1], keepdim=true} : f32[R,1]
    %2 = sub %0, %1 : f32[R,C]
    %3 = exp %2 : f32[R,C]
    %4 = reduce_sum %3 {axes=[1], keepdim=true} : f32[R,1]
    %5 = div %3, %4 : f32[R,C]
    %6 = cast %5 {to=T} : T[R,C]
    return %6
  })";
std::string softmax(const char* dtype, int64_t rows, int64_t columns) {
  return replace(replace(replace(kSoftmax, "T", dtype), "R", std::to_string(rows)), "C",
                 std::to_string(columns));
}

TEST(GenerateRow, softmax) {
  for (const int64_t columns : {1, 2, 63, 64, 65, 1000}) {
    run_tile_case(
        {.kind = RequestKind::Row, .graph = softmax("f32", 5, columns), .tolerance = 1e-6});
    run_tile_case(
        {.kind = RequestKind::Row, .graph = softmax("bf16", 1, columns), .tolerance = 1e-2});
  }
  run_tile_case({.kind = RequestKind::Row, .graph = softmax("f32", 0, 8)});
  run_tile_case({.kind = RequestKind::Row, .graph = softmax("f32", 300, 7), .tolerance = 1e-6});
}

TEST(GenerateRow, sums_in_an_order) {
  const char* text = R"(graph @sums(%x: f32[3,C], %y: f32[3,C])
      -> (f32[3], f32[3], f32[3], f64[3], f32[3,C]) {
    %0 = mul %x, %y : f32[3,C]
    %1 = reduce_sum %0 {axes=[1], keepdim=false, order="vector"} : f32[3]
    %2 = reduce_sum %x {axes=[1], keepdim=false, order="cascade"} : f32[3]
    %3 = reduce_sum %y {axes=[1], keepdim=true, order="vector"} : f32[3,1]
    %4 = cast %x {to=f64} : f64[3,C]
    %5 = reduce_sum %4 {axes=[1], keepdim=false, order="cascade"} : f64[3]
    %6 = sub %x, %3 : f32[3,C]
    %7 = reduce_max %y {axes=[1], keepdim=false} : f32[3]
    return %1, %2, %7, %5, %6
  })";
  for (const int64_t columns : {1, 2, 3, 5, 7, 8, 13, 16, 23, 40, 63, 512, 545, 9000})
    run_tile_case({.kind = RequestKind::Row,
                   .graph = replace(text, "C", std::to_string(columns)),
                   .tolerance = 1e-3});
  const std::string any = replace(replace(text, "(%x", "(s0 in [1, inf] hint 33, %x"), "C", "s0");
  for (const int64_t columns : {1, 5, 8, 31, 600, 9000})
    run_tile_case(
        {.kind = RequestKind::Row, .graph = any, .symbols = {columns}, .tolerance = 1e-3});
}

TEST(GenerateRow, softmax_streams_long_rows) {
  const tile::Program p = run_tile_case(
      {.kind = RequestKind::Row, .graph = softmax("f32", 2, 65537), .tolerance = 1e-5});
  EXPECT_TRUE(p.schedule.streaming_rows);
}

TEST(GenerateRow, symbolic_layer_norm_with_row_outputs) {
  for (const int64_t rows : {1, 3, 700})
    run_tile_case({.kind = RequestKind::Row,
                   .graph = R"(
      graph @ln(s0 in [1, inf] hint 4, s1 in [1, inf] hint 33, %x: f32[s0,s1], %w: f32[s1])
          -> (f32[s0,s1], f32[s0,1], f32[s0]) {
      %0 = size_value {value=s1} : i64[]
      %1 = cast %0 {to=f32} : f32[]
      %2 = reduce_sum %x {axes=[1], keepdim=true} : f32[s0,1]
      %3 = div %2, %1 : f32[s0,1]
      %4 = sub %x, %3 : f32[s0,s1]
      %5 = mul %4, %4 : f32[s0,s1]
      %6 = reduce_sum %5 {axes=[1], keepdim=true} : f32[s0,1]
      %7 = div %6, %1 : f32[s0,1]
      %8 = add %7, f32 1e-05 : f32[s0,1]
      %9 = rsqrt %8 : f32[s0,1]
      %10 = mul %4, %9 : f32[s0,s1]
      %11 = mul %10, %w : f32[s0,s1]
      %12 = reduce_max %x {axes=[1], keepdim=false} : f32[s0]
      return %11, %9, %12
    })",
                   .symbols = {rows, 33},
                   .tolerance = 1e-5});
}

TEST(GenerateRow, moments_of_whole_rows) {
  const std::string graph = R"(graph @ln(%x: f32[5,C], %w: f32[C]) -> (f32[5,C], f32[5,1]) {
      %0 = welford_mean %x {axes=[1], keepdim=true} : f32[5,1]
      %1 = welford_squares %x {axes=[1], keepdim=true} : f32[5,1]
      %2 = sub %x, %0 : f32[5,C]
      %3 = div %2, %1 : f32[5,C]
      %4 = mul %3, %w : f32[5,C]
      return %4, %1
    })";
  for (const int64_t columns : {1, 2, 7, 8, 70, 1000, 70000})
    run_tile_case({.kind = RequestKind::Row,
                   .graph = replace(graph, "C", std::to_string(columns)),
                   .tolerance = 1e-5,
                   .cpu_only = true});
  const std::string square = R"(graph @ln(%x: f32[6,7,8]) -> (f32[6,1,1], f32[6]) {
      %0 = welford_mean %x {axes=[1,2], keepdim=true} : f32[6,1,1]
      %1 = welford_squares %x {axes=[1,2], keepdim=false} : f32[6]
      return %0, %1
    })";
  for (const RequestKind kind : {RequestKind::Row, RequestKind::Reduce})
    run_tile_case({.kind = kind,
                   .graph = square,
                   .inputs = {{0, {{1, 48, 6}, 0, 4}}},
                   .tolerance = 1e-5,
                   .cpu_only = true});
}

TEST(GenerateRow, several_trailing_axes) {
  const std::string graph = R"(graph @gn(%x: f32[3,4,5,6], %w: f32[4,1,1]) -> (f32[3,4,5,6]) {
      %0 = reduce_sum %x {axes=[2,3], keepdim=true} : f32[3,4,1,1]
      %1 = sub %x, %0 : f32[3,4,5,6]
      %2 = mul %1, %w : f32[3,4,5,6]
      return %2
    })";
  run_tile_case({.kind = RequestKind::Row, .graph = graph, .tolerance = 1e-5});
  run_tile_case({.kind = RequestKind::Row,
                 .graph = graph,
                 .inputs = {{0, {{120, 1, 24, 4}, 0, 4}}},
                 .tolerance = 1e-5});
}

TEST(GenerateRow, integers_and_bools) {
  run_tile_case({.kind = RequestKind::Row, .graph = R"(graph @g(%x: i64[5,9]) -> (i64[5], bool[5]) {
      %0 = reduce_sum %x {axes=[1], keepdim=false} : i64[5]
      %1 = gt %x, i64 4 : bool[5,9]
      %2 = reduce_any %1 {axes=[1], keepdim=false} : bool[5]
      return %0, %2
    })"});
}

TEST(GenerateRow, gathered_rows) {
  run_tile_case(
      {.kind = RequestKind::Row, .graph = R"(graph @g(%x: f32[6,40], %i: i64[9]) -> (f32[9,40]) {
      %0 = gather %x, %i {axis=0} : f32[9,40]
      %1 = reduce_max %0 {axes=[1], keepdim=true} : f32[9,1]
      %2 = sub %0, %1 : f32[9,40]
      return %2
    })"});
}

const char* kReduce = R"(graph @red(%x: T[SHAPE]) -> (T[OUT]) {
    %0 = mul %x, %x : T[SHAPE]
    %1 = FN %0 {axes=[AXES], keepdim=KEEP} : T[OUT]
    return %1
  })";
std::string reduce(const char* fn, const char* dtype, const char* shape, const char* axes,
                   const char* out, bool keep = false) {
  std::string s = replace(replace(replace(kReduce, "SHAPE", shape), "OUT", out), "AXES", axes);
  return replace(replace(replace(s, "FN", fn), "KEEP", keep ? "true" : "false"), "T", dtype);
}

TEST(GenerateReduce, any_axes) {
  const auto run = [](const std::string& graph) {
    run_tile_case({.kind = RequestKind::Reduce, .graph = graph, .tolerance = 2e-5});
  };
  for (const char* fn : {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod"}) {
    run(reduce(fn, "f32", "13,70", "0", "70"));
    run(reduce(fn, "f32", "13,70", "1", "13"));
    run(reduce(fn, "f32", "4,9,33", "0,2", "9"));
    run(reduce(fn, "f32", "4,9,33", "1", "4,1,33", true));
    run(reduce(fn, "f32", "4,9,33", "0,1,2", ""));
  }
  run(reduce("reduce_sum", "f32", "0,5", "0", "5"));
  run(reduce("reduce_sum", "f32", "5,0", "1", "5"));
  run(reduce("reduce_sum", "f32", "3,600,17", "1", "3,17"));
  run(reduce("reduce_sum", "f32", "2,3,5000", "0,2", "3"));
  run(reduce("reduce_sum", "f32", "1,7", "0", "7"));
}

TEST(GenerateReduce, narrow_types_accumulate_wide) {
  for (const char* d : {"bf16", "f16"})
    for (const char* axis : {"0", "1"})
      run_tile_case({.kind = RequestKind::Reduce,
                     .graph = reduce("reduce_sum", d, "300,300", axis, "300"),
                     .tolerance = 8e-3});
  run_tile_case(
      {.kind = RequestKind::Reduce, .graph = reduce("reduce_sum", "i64", "30,40", "0", "40")});
}

TEST(GenerateReduce, symbolic_and_strided) {
  run_tile_case({.kind = RequestKind::Reduce,
                 .graph = R"(
    graph @r(s0 in [0, inf] hint 9, s1 in [0, inf] hint 40, %x: f32[s0,s1]) -> (f32[s1]) {
    %0 = reduce_sum %x {axes=[0], keepdim=false} : f32[s1]
    %1 = mul %0, f32 0.5 : f32[s1]
    return %1
  })",
                 .symbols = {700, 41},
                 .tolerance = 1e-4});
  run_tile_case({.kind = RequestKind::Reduce,
                 .graph = reduce("reduce_sum", "f32", "13,70", "0", "70"),
                 .inputs = {{0, {{1, 13}, 0, 4}}},
                 .tolerance = 1e-5});
}

TEST(GenerateReduce, long_sums_cascade) {
  // 2^20 times 0.1 in f32: one accumulator is off by thousands.
  const std::string graph = R"(graph @r(%x: f32[1048576]) -> (f32[]) {
    %0 = mul %x, f32 0 : f32[1048576]
    %1 = add %0, f32 0.1 : f32[1048576]
    %2 = reduce_sum %1 {axes=[0], keepdim=false} : f32[]
    return %2
  })";
  const passes::KernelRequest request = make_request({.kind = RequestKind::Reduce, .graph = graph});
  const tile::Program p = codegen::generate(request, Target::parse("x86-64-v4"));
  std::vector<float> x(1048576, 1.0f), y(1);
  const std::span<std::byte> buffers[] = {std::as_writable_bytes(std::span(x)),
                                          std::as_writable_bytes(std::span(y))};
  EXPECT_EQ(tile::interpret(p, buffers, {}), 0u);
  EXPECT_NEAR(y[0], 1048576 * static_cast<double>(0.1f), 8.0);
}

}  // namespace
}  // namespace poot::testing
