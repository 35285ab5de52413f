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
  EXPECT_EQ(lowered(sized(kResidualRms, 64, 4096), RequestKind::Row).threads, 128u);
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

TEST(LowerGpu, layout_of_threads) {
  using codegen::gpu_threads;
  const auto is = [](codegen::GpuThreads t, uint32_t rows, uint32_t columns) {
    EXPECT_EQ(t.rows, rows);
    EXPECT_EQ(t.columns, columns);
    EXPECT_EQ(t.count() % 32, 0u);
  };
  is(gpu_threads(1, 2048, 8, false), 1, 256);
  is(gpu_threads(1000, 24, 8, false), 64, 4);
  is(gpu_threads(1, 3, 1, false), 1, 32);
  is(gpu_threads(1000, 64, 4, true), 8, 16);
  is(gpu_threads(1000, 512, 8, true), 4, 32);
  is(gpu_threads(1000, 4096, 8, true), 1, 128);
  is(gpu_threads(1000, 131072, 8, true), 1, 512);
  is(gpu_threads(1000, 1 << 30, 8, true), 1, 256);
  EXPECT_EQ(codegen::gpu_vector(2), 8u);
  EXPECT_EQ(codegen::gpu_vector(4), 4u);
  EXPECT_EQ(codegen::gpu_vector(1), 8u);
  EXPECT_EQ(codegen::gpu_vector(8), 2u);
}

}  // namespace
}  // namespace poot::testing
