// Every region that the fusion goldens contain goes through its generator: the tile program and its
// lowering compute what the oracle computes from the region's body. So fusion forms no region that
// code generation refuses or misreads.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "passes/pass.h"
#include "source_dir.h"
#include "tile_harness.h"

namespace poot::testing {
namespace {

passes::RequestKind request_kind(ir::OpCode op) {
  switch (op) {
    case ir::OpCode::fused_row:
      return passes::RequestKind::Row;
    case ir::OpCode::fused_reduce:
      return passes::RequestKind::Reduce;
    case ir::OpCode::fused_contraction:
      return passes::RequestKind::Contraction;
    default:
      return passes::RequestKind::Elementwise;
  }
}

// The graphs after "# =>" lines of a golden file.
std::vector<ir::Graph> expected_graphs(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<ir::Graph> graphs;
  std::string text;
  bool expected = false;
  const auto close = [&] {
    if (expected && !text.empty()) graphs.push_back(ir::parse_graph(text));
    text.clear();
    expected = false;
  };
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("# case") || line.starts_with("# =>")) {
      close();
      expected = line.starts_with("# =>");
    } else if (expected && !line.starts_with("#")) {
      text += line + "\n";
    }
  }
  close();
  return graphs;
}

double tolerance(const ir::Graph& body) {
  double most = 2e-5;
  for (const ir::Eqn& e : body.eqns())
    for (const ir::ValueId v : e.outs) {
      if (body.type(v).dtype == DType::F16) most = std::max(most, 4e-3);
      if (body.type(v).dtype == DType::BF16) most = std::max(most, 3e-2);
    }
  return most;
}

// Runs each region of the graph that was not met before; returns how many.
size_t run_regions(const ir::Graph& graph, std::set<std::string>& met) {
  size_t regions = 0;
  for (const ir::Eqn& e : graph.eqns()) {
    if (!e.body || !met.insert(e.body->str()).second) continue;
    TileCase c{.kind = request_kind(e.op), .graph = e.body->str()};
    for (const Symbol& s : graph.symbols()) c.symbols.push_back(s.hint);
    c.int_lo = 0;
    c.int_hi = 1;
    c.tolerance = tolerance(*e.body);
    run_tile_case(c);
    ++regions;
  }
  return regions;
}

TEST(RegionCodegen, GoldenRegionsComputeTheirBodies) {
  const std::filesystem::path folder = source_dir() + "/tests/passes";
  size_t regions = 0;
  std::set<std::string> met;
  for (const char* pass :
       {"fuse_row", "fuse_reduce", "fuse_contraction", "fuse_pointwise", "rematerialize"})
    for (const ir::Graph& graph : expected_graphs(folder / (std::string(pass) + ".poot")))
      regions += run_regions(graph, met);
  EXPECT_GT(regions, 20u);
}

// The demo models' graphs, as the front end imports them at a tiny size (tests/torch/
// test_demo_graphs.py keeps the files true), through all passes.
TEST(RegionCodegen, DemoModelsComputeTheirBodies) {
  const std::filesystem::path folder = source_dir() + "/tests/codegen/models";
  size_t models = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(file.path().filename().string());
    std::ifstream in(file.path());
    std::stringstream text;
    text << in.rdbuf();
    ir::Graph graph = ir::parse_graph(text.str());
    const Target target = Target::parse("x86-64-v4");
    passes::PassContext context{target, {}, {}, {}, {}, {}};
    passes::run_passes(graph, context);
    std::set<std::string> met;
    EXPECT_GT(run_regions(graph, met), 2u);
    ++models;
  }
  EXPECT_EQ(models, 12u);
}

}  // namespace
}  // namespace poot::testing
