// Every generator against the graph oracle: the tile program is interpreted on random inputs.
#include "tile_harness.h"

namespace poot::testing {
namespace {

using passes::RequestKind;

std::string replace(std::string s, const std::string& from, const std::string& to) {
  for (size_t at = s.find(from); at != std::string::npos; at = s.find(from, at + to.size()))
    s.replace(at, from.size(), to);
  return s;
}

const int64_t kSizes[] = {0, 1, 4095, 4096, 4097, 5003};

TEST(GenerateElementwise, sizes_around_a_tile) {
  for (const int64_t n : kSizes) {
    run_tile_case({.graph = replace(R"(graph @relu(%x: f32[N]) -> (f32[N]) {
      %0 = add %x, f32 1 : f32[N]
      %1 = maximum %0, f32 0 : f32[N]
      return %1
    })",
                                    "N", std::to_string(n))});
    run_tile_case({.graph = R"(graph @relu(s0 in [0, inf] hint 64, %x: f32[s0]) -> (f32[s0]) {
      %0 = add %x, f32 1 : f32[s0]
      %1 = maximum %0, f32 0 : f32[s0]
      return %1
    })",
                   .symbols = {n}});
  }
}

TEST(GenerateElementwise, dtypes_round_at_each_step) {
  for (const char* d : {"f64", "f32", "f16", "bf16"}) {
    run_tile_case({.graph = replace(R"(graph @g(%x: T[9,65], %y: T[65]) -> (T[9,65]) {
      %0 = mul %x, %y : T[9,65]
      %1 = add %0, %x : T[9,65]
      return %1
    })",
                                    "T", d)});
    run_tile_case({.graph = replace(R"(graph @g(%x: T[9,65]) -> (T[9,65], T[9,65]) {
      %0 = exp %x : T[9,65]
      %1 = sub %0, %x : T[9,65]
      return %0, %1
    })",
                                    "T", d),
                   .tolerance = d[0] == 'b'               ? 1e-2
                                : d == std::string("f16") ? 1e-3
                                                          : 1e-6});
  }
  for (const char* d : {"i64", "i32", "i16", "i8", "u8"})
    run_tile_case({.graph = replace(R"(graph @g(%x: T[9,65], %y: T[9,1]) -> (T[9,65], bool[9,65]) {
      %0 = mul %x, %y : T[9,65]
      %1 = gt %0, %x : bool[9,65]
      %2 = select %1, %0, %y : T[9,65]
      return %2, %1
    })",
                                    "T", d)});
}

TEST(GenerateElementwise, strided_transposed_and_offset_memory) {
  const std::string graph = R"(graph @g(%x: f32[7,5,33], %y: f32[7,5,33]) -> (f32[7,5,33]) {
    %0 = sub %x, %y : f32[7,5,33]
    return %0
  })";
  run_tile_case({.graph = graph});
  run_tile_case({.graph = graph, .inputs = {{0, {{400, 70, 2}, 3, 4}}}});
  run_tile_case({.graph = graph, .inputs = {{1, {{1, 7, 35}, 0, 4}}}});
  run_tile_case({.graph = graph, .outputs = {{0, {{1, 7, 35}, 2, 4}}}});
  run_tile_case({.graph = graph, .inputs = {{0, {{0, 0, 1}, 0, 4}}}});
}

TEST(GenerateElementwise, large_transpose_uses_square_tiles) {
  const tile::Program p = run_tile_case({.graph = R"(graph @t(%x: f32[130,200]) -> (f32[200,130]) {
    %0 = transpose %x {perm=[1,0]} : f32[200,130]
    return %0
  })"});
  ASSERT_EQ(p.axes.size(), 2u);
  EXPECT_EQ(p.axes[0].capacity, 64);
  EXPECT_EQ(p.axes[1].capacity, 64);
}

TEST(GenerateElementwise, contiguous_dims_merge_into_one_axis) {
  const tile::Program p = run_tile_case({.graph = R"(graph @g(%x: f32[4,8,16]) -> (f32[4,8,16]) {
    %0 = neg %x : f32[4,8,16]
    return %0
  })"});
  ASSERT_EQ(p.axes.size(), 1u);
  EXPECT_EQ(p.axes[0].capacity, 512);
}

TEST(GenerateElementwise, interleaved_pairs_keep_long_columns) {
  const tile::Program p =
      run_tile_case({.graph = R"(graph @g(%x: f32[9,40], %y: f32[9,40]) -> (f32[9,80]) {
    %0 = reshape %x {shape=[9,40,1]} : f32[9,40,1]
    %1 = reshape %y {shape=[9,40,1]} : f32[9,40,1]
    %2 = neg %1 : f32[9,40,1]
    %3 = concat %0, %2 {axis=2} : f32[9,40,2]
    %4 = reshape %3 {shape=[9,80]} : f32[9,80]
    return %4
  })"});
  EXPECT_EQ(p.axes.back().capacity, 360);
}

TEST(GenerateElementwise, large_results_bypass_the_cache_unless_in_place) {
  const auto nontemporal = [](const char* n, std::vector<int32_t> in_place) {
    passes::KernelRequest r = make_request({.graph = replace(R"(graph @g(%x: f32[N]) -> (f32[N]) {
      %0 = neg %x : f32[N]
      return %0
    })",
                                                             "N", n)});
    r.in_place = std::move(in_place);
    return codegen::generate(r, Target::parse("x86-64-v4")).schedule.nontemporal;
  };
  EXPECT_TRUE(nontemporal("16777216", {}));
  EXPECT_FALSE(nontemporal("16777216", {0}));
  EXPECT_FALSE(nontemporal("65536", {}));
}

TEST(GenerateElementwise, views) {
  run_tile_case({.graph = R"(graph @g(%x: f32[2,6,32], %y: f32[2,4,6,8]) -> (f32[2,4,6,8]) {
    %0 = reshape %x {shape=[2,6,4,8]} : f32[2,6,4,8]
    %1 = transpose %0 {perm=[0,2,1,3]} : f32[2,4,6,8]
    %2 = add %1, %y : f32[2,4,6,8]
    return %2
  })"});
  run_tile_case({.graph = R"(graph @g(%x: f32[9,10]) -> (f32[4,10]) {
    %0 = slice %x {axis=0, start=1, end=9, step=2} : f32[4,10]
    %1 = flip %0 {axes=[0,1]} : f32[4,10]
    return %1
  })"});
  run_tile_case({.graph = R"(graph @g(%x: f32[5], %y: f32[3,5]) -> (f32[2,3,5]) {
    %0 = broadcast %x {shape=[2,3,5]} : f32[2,3,5]
    %1 = mul %0, %y : f32[2,3,5]
    return %1
  })"});
  run_tile_case({.graph = R"(graph @g(%x: f32[6,10]) -> (f32[4,15]) {
    %0 = neg %x : f32[6,10]
    %1 = reshape %0 {shape=[4,15]} : f32[4,15]
    return %1
  })"});
}

TEST(GenerateElementwise, views_that_stay_affine_need_no_division) {
  const tile::Program p = run_tile_case({.graph = R"(
    graph @g(s0 in [1, inf] hint 8, %x: f32[s0,64], %y: f32[s0,4,16]) -> (f32[s0,64]) {
    %0 = reshape %x {shape=[s0,4,16]} : f32[s0,4,16]
    %1 = add %0, %y : f32[s0,4,16]
    %2 = reshape %1 {shape=[s0,64]} : f32[s0,64]
    return %2
  })",
                                         .symbols = {5}});
  for (const tile::IndexNode& n : p.index) {
    EXPECT_NE(n.op, tile::IndexOp::Div);
    EXPECT_NE(n.op, tile::IndexOp::Mod);
  }
  EXPECT_EQ(p.axes.size(), 1u);
}

TEST(GenerateElementwise, symbolic_reshape_with_heads) {
  run_tile_case({.graph = R"(
    graph @g(s0 in [1, inf] hint 2, s1 in [1, inf] hint 8, %x: f32[s0,s1,48]) -> (f32[s0,3,s1,16]) {
    %0 = reshape %x {shape=[s0,s1,3,16]} : f32[s0,s1,3,16]
    %1 = transpose %0 {perm=[0,2,1,3]} : f32[s0,3,s1,16]
    %2 = neg %1 : f32[s0,3,s1,16]
    return %2
  })",
                 .symbols = {2, 5}});
}

TEST(GenerateElementwise, repeated_heads) {
  run_tile_case({.graph = R"(graph @g(%x: f32[2,3,5,8], %y: f32[2,6,5,8]) -> (f32[2,6,5,8]) {
    %0 = reshape %x {shape=[2,3,1,5,8]} : f32[2,3,1,5,8]
    %1 = broadcast %0 {shape=[2,3,2,5,8]} : f32[2,3,2,5,8]
    %2 = reshape %1 {shape=[2,6,5,8]} : f32[2,6,5,8]
    %3 = add %2, %y : f32[2,6,5,8]
    return %3
  })"});
}

TEST(GenerateElementwise, rotate_half) {
  for (const char* d : {"f32", "bf16"})
    run_tile_case({.graph = replace(R"(
      graph @rope(%x: T[2,3,5,8], %cos: T[5,8], %sin: T[5,8]) -> (T[2,3,5,8]) {
      %0 = mul %x, %cos : T[2,3,5,8]
      %1 = slice %x {axis=3, start=0, end=4, step=1} : T[2,3,5,4]
      %2 = slice %x {axis=3, start=4, end=8, step=1} : T[2,3,5,4]
      %3 = neg %2 : T[2,3,5,4]
      %4 = concat %3, %1 {axis=3} : T[2,3,5,8]
      %5 = mul %4, %sin : T[2,3,5,8]
      %6 = add %0, %5 : T[2,3,5,8]
      return %6
    })",
                                    "T", d)});
}

TEST(GenerateElementwise, concat_and_pad) {
  run_tile_case({.graph = R"(graph @g(%x: f32[3,4], %y: f32[3,0], %z: f32[3,5]) -> (f32[3,9]) {
    %0 = concat %x, %y, %z {axis=1} : f32[3,9]
    %1 = neg %0 : f32[3,9]
    return %1
  })"});
  run_tile_case({.graph = R"(graph @g(%x: f32[3,4]) -> (f32[5,9]) {
    %0 = pad %x, f32 1.5 {low=[1,2], high=[1,3]} : f32[5,9]
    return %0
  })"});
  run_tile_case({.graph = R"(graph @g(%x: f32[3,4], %p: f32[]) -> (f32[5,9]) {
    %0 = exp %x : f32[3,4]
    %1 = pad %0, %p {low=[1,2], high=[1,3]} : f32[5,9]
    return %1
  })"});
}

TEST(GenerateElementwise, division_outside_a_guard_raises_nothing) {
  run_tile_case({.graph = R"(graph @g(%x: i64[3,4], %y: i64[3,4]) -> (i64[3,8]) {
    %0 = floor_div %x, %y : i64[3,4]
    %1 = concat %0, %x {axis=1} : i64[3,8]
    return %1
  })",
                 .int_lo = 1,
                 .int_hi = 9});
}

TEST(GenerateElementwise, division_by_zero_sets_the_status) {
  run_tile_case({.graph = R"(graph @g(%x: i64[40]) -> (i64[40]) {
    %0 = remainder %x, %x : i64[40]
    return %0
  })",
                 .int_lo = 0,
                 .int_hi = 0,
                 .status = 2});
}

const char* kGather = R"(graph @g(%x: f32[5,33], %i: IDX[2,7]) -> (f32[2,7,33]) {
    %0 = gather %x, %i {axis=0} : f32[2,7,33]
    %1 = neg %0 : f32[2,7,33]
    return %1
  })";

TEST(GenerateElementwise, gather) {
  for (const char* d : {"i64", "i32"}) {
    run_tile_case({.graph = replace(kGather, "IDX", d), .int_lo = -5, .int_hi = 4});
    run_tile_case({.graph = replace(kGather, "IDX", d), .int_lo = 5, .int_hi = 5, .status = 1});
    run_tile_case({.graph = replace(kGather, "IDX", d), .int_lo = -6, .int_hi = -6, .status = 1});
  }
  run_tile_case({.graph = R"(graph @g(%x: f32[5,9], %i: i64[4]) -> (f32[5,4]) {
    %0 = gather %x, %i {axis=1} : f32[5,4]
    return %0
  })"});
  run_tile_case({.graph = R"(graph @g(%x: f32[5,9], %i: i64[5,4]) -> (f32[5,4]) {
    %0 = take %x, %i {axis=1} : f32[5,4]
    return %0
  })",
                 .int_lo = 0,
                 .int_hi = 8});
}

TEST(GenerateElementwise, gather_from_an_empty_dim_reads_nothing) {
  run_tile_case({.graph = R"(graph @g(%x: f32[0,3], %i: i64[4]) -> (f32[4,3]) {
    %0 = gather %x, %i {axis=0} : f32[4,3]
    return %0
  })",
                 .status = 1});
}

TEST(GenerateElementwise, gather_by_positions_is_affine) {
  const tile::Program p = run_tile_case({.graph = R"(graph @g(%x: f32[16,8]) -> (f32[6,8]) {
    %0 = iota {dtype=i64, size=6, start=0, step=1} : i64[6]
    %1 = add %0, i64 3 : i64[6]
    %2 = gather %x, %1 {axis=0} : f32[6,8]
    return %2
  })"});
  EXPECT_EQ(p.axes.size(), 1u);
}

TEST(GenerateElementwise, sources) {
  run_tile_case({.graph = R"(graph @g(s0 in [0, inf] hint 4) -> (i32[s0], f32[s0], i64[s0]) {
    %0 = iota {dtype=i32, size=s0, start=2, step=3} : i32[s0]
    %1 = full f32 2.5 {shape=[s0]} : f32[s0]
    %2 = size_value {value=2*s0} : i64[]
    %3 = full %2 {shape=[s0]} : i64[s0]
    return %0, %1, %3
  })",
                 .symbols = {11}});
  run_tile_case({.graph = R"(graph @mask(%x: f32[6,7]) -> (f32[6,7]) {
    %0 = iota {dtype=i64, size=6, start=0, step=1} : i64[6]
    %1 = reshape %0 {shape=[6,1]} : i64[6,1]
    %2 = iota {dtype=i64, size=7, start=0, step=1} : i64[7]
    %3 = le %2, %1 : bool[6,7]
    %4 = select %3, %x, f32 -inf : f32[6,7]
    return %4
  })"});
}

TEST(GenerateElementwise, sharing_does_not_multiply_work) {
  std::string graph =
      "graph @fib(%x: f32[64]) -> (f32[64]) {\n%0 = neg %x : f32[64]\n"
      "%1 = mul %0, %0 : f32[64]\n";
  for (int i = 2; i < 60; i++)
    graph += "%" + std::to_string(i) + " = sub %" + std::to_string(i - 1) + ", %" +
             std::to_string(i - 2) + " : f32[64]\n";
  const tile::Program p = run_tile_case({.graph = graph + "return %59\n}"});
  EXPECT_LT(p.body.insts.size(), 70u);
}

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

const char* kScatter = R"(graph @s(%b: f32[6,33], %i: i64[4], %x: f32[4,33]) -> (f32[6,33]) {
    %0 = scatter_update %b, %i, %x {axis=0} : f32[6,33]
    return %0
  })";

TEST(GenerateScatter, scatter_update) {
  run_tile_case({.kind = RequestKind::Scatter, .graph = kScatter, .int_lo = -6, .int_hi = 5});
  run_tile_case({.kind = RequestKind::Scatter, .graph = R"(
    graph @s(%b: f32[2,9,5], %i: i64[4], %x: f32[2,5,4]) -> (f32[2,9,5]) {
    %0 = transpose %x {perm=[0,2,1]} : f32[2,4,5]
    %1 = scatter_update %b, %i, %0 {axis=1} : f32[2,9,5]
    return %1
  })"});
}

TEST(GenerateScatter, rows_are_combined_in_order) {
  run_tile_case({.kind = RequestKind::Scatter,
                 .graph = R"(
    graph @s(%b: f32[6,33], %i: i64[9], %x: f32[9,33]) -> (f32[6,33]) {
    %0 = scatter_update %b, %i, %x {axis=0, exact=true, fn="add"} : f32[6,33]
    return %0
  })",
                 .int_lo = 0,
                 .int_hi = 5});
}

TEST(GenerateScatter, elements) {
  for (const char* fn : {"", ", fn=\"add\"", ", fn=\"maximum\""}) {
    const std::string graph = std::string(R"(
      graph @s(%b: f32[3,6,5], %i: i64[2,9,5], %x: f32[2,9,5]) -> (f32[3,6,5]) {
      %0 = scatter %b, %i, %x {axis=1)") +
                              fn + R"(} : f32[3,6,5]
      return %0
    })";
    run_tile_case({.kind = RequestKind::Scatter, .graph = graph.c_str(), .int_lo = 0, .int_hi = 5});
  }
}

TEST(GenerateScatter, along_the_only_axis) {
  for (const char* fn : {"", ", fn=\"add\"", ", fn=\"mul\""})
    for (const char* sizes : {"6", "5000"})
      run_tile_case({.kind = RequestKind::Scatter,
                     .graph = std::string("graph @s(%b: f32[") + sizes +
                              "], %i: i64[40], %x: f32[40]) -> (f32[" + sizes +
                              "]) {\n  %0 = scatter %b, %i, %x {axis=0" + fn + "} : f32[" + sizes +
                              "]\n  return %0\n}",
                     .int_lo = 0,
                     .int_hi = 5});
}

// Rows of one class go to one block, which takes their slots in order.
TEST(GenerateScatter, blocks_of_a_gpu_divide_the_rows) {
  const TileCase c{.kind = RequestKind::Scatter,
                   .graph = R"(
    graph @s(%b: f32[100,33], %i: i64[2000], %x: f32[2000,33]) -> (f32[100,33]) {
    %0 = scatter_update %b, %i, %x {axis=0, fn="add"} : f32[100,33]
    return %0
  })",
                   .int_lo = -100,
                   .int_hi = 99};
  run_tile_case(c);
  const tile::Program p = codegen::generate(make_request(c), Target::parse("sm_90a"));
  EXPECT_EQ(p.grid[2].value(), 64);
}

TEST(GenerateScatter, any_order) {
  for (const char* dtype : {"i64", "i32", "u8", "f32", "bf16"})
    for (const char* fn : {"add", "maximum"}) {
      if (std::string(dtype) == "bf16" && std::string(fn) != "add") continue;
      const std::string d(dtype), f(fn);
      const double tolerance = d == "bf16" ? 0.5 : d == "f32" ? 1e-5 : 0;
      run_tile_case(
          {.kind = RequestKind::Scatter,
           .graph = "graph @s(%b: " + d + "[30,33], %i: i64[90], %x: " + d + "[90,33]) -> (" + d +
                    "[30,33]) {\n  %0 = scatter_update %b, %i, %x " + "{axis=0, exact=true, fn=\"" +
                    f + "\"} : " + d + "[30,33]\n  return %0\n}",
           .int_lo = 0,
           .int_hi = 29,
           .gpu_tolerance = tolerance,
           .any_order = true});
    }
  const TileCase elements{.kind = RequestKind::Scatter,
                          .graph = R"(
    graph @s(%b: i32[4,600], %i: i64[2,900], %x: i32[2,900]) -> (i32[4,600]) {
    %0 = scatter %b, %i, %x {axis=1, fn="add"} : i32[4,600]
    return %0
  })",
                          .int_lo = 0,
                          .int_hi = 599,
                          .any_order = true};
  run_tile_case(elements);
  const tile::Program p = codegen::generate(make_request(elements), Target::parse("sm_90a"));
  EXPECT_EQ(tile::parse_program(p.str()).str(), p.str());
  EXPECT_NE(p.str().find("combine add out0["), std::string::npos);
}

// Part p of 7 adds every seventh row to a base of its own.
TEST(GenerateScatter, parts) {
  passes::KernelRequest request = make_request({.kind = RequestKind::Scatter, .graph = R"(
    graph @s(%b: f32[3,5], %i: i64[100], %x: f32[100,5]) -> (f32[3,5]) {
    %0 = scatter_update %b, %i, %x {axis=0, fn="add"} : f32[3,5]
    return %0
  })"});
  request.parts = 7;
  std::vector<int64_t> slots(100);
  std::vector<float> x(500), want(7 * 15);
  for (size_t i = 0; i < 100; i++) slots[i] = static_cast<int64_t>(i * i % 3);
  for (size_t i = 0; i < 500; i++) x[i] = static_cast<float>(i % 11);
  for (size_t i = 0; i < 500; i++)
    want[i / 5 % 7 * 15 + static_cast<size_t>(slots[i / 5]) * 5 + i % 5] += x[i];
  const Target gpu = Target::parse("sm_90a");
  const tile::Program p = codegen::generate(request, gpu);
  SCOPED_TRACE(p.str());
  std::vector<float> tiles(7 * 15), lanes(7 * 15);
  const auto buffers = [&](std::vector<float>& out) {
    return std::vector<std::span<std::byte>>{std::as_writable_bytes(std::span(slots)),
                                             std::as_writable_bytes(std::span(x)),
                                             std::as_writable_bytes(std::span(out))};
  };
  EXPECT_EQ(tile::interpret(p, buffers(tiles), {}), 0u);
  EXPECT_EQ(tiles, want);
  kir::RunArgs args;
  args.buffers = buffers(lanes);
  uint32_t blocks = 1;
  for (int i = 0; i < 3; i++) blocks *= args.grid[i] = static_cast<uint32_t>(p.grid[i].value());
  EXPECT_EQ(kir::interpret(codegen::lower(p, gpu), args, 0, blocks), 0u);
  EXPECT_EQ(lanes, want);
}

TEST(GenerateScatter, bad_slots_write_nothing) {
  const passes::KernelRequest request =
      make_request({.kind = RequestKind::Scatter, .graph = kScatter});
  const tile::Program p = codegen::generate(request, Target::parse("x86-64-v4"));
  std::vector<int64_t> slots = {6, -7, INT64_MAX, INT64_MIN};
  std::vector<float> x(4 * 33, 1.0f), base(6 * 33, 2.0f);
  const auto before = base;
  const std::span<std::byte> buffers[] = {std::as_writable_bytes(std::span(slots)),
                                          std::as_writable_bytes(std::span(x)),
                                          std::as_writable_bytes(std::span(base))};
  EXPECT_EQ(tile::interpret(p, buffers, {}), 1u);
  EXPECT_EQ(base, before);
}

TEST(GenerateScatter, update_slice) {
  run_tile_case({.kind = RequestKind::Scatter,
                 .graph = R"(
    graph @u(s0 in [0, 5] hint 2, %b: f32[2,8,5], %x: f32[2,3,5]) -> (f32[2,8,5]) {
    %0 = update_slice %b, %x {axis=1, start=s0, end=s0 + 3, step=1} : f32[2,8,5]
    return %0
  })",
                 .symbols = {4}});
}

std::string refusal(RequestKind kind, const std::string& graph) {
  try {
    codegen::generate(make_request({.kind = kind, .graph = graph}), Target::parse("x86-64-v4"));
  } catch (const Unsupported& e) {
    return e.what();
  }
  return "generated";
}

TEST(Generate, refusals_name_what_is_missing) {
  EXPECT_NE(refusal(RequestKind::Row, R"(graph @r(%x: f32[4,5]) -> (f32[4,5]) {
    %0 = reduce_sum %x {axes=[0], keepdim=true} : f32[1,5]
    %1 = sub %x, %0 : f32[4,5]
    return %1
  })")
                .find("leading axes"),
            std::string::npos);
  EXPECT_NE(refusal(RequestKind::Row, R"(graph @r(%x: f32[4,5], %y: f32[4,6]) -> (f32[4], f32[4]) {
    %0 = reduce_sum %x {axes=[1], keepdim=false} : f32[4]
    %1 = reduce_sum %y {axes=[1], keepdim=false} : f32[4]
    return %0, %1
  })")
                .find("different sizes"),
            std::string::npos);
  EXPECT_NE(refusal(RequestKind::Scatter, R"(graph @s(%x: f32[3], %b: f32[9]) -> (f32[9]) {
    %0 = update_slice %b, %x {axis=0, start=0, end=3, step=1} : f32[9]
    return %0
  })")
                .find("not its first input"),
            std::string::npos);
  EXPECT_NE(
      refusal(RequestKind::Elementwise, R"(graph @m(%x: f32[3,4], %y: f32[4,5]) -> (f32[3,5]) {
    %0 = matmul %x, %y : f32[3,5]
    return %0
  })")
          .find("matmul"),
      std::string::npos);
}

}  // namespace
}  // namespace poot::testing
