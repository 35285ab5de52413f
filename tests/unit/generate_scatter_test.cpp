// In-place updates against the graph oracle: the tile program is interpreted on random inputs.
#include "tile_harness.h"

namespace poot::testing {
namespace {

using passes::RequestKind;

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

TEST(GenerateScatter, empty_sizes) {
  for (const char* sizes : {"6 4 0", "6 0 5", "0 0 5"}) {
    const std::string rows(1, sizes[0]), slots(1, sizes[2]), columns(1, sizes[4]);
    const std::string type = "f32[" + rows + "," + columns + "]";
    run_tile_case({.kind = RequestKind::Scatter,
                   .graph = "graph @s(%b: " + type + ", %i: i64[" + slots + "], %x: f32[" + slots +
                            "," + columns + "]) -> (" + type +
                            ") {\n%0 = scatter_update %b, %i, %x {axis=0, fn=\"add\"} : " + type +
                            "\nreturn %0\n}"});
  }
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

}  // namespace
}  // namespace poot::testing
