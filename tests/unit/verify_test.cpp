// The verifier on tables that no builder or parser would make, its completeness and its cost.
#include "ir/verify.h"

#include <gtest/gtest.h>

#include "ir/graph_tables.h"

namespace poot::ir {
namespace {

Graph sample() {
  return parse_graph(
      "graph @g(%x: f32[4], %s: f32[4]) -> (f32[4], f32[4] state_next(%s)) {\n"
      "  %0 = neg %x\n  %1 = add %0, %s\n  return %0, %1\n}");
}

std::vector<std::string> ids(const Graph& g, Stage stage = Stage::Imported) {
  std::vector<std::string> out;
  for (const Violation& v : verify(g, stage)) out.push_back(v.constraint);
  return out;
}

using Ids = std::vector<std::string>;

TEST(Verify, IdsOutsideTheTable) {
  Graph g = sample();
  GraphTables::eqns(g)[1].inputs[0] = ValueId(77);
  EXPECT_EQ(ids(g), Ids{"ssa-C3"});
  EXPECT_NE(g.str().find("%?"), std::string::npos);
}

TEST(Verify, StageTable) {
  const Graph g = parse_graph(
      "graph @g(%x: f32[4]) -> () { %0 = fused %x body(%a0: f32[4]) { %0 = neg %a0 return %0 } "
      "return }");
  EXPECT_EQ(ids(g, Stage::Imported), Ids{"stage-C1"});
  EXPECT_EQ(ids(g, Stage::Canonical), Ids{"stage-C1"});
  EXPECT_EQ(ids(g, Stage::Fused), Ids{});
}

TEST(Verify, LostStatePairsAndOutputs) {
  Graph g = sample();
  GraphTables::outputs(g)[1].state_input = {};
  GraphTables::outputs(g)[0].value = {};
  EXPECT_EQ(ids(g), (Ids{"output-C1", "output-C1"}));
  g = sample();
  GraphTables::outputs(g)[1].state_input = g.eqns()[0].outs[0];
  EXPECT_EQ(ids(g), Ids{"output-C1"});
  g = sample();
  GraphTables::outputs(g)[0].state_input = g.inputs()[1];
  EXPECT_EQ(ids(g), Ids{"output-C1"});
}

TEST(Verify, ABodyHasItsParentsSymbols) {
  Graph g = parse_graph(
      "graph @g(s0 in [1, 9] hint 2, %x: f32[4]) -> () { %0 = fused %x body(%a0: f32[4]) { "
      "%0 = neg %a0 return %0 } return }");
  GraphTables::symbols(g)[0].range.hi = 8;
  EXPECT_EQ(ids(g, Stage::Fused), Ids{"region-C1"});
}

TEST(Verify, ReportsAllViolationsInOrder) {
  Graph g = sample();
  GraphTables::values(g)[0].type.shape = {Dim(-4)};
  GraphTables::eqns(g)[0].attrs = {int64_t{1}};
  std::swap(GraphTables::eqns(g)[0], GraphTables::eqns(g)[1]);
  EXPECT_EQ(ids(g), (Ids{"type-C1", "ssa-C2", "eqn-C2"}));
  try {
    verify_or_throw(g);
    FAIL();
  } catch (const InvalidGraph& e) {
    EXPECT_EQ(e.constraint(), "type-C1");
    EXPECT_NE(e.detail().find("(and 2 more)"), std::string::npos) << e.what();
  }
}

TEST(Verify, MessagesShowTheEquation) {
  Graph g = sample();
  GraphTables::eqns(g)[1].op = OpCode::bit_and;
  try {
    verify_or_throw(g);
    FAIL();
  } catch (const InvalidGraph& e) {
    EXPECT_EQ(e.where(), "%1");
    EXPECT_NE(e.detail().find("> %1 = bit_and %0, %s : f32[4]"), std::string::npos) << e.what();
  }
}

// A chain in which every value has two readers: work per path instead of per equation would not
// end.
TEST(Verify, SharedChainVerifiesAndRoundTrips) {
  Builder b("chain", {{{1, 64}, 8}});
  ValueId x = b.input({DType::F32, {Dim::symbol(0), 128}}), y = x;
  for (int i = 0; i < 4000; ++i) {
    const ValueId z = b.emit(OpCode::add, {x, y});
    x = y;
    y = z;
  }
  b.output(y);
  Graph g = b.finish();
  EXPECT_TRUE(verify(g).empty());
  GraphEdit edit(g);
  edit.commit();
  const std::string text = g.str();
  EXPECT_EQ(parse_graph(text).str(), text);
}

}  // namespace
}  // namespace poot::ir
