// Splitting undoes fusion without changing what the graph computes.
#include <gtest/gtest.h>

#include <cstring>

#include "compiler/split_regions.h"
#include "ir/oracle.h"

namespace poot::compiler {
namespace {

constexpr std::string_view kText = R"(
graph @g(s0 in [2, inf] hint 3, %x: f32[s0,4], %y: f32[s0,4]) -> (f32[s0,4], f32[s0], f32[s0,4]) {
  %0, %1 = fused %x, %y body(%a0: f32[s0,4], %a1: f32[s0,4]) {
    %0 = add %a0, %a1 : f32[s0,4]
    %1 = mul %0, f32 0.5 : f32[s0,4]
    return %1, %0
  } : f32[s0,4], f32[s0,4] loc(0)
  %2 = fused_row %0 {axes=1} body(%a0: f32[s0,4]) {
    %0 = reduce_sum %a0 {axes=[1], keepdim=false} : f32[s0]
    %1 = neg %0 : f32[s0]
    return %1
  } : f32[s0]
  origin 0 "add" "model.py:1"
  return %0, %2, %1
}
)";

std::vector<ir::HostArray> run(const ir::Graph& graph) {
  const std::vector<int64_t> symbols = {3};
  std::vector<ir::HostArray> in(2, ir::HostArray::zeros(DType::F32, {3, 4}));
  for (size_t k = 0; k < 2; ++k) {
    for (int64_t i = 0; i < 12; ++i) {
      const float f = 0.25f * static_cast<float>(i) - static_cast<float>(k);
      uint32_t bits;
      std::memcpy(&bits, &f, 4);
      in[k].set_bits(i, bits);
    }
  }
  return ir::evaluate(graph, in, symbols);
}

TEST(PlanSplit, KeepsTheMeaning) {
  const ir::Graph fused = ir::parse_graph(kText);
  const auto expected = run(fused);
  for (const std::vector<bool>& split :
       {std::vector<bool>{true, false}, {false, true}, {true, true}}) {
    ir::Graph graph = fused;
    split_regions(graph, split);
    ir::verify_or_throw(graph, ir::Stage::Fused);
    EXPECT_EQ(graph.eqns().size(), 2u + (split[0] ? 1 : 0) + (split[1] ? 1 : 0));
    const auto got = run(graph);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(got[i].data, expected[i].data);
    for (const ir::Eqn& e : graph.eqns()) {
      if (e.op == ir::OpCode::add) {
        EXPECT_EQ(e.origins, std::vector<uint32_t>{0});
      }
    }
  }
}

TEST(PlanSplit, NothingToSplitLeavesTheGraph) {
  ir::Graph graph = ir::parse_graph(kText);
  const std::string before = graph.str();
  split_regions(graph, {false, false});
  EXPECT_EQ(graph.str(), before);
}

}  // namespace
}  // namespace poot::compiler
