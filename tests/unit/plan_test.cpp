// Plans of small graphs: tests/program/*.poot are planned, checked and compared with their goldens;
// what the text cannot say (donation, limits) is tested below.
#include "passes/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "golden.h"
#include "source_dir.h"
#include "support/errors.h"

namespace poot::passes {
namespace {

namespace fs = std::filesystem;
using program::BufferClass;

PlanResult plan_text(std::string_view text, const std::function<void(Signature&)>& adjust = {},
                     Options options = {}, const std::string& target = "x86-64-v4") {
  const ir::Graph graph = ir::parse_graph(text);
  ir::verify_or_throw(graph, ir::Stage::Fused);
  Signature signature = default_signature(graph);
  if (adjust) adjust(signature);
  PassContext context{Target::parse(target), options, {}, {}, {}, {}};
  PlanResult r = plan(graph, signature, context);
  program::check(r.program);
  EXPECT_EQ(r.requests.size(), r.program.kernels.size());
  return r;
}

std::string describe(const PlanResult& r) {
  std::ostringstream out;
  out << program::dump(r.program);
  constexpr std::string_view kinds[] = {"generated", "library", "opaque", "alias", "none"};
  for (const EqnPlan& p : r.plans)
    out << "plan " << p.op << ": " << kinds[static_cast<size_t>(p.kind)]
        << (p.kernel.empty() ? "" : " " + p.kernel) << '\n';
  for (const LayoutCopy& c : r.layout_copies)
    out << "copy of " << c.value << ", " << c.bytes.str() << " bytes: " << c.reason << '\n';
  out << "peak " << r.peak_transient_bytes.str() << " bytes\n";
  for (const KernelRequest& q : r.requests) out << '\n' << q.name << ": " << q.str();
  return out.str();
}

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(source_dir() + "/tests/program")) {
    if (entry.path().extension() == ".poot") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string case_text(const std::string& name) {
  std::ifstream in(source_dir() + "/tests/program/" + name + ".poot");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// "name.target", or "name" for a host.
std::string target_of(const std::string& name) {
  const size_t dot = name.find('.');
  return dot == std::string::npos ? "x86-64-v4" : name.substr(dot + 1);
}

class PlanGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(PlanGolden, IsAsBlessed) {
  const PlanResult r = plan_text(case_text(GetParam()), {}, {}, target_of(GetParam()));
  poot::testing::expect_golden("program/" + GetParam() + ".golden", describe(r));
  const std::string bytes = program::serialize(r.program);
  EXPECT_EQ(program::serialize(program::deserialize(bytes)), bytes);
}
INSTANTIATE_TEST_SUITE_P(Cases, PlanGolden, ::testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

size_t arena_buffers(const PlanResult& r) {
  return static_cast<size_t>(
      std::count_if(r.program.buffers.begin(), r.program.buffers.end(),
                    [](const program::Buffer& b) { return b.cls == BufferClass::Arena; }));
}
bool mutated(const PlanResult& r, size_t arg) {
  return std::get<program::ArgTensor>(r.program.args[arg]).mutated;
}

// x is dead after the exp: its memory holds the transient when the caller gave it away.
constexpr std::string_view kChain = R"(
graph @chain(%x: f32[8], %w: f32[8]) -> (f32[1]) {
  %0 = exp %x : f32[8]
  %1 = reduce_sum %0 {axes=[0], keepdim=true} : f32[1]
  return %1
}
)";

TEST(Plan, DonatedArgumentIsReused) {
  const PlanResult plain = plan_text(kChain);
  EXPECT_EQ(arena_buffers(plain), 1u);
  EXPECT_FALSE(mutated(plain, 0));
  const PlanResult donated = plan_text(kChain, [](Signature& s) { s.donated = {0}; });
  EXPECT_EQ(arena_buffers(donated), 0u);
  EXPECT_TRUE(mutated(donated, 0));
  EXPECT_FALSE(mutated(donated, 1));
}

TEST(Plan, DonatedArgumentIsNotShown) {
  const PlanResult r = plan_text(
      "graph @g(%x: f32[4,8]) -> (f32[8,4] layout([1,8])) {\n"
      "  %0 = transpose %x {perm=[1,0]} : f32[8,4]\n  return %0\n}\n",
      [](Signature& s) { s.donated = {0}; });
  ASSERT_EQ(r.layout_copies.size(), 1u);
  EXPECT_EQ(r.program.buffers.back().cls, BufferClass::Output);
}

// %0 is what the graph made of y and y.clone(): equal values, two tensors.
TEST(Plan, ResultsOfTwoBasesDoNotShareMemory) {
  constexpr std::string_view text =
      "graph @g(%x: f32[8]) -> (f32[8], f32[8], f32[8]) {\n"
      "  %0 = exp %x : f32[8]\n  return %0, %0, %x\n}\n";
  const PlanResult shared = plan_text(text);
  EXPECT_TRUE(shared.layout_copies.empty());
  const PlanResult apart = plan_text(text, [](Signature& s) {
    s.results[1].base = 99;
    s.results[2].of_argument = false;
  });
  EXPECT_EQ(apart.layout_copies.size(), 2u);
  std::set<uint32_t> buffers;
  for (const program::Result& r : apart.program.results) {
    const program::ViewId v = std::get<program::ResultView>(r).view;
    buffers.insert(apart.program.views[v.index].buffer.index);
  }
  EXPECT_EQ(buffers.size(), 3u);
}

TEST(Plan, MemoryLimit) {
  Options tight;
  tight.memory_limit_bytes = 35;
  EXPECT_THROW(plan_text(kChain, {}, tight), Unsupported);  // 32 transient, 4 of the result
  tight.memory_limit_bytes = 36;
  EXPECT_NO_THROW(plan_text(kChain, {}, tight));
}

TEST(Plan, EqualRegionsShareAKernel) {
  const PlanResult r = plan_text(R"(
graph @g(%x: f32[8], %y: f32[8]) -> (f32[8], f32[8], f32[8]) {
  %0 = exp %x : f32[8]
  %1 = exp %y : f32[8]
  %2 = log %y : f32[8]
  return %0, %1, %2
}
)");
  EXPECT_EQ(r.requests.size(), 2u);
  EXPECT_EQ(r.program.segments.size(), 1u);
  EXPECT_EQ(r.program.segments[0].launches.size(), 3u);
}

TEST(Plan, ConstantsAreWrittenOnce) {
  const ir::Graph graph = ir::parse_graph(R"(
graph @g(%x: f32[2], %c: f32[2] const) -> (f32[2], f32[2]) {
  %0 = add %x, %c : f32[2]
  return %0, %c
}
)");
  Signature s;
  s.args.push_back({SignatureArg::Kind::Tensor, graph.inputs()[0], {}});
  s.constants.push_back({graph.inputs()[1], std::string("\0\0\x80\x3f\0\0\0\x40", 8)});
  s.results = {{SignatureResult::Kind::Tensor, 0, {}}, {SignatureResult::Kind::Tensor, 1, {}}};
  const Target target = Target::parse("x86-64-v3");
  PassContext context{target, {}, {}, {}, {}, {}};
  const PlanResult r = plan(graph, s, context);
  program::check(r.program);
  EXPECT_EQ(r.program.buffers[1].cls, BufferClass::Const);
  const auto& shown = std::get<program::ResultView>(r.program.results[1]);
  const program::BufferId b = r.program.views[shown.view.index].buffer;
  EXPECT_EQ(r.program.buffers[b.index].cls, BufferClass::Output) << "a constant is copied out";
}

// One launch per equation and time linear in the graph: 4000 equations plan in well under a second
// even when built without optimisation.
TEST(Plan, LongChains) {
  ir::Builder b("chain");
  ir::ValueId v = b.input({DType::F32, {64}});
  const ir::ValueId w = b.input({DType::F32, {64}});
  for (int i = 0; i < 4000; ++i) v = b.emit(ir::OpCode::add, {v, w});
  b.output(v);
  const ir::Graph graph = b.finish();
  const Target target = Target::parse("x86-64-v4");
  PassContext context{target, {}, {}, {}, {}, {}};
  const PlanResult r = plan(graph, default_signature(graph), context);
  program::check(r.program);
  EXPECT_EQ(r.program.segments[0].launches.size(), 4000u);
  EXPECT_LE(r.program.buffers.size(), 5u);  // one transient, reused all along
}

}  // namespace
}  // namespace poot::passes
