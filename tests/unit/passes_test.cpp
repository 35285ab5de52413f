// The runner's switches, and what the fusion passes promise about size and time.
#include "passes/pass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "passes/fusion_cost.h"
#include "passes/iteration_space.h"

namespace poot::passes {
namespace {

const Target& test_target() {
  static const Target target;
  return target;
}

ir::TensorType f32(Shape shape) {
  return {DType::F32, std::move(shape)};
}

// x[n] = x[n-1] + x[n-2]: every value is read twice.
ir::Graph fibonacci(int steps) {
  ir::Builder b("fibonacci");
  ir::ValueId a = b.input(f32({64})), c = b.input(f32({64}));
  for (int i = 0; i < steps; ++i) {
    const ir::ValueId next = b.emit(i % 2 ? ir::OpCode::mul : ir::OpCode::add, {a, c});
    a = c;
    c = next;
  }
  b.output(c);
  return b.finish();
}

ir::Graph chain(int steps) {
  ir::Builder b("chain");
  const ir::ValueId x = b.input(f32({64}));
  ir::ValueId v = x;
  for (int i = 0; i < steps; ++i)
    v = b.emit(i % 3 ? ir::OpCode::add : ir::OpCode::sub, {v, i % 5 ? v : x});
  b.output(v);
  return b.finish();
}

size_t body_eqns(const ir::Graph& g) {
  size_t n = 0;
  for (const ir::Eqn& e : g.eqns()) n += e.body ? e.body->eqns().size() : 0;
  return n;
}

// Processor time: other processes do not count.
double seconds_of_passes(const ir::Graph& graph) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    ir::Graph g = graph;
    PassContext context{.target = test_target()};
    const std::clock_t start = std::clock();
    run_passes(g, context);
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
}

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Passes, SharingDoesNotMultiplyWork) {
  ir::Graph g = fibonacci(60);
  PassContext context{.target = test_target()};
  run_passes(g, context);
  EXPECT_EQ(g.eqns().size(), 1u);
  EXPECT_EQ(body_eqns(g), 60u);
}

TEST(Passes, LongChainsBecomeBoundedRegions) {
  ir::Graph g = chain(2000);
  PassContext context{.target = test_target()};
  run_passes(g, context);
  EXPECT_GE(g.eqns().size(), 10u);
  EXPECT_LE(g.eqns().size(), 20u);
  for (const ir::Eqn& e : g.eqns()) EXPECT_LE(e.body->eqns().size(), 200u);
  EXPECT_EQ(body_eqns(g), 2000u);
}

TEST(Passes, TimeIsLinearInTheGraph) {
  const double small = seconds_of_passes(chain(400)) / 400;
  const double large = seconds_of_passes(chain(4000)) / 4000;
  EXPECT_LE(large, 4 * small) << "seconds an equation: " << small << " and " << large;
}

TEST(Passes, EqualGraphsFuseEqually) {
  std::string text;
  for (int i = 0; i < 2; ++i) {
    ir::Graph g = fibonacci(300);
    PassContext context{.target = test_target()};
    run_passes(g, context);
    if (i == 0) text = g.str();
    EXPECT_EQ(g.str(), text);
  }
}

TEST(Passes, WithoutFusionEachEquationIsAKernel) {
  ir::Graph g = chain(10);
  PassContext context{.target = test_target(), .options = {.fuse = false}};
  run_passes(g, context);
  EXPECT_EQ(g.eqns().size(), 10u);
  EXPECT_EQ(dispatch_count(g), 10u);
  for (const ir::Eqn& e : g.eqns()) EXPECT_EQ(e.info().kind, ir::OpKind::Region);
}

TEST(Passes, RegionsKeepToTheirLimits) {
  ir::Builder b("wide");
  std::vector<ir::ValueId> in;
  for (int i = 0; i < 100; ++i) in.push_back(b.input(f32({64})));
  ir::ValueId sum = in[0];
  for (int i = 1; i < 100; ++i) sum = b.emit(ir::OpCode::add, {sum, in[static_cast<size_t>(i)]});
  b.output(sum);
  ir::Graph g = b.finish();
  PassContext context{.target = test_target()};
  run_passes(g, context);
  for (const ir::Eqn& e : g.eqns()) EXPECT_LE(e.inputs.size(), 24u);
  EXPECT_LE(g.eqns().size(), 6u);
  EXPECT_FALSE(context.declines.empty());
}

TEST(Passes, SkipAndStop) {
  const Environment skip("POOT_SKIP", "cse,dce");
  const Environment stop("POOT_STOP_AFTER", "fuse_row");
  ir::Graph g = chain(3);
  PassContext context{.target = test_target()};
  run_passes(g, context);
  std::vector<std::string> names;
  for (const PassRecord& r : context.records) names.push_back(r.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"canonicalize", "recognize_attention", "expand_attention",
                                      "fold_convolution", "sink", "fuse_row"}));
}

TEST(Passes, RoundTripsThroughText) {
  const Environment roundtrip("POOT_ROUNDTRIP", "1");
  ir::Graph g = fibonacci(20);
  PassContext context{.target = test_target()};
  EXPECT_NO_THROW(run_passes(g, context));
}

TEST(Passes, FailureLeavesAReproducer) {
  const std::string dir = ::testing::TempDir() + "poot-reproducers";
  std::filesystem::remove_all(dir);
  const Environment where("POOT_REPRO_DIR", dir.c_str());
  // A region before fusion: the verifier refuses it once dce has changed the graph.
  const std::string text =
      "graph @early(%x: f32[8]) -> (f32[8]) {\n  %0 = exp %x : f32[8]\n"
      "  %1 = fused %x body(%a0: f32[8]) {\n    %0 = neg %a0 : f32[8]\n    return %0\n"
      "  } : f32[8]\n  return %1\n}\n";
  ir::Graph g = ir::parse_graph(text);
  PassContext context{.target = test_target()};
  const std::vector<std::string> names{"dce"};
  try {
    run_passes(g, context, names);
    FAIL();
  } catch (const InternalError& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("stage-C1"), std::string::npos) << what;
    const std::string path = what.substr(what.rfind(' ') + 1);
    std::ifstream in(path);
    std::stringstream written;
    written << in.rdbuf();
    EXPECT_EQ(ir::parse_graph(written.str()).str(), text);
  }
  std::filesystem::remove_all(dir);
}

// Rotary tables of a decoder: cosines of a [L, D] table, read by q [H, L, D] and k [Hk, L, D].
TEST(FusionCost, StoresWhatIsDearAndRecomputesWhatIsCheap) {
  ir::Builder b("rotary");
  const ir::ValueId angles = b.input(f32({128, 64}));
  const ir::ValueId q = b.input(f32({32, 128, 64})), k = b.input(f32({8, 128, 64}));
  const ir::ValueId table = b.emit(ir::OpCode::cos, {angles});
  const ir::ValueId shifted = b.emit(ir::OpCode::neg, {angles});
  b.output(b.emit(ir::OpCode::mul, {q, table}));
  b.output(b.emit(ir::OpCode::mul, {k, shifted}));
  ir::Graph g = b.finish();
  const ir::Eqn &dear = g.eqns()[0], &cheap = g.eqns()[1];
  const double each = 128 * 64;
  EXPECT_TRUE(pays_to_recompute(g, dear, each, test_target()));
  EXPECT_FALSE(pays_to_recompute(g, dear, 32 * each, test_target()));
  EXPECT_TRUE(pays_to_recompute(g, cheap, 32 * each, test_target()));
  PassContext context{.target = test_target()};
  run_passes(g, context);
  ASSERT_EQ(context.declines.size(), 1u);
  EXPECT_NE(context.declines[0].reason.find("cos would be evaluated 262144 times for 8192"),
            std::string::npos)
      << context.declines[0].reason;
  EXPECT_EQ(g.eqns().size(), 3u);
}

TEST(FusionCost, HoistsWhatIsConstantAlongTheTrailingAxes) {
  const SymbolTable none;
  const double n = 2.0 * 64 * 56 * 56;
  EXPECT_EQ(broadcast_evaluations({64, 1, 1}, {2, 64, 56, 56}, n, none), 2 * 64);
  EXPECT_EQ(broadcast_evaluations({56}, {2, 64, 56, 56}, n, none), n);
  EXPECT_EQ(broadcast_evaluations({64, 1}, {64, 8}, 512, none), 512);  // too short a run
}

TEST(FusionCost, TheMatrixUnitTakesManyRows) {
  const SymbolTable none;
  const Product p{.dtype = DType::BF16,
                  .rows = 256,
                  .columns = 2816,
                  .depth = 1024,
                  .one_matrix = true,
                  .checkpoint_order = true,
                  .followed = true,
                  .in_stretches = true};
  Target target;
  const auto unit = [&](const Product& q) {
    const ProductChoice c = choose_product(q, none, target);
    return c.generated && c.reason.find("matrix unit") != std::string::npos;
  };
  EXPECT_FALSE(unit(p));
  target.bf16_tiles = true;
  EXPECT_TRUE(unit(p));
  const auto refused = [&](auto&& change) {
    Product other = p;
    change(other);
    return !unit(other);
  };
  EXPECT_TRUE(refused([](Product& o) { o.dtype = DType::F32; }));
  EXPECT_TRUE(refused([](Product& o) { o.depth = 1000; }));
  EXPECT_TRUE(refused([](Product& o) { o.rows = 16; }));
  EXPECT_TRUE(refused([](Product& o) { o.in_stretches = false; }));
  EXPECT_TRUE(refused([](Product& o) { o.one_matrix = false; }));
  EXPECT_TRUE(refused([](Product& o) { o.followed = false; }));
  EXPECT_TRUE(refused([](Product& o) { o.packed = true; }));
}

TEST(FusionCost, TilesOfRegistersWhereTheyCostLessThanTheLibrary) {
  const SymbolTable none;
  const Product p{.dtype = DType::BF16,
                  .rows = 256,
                  .columns = 2816,
                  .depth = 1024,
                  .one_matrix = true,
                  .checkpoint_order = true,
                  .left_in_rows = true};
  const auto generated = [&](const char* cpu, auto&& change) {
    Product other = p;
    change(other);
    const Target target = Target::parse(cpu);
    return choose_product(other, none, target).generated;
  };
  const auto as_is = [](Product&) {};
  const auto f32 = [](Product& o) { o.dtype = DType::F32; };
  EXPECT_FALSE(generated("sapphirerapids", as_is));
  EXPECT_FALSE(generated("x86-64-v4-bf16", as_is));
  EXPECT_TRUE(generated("x86-64-v4", as_is));  // the library has no instruction for bf16 either
  EXPECT_TRUE(generated("x86-64-v3", f32));
  EXPECT_TRUE(generated("x86-64-v4", f32));
  EXPECT_FALSE(generated("sapphirerapids", f32));
  const auto small = [](Product& o) { o.rows = 32, o.columns = 64, o.followed = true; };
  EXPECT_TRUE(generated("x86-64-v4-bf16", small));
  EXPECT_TRUE(generated("x86-64-v4", [](Product& o) { o.dtype = DType::F64; }));
  EXPECT_FALSE(generated("sapphirerapids", [](Product& o) { o.dtype = DType::F64; }));
  EXPECT_FALSE(generated("x86-64-v4", [&](Product& o) { o.one_matrix = false; }));
}

TEST(Passes, UnknownNameIsRefused) {
  ir::Graph g = chain(3);
  PassContext context{.target = test_target()};
  const std::vector<std::string> names{"no_such_pass"};
  try {
    run_passes(g, context, names);
    FAIL();
  } catch (const InvalidGraph& e) {
    EXPECT_EQ(e.constraint(), "pass-C1");
  }
}

TEST(Passes, AReaderThatComputesAValueHasTheOriginsOfItsProducer) {
  ir::Graph g = ir::parse_graph(R"(graph @g(%x: bf16[6,16]) -> (f32[6,1], f32[16]) {
  origin 0 "widen" ""
  origin 1 "sum" ""
  origin 2 "max" ""
  %0 = cast %x {to=f32} : f32[6,16] loc(0)
  %1 = reduce_sum %0 {axes=[1], keepdim=true} : f32[6,1] loc(1)
  %2 = reduce_max %0 {axes=[0], keepdim=false} : f32[16] loc(2)
  return %1, %2
})");
  PassContext context{.target = test_target()};
  const std::vector<std::string> names{"fuse_row", "fuse_reduce", "rematerialize"};
  run_passes(g, context, names);
  ASSERT_EQ(g.eqns().size(), 2u);
  EXPECT_EQ(g.eqns()[0].origins, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(g.eqns()[1].op, ir::OpCode::fused_reduce);
  EXPECT_EQ(g.eqns()[1].inputs[0], ir::Operand(g.inputs()[0]));
  EXPECT_EQ(g.eqns()[1].origins, (std::vector<uint32_t>{0, 1, 2}));
}

TEST(Spaces, OnePassOverTheSameElements) {
  const SymbolTable symbols{{{2, 64}, 8}, {{2, 64}, 8}};
  const Dim s0 = Dim::symbol(0), s1 = Dim::symbol(1);
  const auto same = [&](const Shape& a, const Shape& b) { return same_space(a, b, symbols); };
  EXPECT_TRUE(same({2, 3, 8}, {6, 8}));
  EXPECT_TRUE(same({1, 6, 8}, {6, 8, 1}));
  EXPECT_TRUE(same({6, 4}, {3, 8}));
  EXPECT_FALSE(same({6, 4}, {4, 6}));
  EXPECT_FALSE(same({6, 4}, {6, 5}));
  EXPECT_TRUE(same({s0, 4, 16}, {s0, 64}));
  EXPECT_TRUE(same({s0 * s1, 16}, {s0, s1, 16}));
  EXPECT_FALSE(same({s0, 16}, {s1, 16}));
}

}  // namespace
}  // namespace poot::passes
