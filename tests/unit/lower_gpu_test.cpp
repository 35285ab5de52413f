// Kernels of a GPU against the tile interpreter and the oracle (run_tile_case lowers every case of
// the generators' tests too), the layout of threads, and what is refused.
#include "codegen/lower/gpu_threads.h"
#include "tile_harness.h"

namespace poot::testing {
namespace {

using passes::RequestKind;

std::string sized(std::string text, int64_t rows, int64_t columns) {
  for (const auto& [from, to] : {std::pair{"R", rows}, std::pair{"C", columns}})
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;)
      text.replace(at, 1, std::to_string(to));
  return text;
}

const char* kResidualRms = R"(graph @rms(%x: bf16[R,C], %r: bf16[R,C], %w: bf16[C])
    -> (bf16[R,C], bf16[R,C]) {
  %0 = add %x, %r : bf16[R,C]
  %1 = cast %0 {to=f32} : f32[R,C]
  %2 = mul %1, %1 : f32[R,C]
  %3 = reduce_sum %2 {axes=[1], keepdim=true} : f32[R,1]
  %4 = div %3, f32 512.0 : f32[R,1]
  %5 = add %4, f32 1e-05 : f32[R,1]
  %6 = rsqrt %5 : f32[R,1]
  %7 = mul %1, %6 : f32[R,C]
  %8 = cast %7 {to=bf16} : bf16[R,C]
  %9 = mul %8, %w : bf16[R,C]
  return %9, %0
})";

// A warp, several warps in registers with and without a last partial vector, streamed rows.
TEST(LowerGpu, residual_rms_norm) {
  for (const int64_t columns : {8, 40, 256, 513, 1024, 1032, 17000})
    run_tile_case(
        {.kind = RequestKind::Row, .graph = sized(kResidualRms, 3, columns), .tolerance = 0.02});
}

TEST(LowerGpu, rows_beyond_the_last_are_left_alone) {
  for (const int64_t rows : {1, 2, 7, 8, 9, 33})
    run_tile_case(
        {.kind = RequestKind::Row, .graph = sized(kResidualRms, rows, 24), .tolerance = 0.02});
}

kir::Kernel lowered(const std::string& graph, RequestKind kind) {
  const Target gpu = Target::parse("sm_90a");
  return codegen::lower(codegen::generate(make_request({.kind = kind, .graph = graph}), gpu), gpu);
}

TEST(LowerGpu, kernels_have_no_arrays_of_a_thread) {
  for (const int64_t columns : {24, 4096, 100000}) {
    const kir::Kernel k = lowered(sized(kResidualRms, 64, columns), RequestKind::Row);
    for (const kir::Object& o : k.objects) EXPECT_NE(o.kind, kir::ObjectKind::Private) << o.name;
    EXPECT_EQ(k.isa, Isa::Ptx);
  }
  EXPECT_EQ(lowered(sized(kResidualRms, 64, 4096), RequestKind::Row).threads, 512u);
}

TEST(LowerGpu, small_kernels_overlap_the_one_before) {
  Target gpu = Target::parse("sm_90a");
  const auto overlaps = [&](Dim rows) {
    tile::Program p = codegen::generate(
        make_request({.kind = RequestKind::Row, .graph = sized(kResidualRms, 64, 4096)}), gpu);
    p.grid[0] = rows;
    return codegen::lower(p, gpu).dependent;
  };
  EXPECT_FALSE(overlaps(64)) << "a target that does not ask for it";
  gpu.overlapped_blocks = 64;
  EXPECT_TRUE(overlaps(64));
  EXPECT_FALSE(overlaps(65));
  EXPECT_FALSE(overlaps(Dim::symbol(0))) << "of unknown size";
}

// Each thread adds up its own columns in registers.
TEST(LowerGpu, tiles_carried_by_loops_are_registers) {
  const tile::Program p = tile::parse_program(R"(tile @across {
  buffer in0 f32 align 4
  buffer out0 f32 align 4 out
  grid "1" "1" "1"
  elems 64
  axis c 64 = 64
  %0 = constant f32 0 : f32[c]
  for %1 = 0 to 9 carry (%2 = %0) {
    %3 = load in0[c + %1*64] : f32[c]
    %4 = add %2, %3 : f32[c]
    yield %4
  } -> %5
  store out0[c] %5
}
)");
  const std::string text = codegen::lower(p, Target::parse("sm_90a")).str();
  EXPECT_EQ(text.find(" private "), std::string::npos) << text;
  EXPECT_NE(text.find("f32x4"), std::string::npos) << text;
}

const char* kSoftmaxParts = R"(graph @parts(%x: DT[R,C]) -> (f32[R,1], f32[R,1], f32[R,C]) {
  %0 = cast %x {to=f32} : f32[R,C]
  %1 = reduce_max %0 {axes=[1], keepdim=true} : f32[R,1]
  %2 = sub %0, %1 : f32[R,C]
  %3 = exp %2 : f32[R,C]
  %4 = reduce_sum %3 {axes=[1], keepdim=true} : f32[R,1]
  %5 = div %3, %4 : f32[R,C]
  return %1, %4, %5
})";

std::string softmax_parts(const char* dtype, int64_t columns) {
  std::string text = sized(kSoftmaxParts, 2, columns);
  return text.replace(text.find("DT"), 2, dtype);
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++n;
  return n;
}

// Rows that are streamed: whole rounds, halves of rounds, single vectors and elements after them.
TEST(LowerGpu, largest_element_and_sum_of_powers_share_a_walk) {
  for (const int64_t columns : {33000, 36864, 40003, 70001})
    run_tile_case({.kind = RequestKind::Row,
                   .graph = softmax_parts(columns % 2 ? "f32" : "bf16", columns),
                   .tolerance = 1e-4});
  const std::string text = lowered(softmax_parts("bf16", 65536), RequestKind::Row).str();
  EXPECT_EQ(count(text, "\n  for "), 2u) << text;
}

TEST(LowerGpu, rows_of_minus_infinity_and_unknown_length) {
  run_tile_case({.kind = RequestKind::Row,
                 .graph = R"(
    graph @masked(%x: f32[3,40000]) -> (f32[3,1]) {
      %0 = lt %x, f32 0.5 : bool[3,40000]
      %1 = select %0, f32 -inf, %x : f32[3,40000]
      %2 = reduce_max %1 {axes=[1], keepdim=true} : f32[3,1]
      %3 = sub %1, %2 : f32[3,40000]
      %4 = exp %3 : f32[3,40000]
      %5 = reduce_sum %4 {axes=[1], keepdim=true} : f32[3,1]
      return %5
    })",
                 .tolerance = 1e-4});
  for (const int64_t columns : {1, 7, 5000, 20011})
    run_tile_case({.kind = RequestKind::Row,
                   .graph = R"(
    graph @any(s0 in [1, inf] hint 20000, %x: bf16[2,s0]) -> (f32[2,1]) {
      %0 = cast %x {to=f32} : f32[2,s0]
      %1 = reduce_max %0 {axes=[1], keepdim=true} : f32[2,1]
      %2 = sub %0, %1 : f32[2,s0]
      %3 = exp %2 : f32[2,s0]
      %4 = reduce_sum %3 {axes=[1], keepdim=true} : f32[2,1]
      return %4
    })",
                   .symbols = {columns},
                   .tolerance = 1e-4});
}

// A warp a row, no barrier: all that is exchanged is exchanged within it.
TEST(LowerGpu, a_warp_takes_a_row_of_a_product) {
  const std::string graph = R"(
    graph @linear(%x: bf16[1,2048], %w: bf16[64,2048], %r: bf16[1,64]) -> (bf16[1,64]) {
      %0 = transpose %w {perm=[1,0]} : bf16[2048,64]
      %1 = matmul %x, %0 : bf16[1,64]
      %2 = add %1, %r : bf16[1,64]
      return %2
    })";
  const kir::Kernel k = lowered(graph, RequestKind::Contraction);
  EXPECT_EQ(k.threads, 128u);
  EXPECT_EQ(k.str().find("barrier"), std::string::npos);
  run_tile_case({.kind = RequestKind::Contraction, .graph = graph, .tolerance = 0.02});
}

TEST(LowerGpu, sums_and_products_of_bf16_stay_two_a_register) {
  const std::string graph = R"(
    graph @packed(%x: bf16[4096], %y: bf16[4096]) -> (bf16[4096]) {
      %0 = mul %x, %y : bf16[4096]
      %1 = neg %0 : bf16[4096]
      %2 = sub %1, %x : bf16[4096]
      %3 = abs %2 : bf16[4096]
      %4 = add %3, %y : bf16[4096]
      return %4
    })";
  const std::string text = lowered(graph, RequestKind::Elementwise).str();
  for (const char* op : {"hmul", "hneg", "hsub", "habs", "hadd"})
    EXPECT_EQ(count(text, op), 1u) << text;
  run_tile_case({.kind = RequestKind::Elementwise, .graph = graph});
  const Target old = Target::parse("sm_80");
  const std::string wide =
      codegen::lower(codegen::generate(make_request({.graph = graph}), old), old).str();
  EXPECT_EQ(wide.find("hadd"), std::string::npos);
}

TEST(LowerGpu, layout_of_threads) {
  using codegen::gpu_threads;
  const auto is = [](codegen::GpuThreads t, uint32_t rows, uint32_t columns) {
    EXPECT_EQ(t.rows, rows);
    EXPECT_EQ(t.columns, columns);
    EXPECT_EQ(t.count() % 32, 0u);
  };
  is(gpu_threads(1, 2048, 8, 0), 1, 256);
  is(gpu_threads(85, 24, 8, 0), 64, 4);
  is(gpu_threads(1, 3, 1, 0), 1, 32);
  is(gpu_threads(1000, 64, 4, 1), 8, 16);
  is(gpu_threads(1000, 512, 8, 2), 4, 32);
  is(gpu_threads(64, 64, 8, 0), 64, 8);
  is(gpu_threads(1, 4096, 8, 1), 1, 512);
  is(gpu_threads(1, 4096, 8, 2), 1, 128);
  is(gpu_threads(1, 32768, 8, 2), 1, 512);
  is(gpu_threads(1, 131072, 8, 2), 1, 256);
  is(gpu_threads(1, 1 << 30, 8, 2), 1, 256);
  is(gpu_threads(4, 4096, 8, 2), 4, 32);
  EXPECT_FALSE(codegen::gpu_row_alone(512, 8));
  EXPECT_TRUE(codegen::gpu_row_alone(520, 8));
  EXPECT_EQ(codegen::gpu_vector(2), 8u);
  EXPECT_EQ(codegen::gpu_vector(4), 4u);
  EXPECT_EQ(codegen::gpu_vector(1), 8u);
  EXPECT_EQ(codegen::gpu_vector(8), 2u);
}

}  // namespace
}  // namespace poot::testing
