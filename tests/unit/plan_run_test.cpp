// Plans mean what their graphs mean: every case of tests/program, and random graphs of views,
// pointwise equations, reductions, updates and states, run through the plan and through the oracle
// with equal results and equal next states, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "ir/scalar_eval.h"
#include "plan_runner.h"
#include "source_dir.h"

namespace poot::passes {
namespace {

using ir::HostArray;
using ir::OpCode;
using ir::ValueId;

using Random = std::mt19937;

void fill(HostArray& a, Random& random) {
  for (int64_t i = 0; i < a.numel(); ++i) {
    const auto v = static_cast<int64_t>(random() % 3);  // small: valid as an index too
    if (a.dtype == DType::F32) {
      const float f = static_cast<float>(random() % 2001) / 500.0f - 2.0f;
      uint32_t bits;
      std::memcpy(&bits, &f, 4);
      a.set_bits(i, bits);
    } else if (a.dtype == DType::BF16) {
      a.set_bits(i,
                 ir::bits_of(ir::Scalar::of(DType::BF16, static_cast<double>(random() % 9) - 4)));
    } else {
      a.set_bits(i, static_cast<uint64_t>(a.dtype == DType::Bool ? v % 2 : v));
    }
  }
}

// A stand-in for the host's ops: each result element is a sum over the operands' bits.
std::vector<HostArray> opaque_results(const ir::Eqn& e, std::span<const HostArray> in,
                                      const ir::Graph& graph, std::span<const int64_t> symbols) {
  std::vector<HostArray> out;
  for (const ValueId v : e.outs) {
    std::vector<int64_t> shape;
    for (const Dim& d : graph.type(v).shape) shape.push_back(d.eval(symbols));
    out.push_back(HostArray::zeros(graph.type(v).dtype, shape));
    for (int64_t i = 0; i < out.back().numel(); ++i) {
      uint64_t sum = 0;
      for (const HostArray& a : in) sum = sum * 31 + a.bits(i % std::max<int64_t>(a.numel(), 1));
      out.back().set_bits(i, sum & 0x3fffffff);
    }
  }
  return out;
}

bool equal(const HostArray& a, const HostArray& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.data == b.data;
}

void expect_plan_agrees(const ir::Graph& graph, Random& random, const Target& target) {
  PassContext context{target, {}, {}, {}, {}, {}};
  const Signature signature = default_signature(graph);
  const PlanResult planned = plan(graph, signature, context);
  program::check(planned.program);

  std::vector<int64_t> symbols;
  for (const Symbol& s : graph.symbols()) symbols.push_back(s.hint);
  std::vector<HostArray> inputs;
  for (const ValueId v : graph.inputs()) {
    std::vector<int64_t> shape;
    for (const Dim& d : graph.type(v).shape) shape.push_back(d.eval(symbols));
    inputs.push_back(HostArray::zeros(graph.type(v).dtype, shape));
    fill(inputs.back(), random);
  }
  std::vector<ir::Eqn> opaque_eqns;
  for (const ir::Eqn& e : graph.eqns()) {
    if (e.op == OpCode::opaque) opaque_eqns.push_back(e);
  }
  const auto opaque = [&](const ir::Eqn& e, std::span<const HostArray> in) {
    return opaque_results(e, in, graph, symbols);
  };
  const std::vector<HostArray> expected = ir::evaluate(graph, inputs, symbols, {opaque});

  testing::PlanRunner runner(planned, symbols, opaque_eqns, opaque);
  const auto first = static_cast<uint32_t>(graph.symbols().size());
  for (uint32_t i = 0; i < inputs.size(); ++i) runner.set_argument(first + i, inputs[i]);
  runner.run();
  size_t result = 0;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const ir::GraphOutput& o = graph.outputs()[i];
    if (o.kind == ir::OutputKind::Result) {
      EXPECT_TRUE(equal(runner.result(result++), expected[i])) << "output " << i;
      continue;
    }
    const auto at = std::find(graph.inputs().begin(), graph.inputs().end(), o.state_input);
    const auto arg = first + static_cast<uint32_t>(at - graph.inputs().begin());
    EXPECT_TRUE(equal(runner.argument(arg), expected[i])) << "state of output " << i;
  }
  if (::testing::Test::HasFailure()) ADD_FAILURE() << graph.str() << program::dump(planned.program);
}

void expect_plan_agrees(const ir::Graph& graph, Random& random,
                        std::string_view target = "x86-64-v4") {
  expect_plan_agrees(graph, random, Target::parse(target));
}

TEST(PlanRuns, EveryCase) {
  Random random(1);
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/tests/program")) {
    // "name.target.poot" is of sizes at which that target's plans change.
    if (entry.path().extension() != ".poot" || entry.path().stem().has_extension()) continue;
    SCOPED_TRACE(entry.path().filename().string());
    std::ifstream in(entry.path());
    std::stringstream text;
    text << in.rdbuf();
    expect_plan_agrees(ir::parse_graph(text.str()), random);
  }
}

// Graphs over [n, m] f32 values and what views make of them; n is symbolic.
class RandomGraph {
 public:
  explicit RandomGraph(Random& random) : random_(random), b_("random", {Symbol{{2, 64}, 6}}) {
    for (int i = 0; i < 3; ++i) {
      const bool turned = pick(3) == 0;
      ir::Layout layout = ir::Layout::contiguous({n_, 4});
      if (turned) layout.strides = {1, n_};
      values_.push_back(b_.input({DType::F32, {n_, 4}}, ir::Storage::Device, ir::Anonymous{},
                                 turned ? std::optional(layout) : std::nullopt));
    }
    inputs_ = values_;
    slots_ = b_.input({DType::I64, {2}});
  }

  ir::Graph make(int eqns) {
    for (int i = 0; i < eqns; ++i) values_.push_back(equation());
    std::vector<ValueId> states;
    for (const ValueId x : inputs_) {
      if (pick(2) == 0) continue;
      const ValueId v = of_shape({n_, 4});
      b_.output(v, ir::OutputKind::StateNext, x);
    }
    for (int i = 0; i < 2; ++i) b_.output(any());
    return b_.finish();
  }

 private:
  uint32_t pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  ValueId any() {
    return values_[values_.size() - 1 - pick(std::min<uint32_t>(8, values_.size()))];
  }
  // A late value of this shape.
  ValueId of_shape(const Shape& shape) {
    std::vector<ValueId> fit;
    for (const ValueId v : values_) {
      if (b_.type(v).shape == shape) fit.push_back(v);
    }
    return fit[fit.size() - 1 - pick(std::min<uint32_t>(5, fit.size()))];
  }

  ValueId equation() {
    const ValueId v = any();
    const Shape shape = b_.type(v).shape;
    const size_t rank = shape.size();
    switch (pick(9)) {
      case 0:
        return b_.emit(OpCode::neg, {v});
      case 1:
        return b_.emit(OpCode::add, {v, of_shape(shape)});
      case 2:
        return b_.emit(OpCode::mul, {of_shape(shape), ir::Scalar::of(DType::F32, 0.5)});
      case 3: {
        std::vector<int64_t> perm(rank);
        for (size_t i = 0; i < rank; ++i) perm[i] = static_cast<int64_t>(rank - 1 - i);
        return b_.emit(OpCode::transpose, {v}, {perm});
      }
      case 4: {
        const Shape to = pick(2) ? Shape{n_, 4} : pick(2) ? Shape{n_, 2, 2} : Shape{n_ * 4};
        return b_.emit(OpCode::reshape, {of_shape(pick(2) ? Shape{n_, 4} : shape)}, {to});
      }
      case 5:
        return b_.emit(OpCode::flip, {v}, {std::vector<int64_t>{0}});
      case 6: {
        const ValueId base = of_shape({n_, 4});
        const ValueId rows =
            b_.emit(OpCode::slice, {of_shape({n_, 4})}, {int64_t{0}, Dim(0), Dim(2), int64_t{1}});
        if (pick(2)) return b_.emit(OpCode::scatter_update, {base, slots_, rows}, {int64_t{0}});
        return b_.emit(OpCode::update_slice, {base, rows},
                       {int64_t{0}, Dim(0), Dim(2), int64_t{1}});
      }
      case 7: {
        const ValueId x = of_shape({n_, 4});
        const ValueId sum =
            b_.emit(OpCode::reduce_sum, {x}, {std::vector<int64_t>{pick(2) ? 1 : 0}, true});
        return b_.emit(OpCode::sub, {x, sum});
      }
      default: {
        const ValueId x = of_shape({n_, 4});
        const ValueId t =
            b_.emit(OpCode::transpose, {of_shape({n_, 4})}, {std::vector<int64_t>{1, 0}});
        const ValueId square = b_.emit(OpCode::matmul, {t, x});
        return b_.emit(OpCode::matmul, {x, square});
      }
    }
  }

  Random& random_;
  const Dim n_ = Dim::symbol(0);
  ir::Builder b_;
  std::vector<ValueId> values_, inputs_;
  ValueId slots_;
};

// Few rows that many are added to: in parts, into the base itself and into a copy of it.
TEST(PlanRuns, SumsInParts) {
  Random random(3);
  for (const char* dtype : {"i64", "f32", "bf16"})
    for (const char* read_again : {"", ", %b"}) {
      const std::string d(dtype), again(read_again);
      const ir::Graph graph = ir::parse_graph(
          "graph @s(%b: " + d + "[3,5], %i: i64[70], %x: " + d + "[70,5]) -> (" + d + "[3,5]" +
          (again.empty() ? "" : ", " + d + "[3,5]") + ") {\n  %0 = neg %b : " + d +
          "[3,5]\n  %1 = scatter_update %0, %i, %x {axis=0, " + "exact=true, fn=\"add\"} : " + d +
          "[3,5]\n  return %1" + (again.empty() ? "" : ", %0") + "\n}");
      if (d != "f32") expect_plan_agrees(graph, random, "sm_90a");
      const Target target = Target::parse("sm_90a");
      PassContext context{target, {}, {}, {}, {}, {}};
      const PlanResult planned = plan(graph, default_signature(graph), context);
      EXPECT_TRUE(std::any_of(planned.requests.begin(), planned.requests.end(),
                              [](const KernelRequest& r) { return r.parts.is_const(5); }));
    }
}

TEST(PlanRuns, SumsOfNoColumns) {
  Random random(3);
  for (const char* target : {"x86-64-v4", "sm_90a"})
    expect_plan_agrees(ir::parse_graph(R"(
      graph @s(%b: f32[3,0], %i: i64[70], %x: f32[70,0]) -> (f32[3,0]) {
        %0 = scatter_update %b, %i, %x {axis=0, exact=true, fn="add"} : f32[3,0]
        return %0
      })"),
                       random, target);
}

// Garbage in the margins is not a number, so that whatever reads it shows.
TEST(PlanRuns, ProductsWithMargins) {
  Target target = Target::parse("sm_90a");
  target.least_padded = {0, 0};
  Random random(5);
  for (const char* text : {
           R"(
graph @made(%x: bf16[5,11], %w: bf16[9,11], %y: bf16[5,9])
    -> (bf16[9,11], bf16[5,11], bf16[5,9]) {
  %0 = transpose %w {perm=[1,0]} : bf16[11,9]
  %1 = matmul %x, %0 : bf16[5,9]
  %2 = fused %1, %y body @fused_mul(%a0: bf16[5,9], %a1: bf16[5,9]) {
    %0 = mul %a0, %a1 : bf16[5,9]
    return %0
  } : bf16[5,9]
  %3 = transpose %2 {perm=[1,0]} : bf16[9,5]
  %4 = matmul %3, %x : bf16[9,11]
  %5 = matmul %2, %w : bf16[5,11]
  return %4, %5, %1
})",
           R"(
graph @given(%x: bf16[5,16], %g: bf16[5,9], %h: bf16[5,10], %w: bf16[9,16])
    -> (bf16[9,16], bf16[5,16], bf16[5,16], bf16[16,16]) {
  %0 = transpose %g {perm=[1,0]} : bf16[9,5]
  %1 = matmul %0, %x : bf16[9,16]
  %2 = matmul %g, %w : bf16[5,16]
  %3 = slice %h {axis=1, start=1, end=10, step=1} : bf16[5,9]
  %4 = matmul %3, %w : bf16[5,16]
  %5 = transpose %w {perm=[1,0]} : bf16[16,9]
  %6 = matmul %5, %w : bf16[16,16]
  return %1, %2, %4, %6
})",
           R"(
graph @halves(%x: bf16[8,22], %w: bf16[11,8]) -> (bf16[8,8], bf16[8,8]) {
  %0 = slice %x {axis=1, start=0, end=21, step=2} : bf16[8,11]
  %1 = slice %x {axis=1, start=1, end=22, step=2} : bf16[8,11]
  %2 = matmul %0, %w : bf16[8,8]
  %3 = matmul %1, %w : bf16[8,8]
  return %2, %3
})",
           R"(
graph @biased(%x: bf16[2,3,11], %w: bf16[11,9], %b: bf16[9], %one: bf16[1])
    -> (bf16[2,3,9], bf16[6,9], bf16[6,9]) {
  %0 = reshape %x {shape=[6,11]} : bf16[6,11]
  %1 = addmm %b, %0, %w {alpha=1, beta=1} : bf16[6,9]
  %2 = reshape %1 {shape=[2,3,9]} : bf16[2,3,9]
  %3 = addmm %one, %0, %w {alpha=1, beta=1} : bf16[6,9]
  %4 = addmm %b, %0, %w {alpha=0.5, beta=2} : bf16[6,9]
  return %2, %3, %4
})",
           R"(
graph @batched(%x: bf16[2,3,11], %y: bf16[2,11,9], %w: bf16[11,9], %s: bf16[6,9])
    -> (bf16[2,3,9], bf16[2,3,9], bf16[6,9] state_next(%s)) {
  %0 = matmul %x, %y : bf16[2,3,9]
  %1 = broadcast %w {shape=[2,11,9]} : bf16[2,11,9]
  %2 = matmul %x, %1 : bf16[2,3,9]
  %3 = reshape %x {shape=[6,11]} : bf16[6,11]
  %4 = matmul %3, %w : bf16[6,9]
  return %0, %2, %4
})"}) {
    const ir::Graph graph = ir::parse_graph(text);
    SCOPED_TRACE(graph.name());
    expect_plan_agrees(graph, random, target);
  }
}

TEST(PlanRuns, RandomGraphs) {
  for (uint32_t seed = 0; seed < 1000 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const ir::Graph graph = RandomGraph(random).make(4 + static_cast<int>(seed % 12));
    expect_plan_agrees(graph, random);
  }
}

}  // namespace
}  // namespace poot::passes
