// Elementwise kernels against the graph oracle, on random inputs; what generators refuse.
#include "tile_harness.h"

namespace poot::testing {
namespace {

using passes::RequestKind;

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

// Pairs whose columns are few, since rows around them do not continue them in memory: [heads,
// positions, columns] of what lies as [positions, heads, columns].
TEST(GenerateElementwise, interleaved_pairs_of_short_columns_are_woven) {
  for (const char* d : {"f32", "bf16", "f64"}) {
    const TileCase c{.graph = replace(R"(graph @g(%x: T[3,37,64], %c: T[37,32]) -> (T[3,37,64]) {
      %0 = slice %x {axis=2, start=0, end=64, step=2} : T[3,37,32]
      %1 = slice %x {axis=2, start=1, end=64, step=2} : T[3,37,32]
      %2 = mul %0, %c : T[3,37,32]
      %3 = neg %1 : T[3,37,32]
      %4 = reshape %2 {shape=[3,37,32,1]} : T[3,37,32,1]
      %5 = reshape %3 {shape=[3,37,32,1]} : T[3,37,32,1]
      %6 = concat %4, %5 {axis=3} : T[3,37,32,2]
      %7 = reshape %6 {shape=[3,37,64]} : T[3,37,64]
      return %7
    })",
                                      "T", d),
                     .inputs = {{0, {{64, 192, 1}, 0, 4}}}};
    const tile::Program p = run_tile_case(c);
    const std::string kir = codegen::lower(p, Target::parse("x86-64-v4")).str();
    EXPECT_EQ(kir.find("gather"), std::string::npos) << d;
    EXPECT_EQ(kir.find("scatter"), std::string::npos) << d;
  }
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

// Sizes that are equal at run time alone.
TEST(GenerateElementwise, reshapes_by_symbolic_factors) {
  run_tile_case({.graph = R"(
    graph @r(s0 in [1, 64] hint 3, s1 in [1, 64] hint 8, %x: f32[s0,s1])
        -> (f32[1,s0,4,floordiv(s1, 4)]) {
    %0 = neg %x : f32[s0,s1]
    %1 = reshape %0 {shape=[1,s0,4,floordiv(s1, 4)], proven=true} : f32[1,s0,4,floordiv(s1, 4)]
    return %1
  })",
                 .symbols = {3, 12}});
  run_tile_case({.graph = R"(
    graph @r(s0 in [1, 64] hint 3, s1 in [1, 64] hint 8, s2 in [1, 64] hint 2, %x: f32[s0,s1,7])
        -> (f32[s0,7,floordiv(s1, s2),s2]) {
    %0 = reshape %x {shape=[s0,s2,floordiv(s1, s2),7], proven=true} : f32[s0,s2,floordiv(s1, s2),7]
    %1 = transpose %0 {perm=[0,3,2,1]} : f32[s0,7,floordiv(s1, s2),s2]
    %2 = neg %1 : f32[s0,7,floordiv(s1, s2),s2]
    return %2
  })",
                 .symbols = {3, 12, 6}});
}

TEST(GenerateElementwise, remainders_of_f64) {
  for (const char* op : {"fmod", "remainder", "floor_div"})
    run_tile_case(
        {.graph = std::string("graph @d(%x: f64[70], %y: f64[70]) -> (f64[70]) {\n  %0 = ") + op +
                  " %x, %y : f64[70]\n  return %0\n}"});
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
