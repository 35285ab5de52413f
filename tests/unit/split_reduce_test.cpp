// Reductions in two kernels: what is split, and that parts and totals together give what the oracle
// gives for the whole, for the tile programs and their lowerings.
#include "passes/split_reduce.h"

#include "tile_harness.h"

namespace poot::testing {
namespace {

using passes::split_reduction;

std::optional<passes::SplitReduction> split(const std::string& text) {
  return split_reduction(ir::parse_graph(text), Target::parse("x86-64-v3"));
}

// Runs the parts' tile program (and its lowerings), then the oracle on the totals.
void run_split(const std::string& text, std::vector<int64_t> symbols = {},
               std::vector<std::pair<size_t, ir::Layout>> layouts = {}, double tolerance = 1e-4,
               const char* target = "x86-64-v3") {
  SCOPED_TRACE(text);
  const ir::Graph body = ir::parse_graph(text);
  const auto s = split_reduction(body, Target::parse(target));
  ASSERT_TRUE(s);
  TileCase c{.kind = passes::RequestKind::Reduce,
             .graph = s->partial->str(),
             .symbols = symbols,
             .inputs = std::move(layouts),
             .tolerance = tolerance};
  passes::KernelRequest request = make_request(c);
  request.parts = s->parts;
  const int64_t parts = s->parts.eval(symbols);
  const tile::Program program = codegen::generate(request, Target::parse("x86-64-v4"));
  SCOPED_TRACE(program.str());

  std::mt19937_64 rng(3);
  std::vector<ir::HostArray> arrays, partials;
  std::vector<std::vector<std::byte>> before;
  for (size_t i = 0; i < body.inputs().size(); i++) {
    const ir::TensorType& type = body.type(body.inputs()[i]);
    arrays.push_back(random_array(type, c, rng));
    Memory memory(type, request.inputs[i], symbols);
    memory.put(arrays.back());
    before.push_back(memory.bytes);
  }
  for (const ir::GraphOutput& o : s->partial->outputs()) {
    const ir::TensorType& type = s->partial->type(o.value);
    std::vector<int64_t> shape{parts};
    for (const Dim& d : type.shape) shape.push_back(d.eval(symbols));
    partials.push_back(ir::HostArray::zeros(type.dtype, shape));
    before.emplace_back(partials.back().data.size(), std::byte{0xA5});
  }
  std::vector<std::vector<std::byte>> after = before;
  std::vector<std::span<std::byte>> spans;
  for (auto& bytes : after) spans.emplace_back(bytes);
  const uint32_t status = tile::interpret(program, spans, symbols);
  EXPECT_EQ(status, 0u);
  check_lowered(program, c, before, spans, status);
  for (size_t i = 0; i < partials.size(); i++)
    std::memcpy(partials[i].data.data(), after[arrays.size() + i].data(), partials[i].data.size());
  for (const uint32_t i : s->operands) partials.push_back(arrays[i]);
  const auto got = ir::evaluate(*s->total, partials, symbols);
  const auto want = ir::evaluate(body, arrays, symbols);
  for (size_t i = 0; i < want.size(); i++)
    expect_equal(got[i], want[i], c, "result " + std::to_string(i));
}

TEST(SplitReduce, leaves_what_is_small_or_has_many_results) {
  EXPECT_FALSE(split(R"(graph @g(%x: f32[4096]) -> (f32[]) {
    %0 = reduce_sum %x {axes=[0], keepdim=false} : f32[]
    return %0
  })"));
  EXPECT_FALSE(split(R"(graph @g(%x: f32[512,4096]) -> (f32[512]) {
    %0 = reduce_sum %x {axes=[1], keepdim=false} : f32[512]
    return %0
  })"));
  EXPECT_FALSE(split(R"(graph @g(%x: f32[4096,2048]) -> (f32[2048]) {
    %0 = reduce_sum %x {axes=[0], keepdim=false} : f32[2048]
    return %0
  })"));
}

TEST(SplitReduce, leaves_a_reduction_of_a_reduction) {
  EXPECT_FALSE(split(R"(graph @g(%x: f32[1000000]) -> (f32[1]) {
    %0 = reduce_max %x {axes=[0], keepdim=true} : f32[1]
    %1 = sub %x, %0 : f32[1000000]
    %2 = reduce_sum %1 {axes=[0], keepdim=true} : f32[1]
    return %2
  })"));
}

TEST(SplitReduce, leaves_sequential_sums) {
  const auto sum = [](const std::string& order) {
    return "graph @g(%x: f32[100000,8]) -> (f32[8]) {\n"
           "  %0 = mul %x, %x : f32[100000,8]\n"
           "  %1 = reduce_sum %0 {axes=[0], keepdim=false, order=\"" +
           order + "\"} : f32[8]\n  return %1\n}";
  };
  EXPECT_TRUE(split(sum("cascade")));
  EXPECT_FALSE(split(sum("sequential")));
  EXPECT_FALSE(split(sum("sequential_fma")));
}

TEST(SplitReduce, partial_sums_have_the_accumulating_dtype) {
  const auto s = split(R"(graph @g(%x: bf16[1000000]) -> (bf16[], bf16[]) {
    %0 = reduce_sum %x {axes=[0], keepdim=false} : bf16[]
    %1 = reduce_max %x {axes=[0], keepdim=false} : bf16[]
    return %0, %1
  })");
  ASSERT_TRUE(s);
  EXPECT_TRUE(s->parts.is_const(31));
  const auto dtype = [&](size_t i) {
    return s->partial->type(s->partial->outputs()[i].value).dtype;
  };
  EXPECT_EQ(dtype(0), DType::F32);
  EXPECT_EQ(dtype(1), DType::BF16);
}

TEST(SplitReduce, one_number_from_all) {
  run_split(R"(graph @g(%x: f32[70001], %y: f32[70001]) -> (f32[], f32[]) {
    %0 = sub %x, %y : f32[70001]
    %1 = mul %0, %0 : f32[70001]
    %2 = reduce_sum %1 {axes=[0], keepdim=false} : f32[]
    %3 = div %2, f32 70001 : f32[]
    %4 = reduce_max %x {axes=[0], keepdim=false} : f32[]
    return %3, %4
  })");
}

TEST(SplitReduce, symbolic_length) {
  for (const int64_t n : {0, 1, 5000, 33000, 70000})
    run_split(R"(graph @g(s0 in [0, inf] hint 100000, %x: f32[s0]) -> (f32[1], i64[1]) {
      %0 = reduce_sum %x {axes=[0], keepdim=true} : f32[1]
      %1 = gt %x, f32 0 : bool[s0]
      %2 = cast %1 {to=i64} : i64[s0]
      %3 = reduce_sum %2 {axes=[0], keepdim=true} : i64[1]
      return %0, %3
    })",
              {n});
}

TEST(SplitReduce, few_rows_and_strided_memory) {
  const char* graph = R"(graph @g(%x: f32[3,500,64], %w: f32[3]) -> (f32[3]) {
    %0 = reduce_sum %x {axes=[1,2], keepdim=false} : f32[3]
    %1 = mul %0, %w : f32[3]
    return %1
  })";
  run_split(graph);
  run_split(graph, {}, {{0, {{64, 200, 1}, 0, 4}}});
}

TEST(SplitReduce, a_gpu_folds_rows_of_few_columns) {
  const char* graph = R"(graph @g(%x: bf16[4096,64], %w: f32[64]) -> (f32[1,64], f32[1,64]) {
    %0 = cast %x {to=f32} : f32[4096,64]
    %1 = reduce_sum %0 {axes=[0], keepdim=true} : f32[1,64]
    %2 = mul %1, %w : f32[1,64]
    %3 = reduce_max %0 {axes=[0], keepdim=true} : f32[1,64]
    return %2, %3
  })";
  const auto s = split_reduction(ir::parse_graph(graph), Target::parse("sm_90a"));
  ASSERT_TRUE(s);
  EXPECT_EQ(s->partial->type(s->partial->outputs()[0].value).shape, (Shape{16, 64}));
  run_split(graph, {}, {}, 1e-4, "sm_90a");
  run_split(graph, {}, {{0, {{70, 1}, 3, 2}}}, 1e-4, "sm_90a");
}

TEST(SplitReduce, a_narrow_matrix_by_its_rows) {
  run_split(R"(graph @g(%x: f32[9000,9]) -> (f32[9], f32[1,9]) {
    %0 = reduce_sum %x {axes=[0], keepdim=false} : f32[9]
    %1 = reduce_min %x {axes=[0], keepdim=true} : f32[1,9]
    return %0, %1
  })");
}

}  // namespace
}  // namespace poot::testing
