// Records of whole compiles: there and back, damage refused, and a key for everything that decides
// what a graph compiles to.
#include "compiler/program_cache.h"

#include <set>

#include "support/errors.h"

namespace poot::compiler {
namespace {

constexpr std::string_view kGraph =
    R"(graph @scaled(s0 in [2, 64] hint 4, %x: f32[s0,8]) -> (f32[s0,8]) {
  %0 = mul %x, f32 2 : f32[s0,8]
  return %0
}
)";

Compiled sample() {
  Compiled c;
  c.program.name = "scaled";
  c.program.symbols = {Symbol{{2, 64}, 4}};
  c.program.args = {program::ArgTensor{DType::F32, {Dim::symbol(0), 8}, {8, 1}, false}};
  c.program.origins = {program::Origin{"mul", "model.py:3"}};
  c.report.passes = {{"fuse_row", true, 1.5, 7}};
  c.report.fusions = {{"fuse_pointwise", "fused_mul", 2}};
  c.report.declines = {{"fuse_row", "%3", "two axes"}};
  c.report.numerical_declines = {{"sink", "%4", "rounds"}};
  c.report.plans = {{passes::PlanKind::Library, "mm", "mm", {0}}};
  c.report.contractions = {{"%5", true, "few rows"}};
  c.report.layout_copies = {{"%6", "strides", 4 * Dim::symbol(0)}};
  c.report.dispatches_before = 9;
  c.report.peak_transient_bytes = 4096;
  return c;
}

TEST(ProgramCache, RecordsComeBackWhole) {
  const Compiled made = sample(), back = unpack(pack(made));
  EXPECT_EQ(program::dump(back.program), program::dump(made.program));
  const CompileReport& r = back.report;
  EXPECT_EQ(r.passes.at(0).name, "fuse_row");
  EXPECT_TRUE(r.passes[0].changed);
  EXPECT_EQ(r.passes[0].eqns_after, 7u);
  EXPECT_EQ(r.fusions.at(0).kernel, "fused_mul");
  EXPECT_EQ(r.declines.at(0).reason, "two axes");
  EXPECT_EQ(r.numerical_declines.at(0).value, "%4");
  EXPECT_EQ(r.plans.at(0).kind, passes::PlanKind::Library);
  EXPECT_EQ(r.plans[0].origins, std::vector<uint32_t>{0});
  EXPECT_TRUE(r.contractions.at(0).generated);
  EXPECT_EQ(r.layout_copies.at(0).bytes, 4 * Dim::symbol(0));
  EXPECT_EQ(r.dispatches_before, 9u);
  EXPECT_EQ(r.peak_transient_bytes, 4096);
  EXPECT_EQ(pack(back), pack(unpack(pack(back))));
}

TEST(ProgramCache, DamagedRecordsAreRefused) {
  const std::string good = pack(sample());
  EXPECT_THROW(unpack(""), InvalidGraph);
  EXPECT_THROW(unpack(good + "x"), InvalidGraph);
  for (size_t n = 0; n < good.size(); n += 7) {
    EXPECT_THROW(unpack(std::string_view(good).substr(0, n)), InvalidGraph) << n;
  }
  std::string other = good;
  other[0] ^= 1;  // the version
  EXPECT_THROW(unpack(other), InvalidGraph);
}

TEST(ProgramCache, KeyHoldsWhatDecides) {
  const ir::Graph graph = ir::parse_graph(kGraph);
  const passes::Signature signature = passes::default_signature(graph);
  const Target target = Target::parse("x86-64-v4");
  std::set<Hash128> keys = {program_key(graph, signature, target, {})};
  EXPECT_EQ(keys.count(program_key(ir::parse_graph(graph.str()), signature, target, {})), 1u);
  auto differs = [&](const Hash128& key) { return keys.insert(key).second; };
  EXPECT_TRUE(differs(program_key(graph, signature, Target::parse("x86-64-v3"), {})));
  EXPECT_TRUE(differs(program_key(graph, signature, target, {.fuse = false})));
  EXPECT_TRUE(differs(program_key(graph, signature, target, {.memory_limit_bytes = 1})));
  EXPECT_TRUE(differs(program_key(graph, signature, target, {.freeze = true})));
  EXPECT_TRUE(differs(program_key(graph, signature, target, {.deterministic = false})));
  EXPECT_TRUE(differs(program_key(graph, signature, target, {.training = true})));
  passes::Signature donating = signature;
  donating.donated = {0};
  EXPECT_TRUE(differs(program_key(graph, donating, target, {})));
  std::string text(kGraph);
  text.replace(text.find("f32 2"), 5, "f32 3");
  EXPECT_TRUE(differs(program_key(ir::parse_graph(text), signature, target, {})));
}

}  // namespace
}  // namespace poot::compiler
