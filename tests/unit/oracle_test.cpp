// The oracle against results worked out by hand, and its faults. Pointwise arithmetic is
// scalar_test's.
#include "ir/oracle.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/scalar_eval.h"

namespace poot::ir {
namespace {

HostArray array(DType d, std::vector<int64_t> shape, const std::vector<double>& values) {
  HostArray a = HostArray::zeros(d, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i)
    a.set_bits(static_cast<int64_t>(i), from_double(values[i], d));
  return a;
}

std::vector<double> numbers(const HostArray& a) {
  std::vector<double> list;
  for (int64_t i = 0; i < a.numel(); ++i) list.push_back(to_double(a.bits(i), a.dtype));
  return list;
}

// The first result of a graph with the given body lines over inputs %a0, %a1, ….
std::vector<HostArray> run(const std::string& text, const std::vector<HostArray>& inputs,
                           const std::vector<int64_t>& symbols = {}) {
  return evaluate(parse_graph(text), inputs, symbols);
}

std::vector<double> first(const std::string& text, const std::vector<HostArray>& inputs,
                          const std::vector<int64_t>& symbols = {}) {
  return numbers(run(text, inputs, symbols)[0]);
}

using List = std::vector<double>;

TEST(Oracle, Views) {
  const HostArray x = array(DType::F32, {2, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(first("graph @g(%x: f32[2,3]) -> (f32[3,2]) {\n"
                  "%0 = transpose %x {perm=[1,0]} : f32[3,2]\nreturn %0\n}",
                  {x}),
            (List{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(first("graph @g(%x: f32[2,3]) -> (f32[2,2]) {\n"
                  "%0 = slice %x {axis=1, start=0, end=3, step=2} : f32[2,2]\nreturn %0\n}",
                  {x}),
            (List{0, 2, 3, 5}));
  EXPECT_EQ(first("graph @g(%x: f32[2,3]) -> (f32[2,3]) {\n"
                  "%0 = flip %x {axes=[0,1]} : f32[2,3]\nreturn %0\n}",
                  {x}),
            (List{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(first("graph @g(%x: f32[2,1]) -> (f32[2,2]) {\n"
                  "%0 = broadcast %x {shape=[2,2]} : f32[2,2]\nreturn %0\n}",
                  {array(DType::F32, {2, 1}, {1, 2})}),
            (List{1, 1, 2, 2}));
}

TEST(Oracle, MovementAndSymbols) {
  const HostArray x = array(DType::F32, {2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(first("graph @g(s0 in [1, 8] hint 2, %x: f32[2,s0]) -> (f32[2,s0 + 2]) {\n"
                  "%0 = pad %x, f32 9 {low=[0,1], high=[0,1]} : f32[2,s0 + 2]\nreturn %0\n}",
                  {x}, {2}),
            (List{9, 1, 2, 9, 9, 3, 4, 9}));
  EXPECT_EQ(first("graph @g(%x: f32[2,2]) -> (f32[4,2]) {\n"
                  "%0 = concat %x, %x {axis=0} : f32[4,2]\nreturn %0\n}",
                  {x}),
            (List{1, 2, 3, 4, 1, 2, 3, 4}));
  const HostArray index = array(DType::I64, {3}, {1, -2, 1});
  EXPECT_EQ(first("graph @g(%x: f32[2,2], %i: i64[3]) -> (f32[2,3]) {\n"
                  "%0 = gather %x, %i {axis=1} : f32[2,3]\nreturn %0\n}",
                  {x, index}),
            (List{2, 1, 2, 4, 3, 4}));
  EXPECT_EQ(first("graph @g(%x: f32[2,2], %i: i64[2,1]) -> (f32[2,1]) {\n"
                  "%0 = take %x, %i {axis=1} : f32[2,1]\nreturn %0\n}",
                  {x, array(DType::I64, {2, 1}, {1, 0})}),
            (List{2, 3}));
  EXPECT_EQ(first("graph @g(s0 in [1, 8] hint 3) -> (i64[s0]) {\n"
                  "%0 = iota {dtype=i64, size=s0, start=5, step=-2} : i64[s0]\nreturn %0\n}",
                  {}, {3}),
            (List{5, 3, 1}));
}

TEST(Oracle, Updates) {
  const HostArray base = array(DType::F32, {3, 2}, {0, 0, 0, 0, 0, 0});
  const HostArray rows = array(DType::F32, {2, 2}, {1, 2, 3, 4});
  const std::string scatter =
      "graph @g(%b: f32[3,2], %i: i64[2], %s: f32[2,2]) -> (f32[3,2]) {\n"
      "%0 = scatter_update %b, %i, %s {axis=0} : f32[3,2]\nreturn %0\n}";
  EXPECT_EQ(first(scatter, {base, array(DType::I64, {2}, {2, 2}), rows}), (List{0, 0, 0, 0, 3, 4}));
  EXPECT_EQ(first(scatter, {base, array(DType::I64, {2}, {-1, 0}), rows}),
            (List{3, 4, 0, 0, 1, 2}));
  const std::string added =
      "graph @g(%b: f32[3,2], %i: i64[2], %s: f32[2,2]) -> (f32[3,2]) {\n"
      "%0 = scatter_update %b, %i, %s {axis=0, exact=true, fn=\"add\"} : f32[3,2]\nreturn %0\n}";
  EXPECT_EQ(first(added, {base, array(DType::I64, {2}, {2, 2}), rows}), (List{0, 0, 0, 0, 4, 6}));
  EXPECT_THROW(first(added, {base, array(DType::I64, {2}, {-1, 0}), rows}), Error);
  const std::string elements =
      "graph @g(%b: f32[3,2], %i: i64[2,2], %s: f32[2,2]) -> (f32[3,2]) {\n"
      "%0 = scatter %b, %i, %s {axis=0, fn=\"add\"} : f32[3,2]\nreturn %0\n}";
  EXPECT_EQ(first(elements, {base, array(DType::I64, {2, 2}, {1, 0, 1, 2}), rows}),
            (List{0, 2, 4, 0, 0, 4}));
  EXPECT_EQ(first("graph @g(%b: f32[3,2], %s: f32[1,2]) -> (f32[3,2]) {\n"
                  "%0 = update_slice %b, %s {axis=0, start=1, end=2, step=1} : f32[3,2]\n"
                  "return %0\n}",
                  {base, array(DType::F32, {1, 2}, {7, 8})}),
            (List{0, 0, 7, 8, 0, 0}));
}

TEST(Oracle, FaultsThrow) {
  const HostArray x = array(DType::F32, {2, 2}, {1, 2, 3, 4});
  for (const double bad : {2.0, -3.0})
    EXPECT_THROW(first("graph @g(%x: f32[2,2], %i: i64[1]) -> (f32[1,2]) {\n"
                       "%0 = gather %x, %i {axis=0} : f32[1,2]\nreturn %0\n}",
                       {x, array(DType::I64, {1}, {bad})}),
                 Error);
  EXPECT_THROW(first("graph @g(%x: i32[1], %y: i32[1]) -> (i32[1]) {\n"
                     "%0 = remainder %x, %y : i32[1]\nreturn %0\n}",
                     {array(DType::I32, {1}, {1}), array(DType::I32, {1}, {0})}),
               Error);
}

TEST(Oracle, RefusesInputsOfOtherTypes) {
  const std::string identity = "graph @g(%x: f32[2,2]) -> (f32[2,2]) {\nreturn %x\n}";
  for (const std::vector<HostArray>& inputs : {std::vector<HostArray>{},
                                               {array(DType::F32, {4}, {1, 2, 3, 4})},
                                               {array(DType::F16, {2, 2}, {1, 2, 3, 4})}}) {
    try {
      run(identity, inputs);
      ADD_FAILURE() << inputs.size();
    } catch (const InvalidGraph& e) {
      EXPECT_EQ(e.constraint(), "oracle-C1");
    }
  }
}

TEST(Oracle, Reductions) {
  const HostArray x = array(DType::BF16, {2, 3}, {256, 1, 1, NAN, 2, 3});
  const auto reduce = [&](const std::string& op, const std::string& axes, const std::string& type) {
    return first("graph @g(%x: bf16[2,3]) -> (bf16" + type + ") {\n%0 = " + op +
                     " %x {axes=" + axes + ", keepdim=false} : bf16" + type + "\nreturn %0\n}",
                 {x});
  };
  EXPECT_EQ(reduce("reduce_sum", "[1]", "[2]")[0], 258);  // 256 + 1 + 1 in bf16 steps is 256
  EXPECT_TRUE(std::isnan(reduce("reduce_max", "[1]", "[2]")[1]));
  EXPECT_EQ(reduce("reduce_min", "[1]", "[2]")[0], 1);
  EXPECT_EQ(reduce("reduce_prod", "[0]", "[3]")[1], 2);
  EXPECT_EQ(first("graph @g(%x: f32[2,0]) -> (f32[2]) {\n"
                  "%0 = reduce_sum %x {axes=[1], keepdim=false} : f32[2]\nreturn %0\n}",
                  {array(DType::F32, {2, 0}, {})}),
            (List{0, 0}));
}

TEST(Oracle, Moments) {
  const HostArray x = array(DType::F32, {2, 2}, {1, 3, 5, INFINITY});
  const auto moment = [&](const std::string& op, const std::string& axes) {
    return first("graph @g(%x: f32[2,2]) -> (f32[2]) {\n%0 = " + op + " %x {axes=[" + axes +
                     "], keepdim=false} : f32[2]\nreturn %0\n}",
                 {x});
  };
  EXPECT_EQ(moment("welford_mean", "1"), (List{2, INFINITY}));
  EXPECT_EQ(moment("welford_mean", "0")[0], 3);
  EXPECT_EQ(moment("welford_squares", "0")[0], 8);
  EXPECT_TRUE(std::isnan(moment("welford_squares", "1")[1]));
}

TEST(Oracle, Products) {
  const HostArray a = array(DType::F32, {2, 2}, {1, 2, 3, 4});
  const HostArray b = array(DType::F32, {2, 1}, {5, 6});
  EXPECT_EQ(first("graph @g(%a: f32[2,2], %b: f32[2,1]) -> (f32[2,1]) {\n"
                  "%0 = matmul %a, %b : f32[2,1]\nreturn %0\n}",
                  {a, b}),
            (List{17, 39}));
  EXPECT_EQ(first("graph @g(%c: f32[1], %a: f32[2,2], %b: f32[2,1]) -> (f32[2,1]) {\n"
                  "%0 = addmm %c, %a, %b {alpha=2, beta=3} : f32[2,1]\nreturn %0\n}",
                  {array(DType::F32, {1}, {10}), a, b}),
            (List{64, 108}));
}

TEST(Oracle, Convolution) {
  const HostArray x = array(DType::F32, {1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const HostArray w = array(DType::F32, {1, 1, 2, 2}, {1, 0, 0, 1});
  const auto conv = [&](const std::string& attrs, const std::string& type) {
    return first("graph @g(%x: f32[1,1,3,3], %w: f32[1,1,2,2], %b: f32[1]) -> (" + type +
                     ") {\n%0 = convolution %x, %w, %b {" + attrs + "} : " + type +
                     "\nreturn %0\n}",
                 {x, w, array(DType::F32, {1}, {100})});
  };
  EXPECT_EQ(conv("stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, "
                 "output_padding=[0,0], groups=1",
                 "f32[1,1,2,2]"),
            (List{106, 108, 112, 114}));
  EXPECT_EQ(conv("stride=[2,2], padding=[1,1], dilation=[1,1], transposed=false, "
                 "output_padding=[0,0], groups=1",
                 "f32[1,1,2,2]"),
            (List{101, 103, 107, 114}));
  EXPECT_EQ(conv("stride=[1,1], padding=[0,0], dilation=[1,1], transposed=true, "
                 "output_padding=[0,0], groups=1",
                 "f32[1,1,4,4]"),
            (List{101, 102, 103, 100, 104, 106, 108, 103, 107, 112, 114, 106, 100, 107, 108, 109}));
}

TEST(Oracle, MaxPool) {
  const auto out =
      run("graph @g(%x: f32[1,1,3,3]) -> (f32[1,1,2,2], i64[1,1,2,2]) {\n"
          "%0, %1 = max_pool %x {kernel=[2,2], stride=[2,2], padding=[1,1], "
          "dilation=[1,1], ceil=false} : f32[1,1,2,2], i64[1,1,2,2]\n"
          "return %0, %1\n}",
          {array(DType::F32, {1, 1, 3, 3}, {1, 2, 3, 4, NAN, 6, 7, 7, 9})});
  EXPECT_EQ(numbers(out[1]), (List{0, 2, 6, 4}));
  EXPECT_TRUE(std::isnan(numbers(out[0])[3]));
}

TEST(Oracle, AttentionMasksRows) {
  const HostArray q = array(DType::F32, {1, 1, 2, 1}, {1, 1});
  const HostArray v = array(DType::F32, {1, 1, 2, 1}, {10, 20});
  const auto attend = [&](const std::string& causal, const HostArray& mask) {
    return run(
        "graph @g(%q: f32[1,1,2,1], %v: f32[1,1,2,1], %m: bool[2,2]) -> "
        "(f32[1,1,2,1], f32[1,1,2]) {\n%0, %1 = attention %q, %q, %v, %m {scale=1, causal=" +
            causal + "} : f32[1,1,2,1], f32[1,1,2]\nreturn %0, %1\n}",
        {q, v, mask});
  };
  EXPECT_EQ(numbers(attend("true", array(DType::Bool, {2, 2}, {1, 1, 1, 1}))[0]), (List{10, 15}));
  const auto masked = attend("false", array(DType::Bool, {2, 2}, {0, 0, 0, 1}));
  EXPECT_EQ(numbers(masked[0]), (List{0, 20}));
  EXPECT_EQ(numbers(masked[1]), (List{-INFINITY, 1}));
}

TEST(Oracle, OpaqueNeedsACallback) {
  const Graph g = parse_graph(
      "graph @g(%x: f32[2]) -> (f32[2]) {\n"
      "%0 = opaque %x {target=\"aten::sort\", call=0, out_dtypes=[8], out_shapes=[2], "
      "out_ranks=[1], effect=false, reason=\"\"} : f32[2]\nreturn %0\n}");
  const std::vector<HostArray> in{array(DType::F32, {2}, {2, 1})};
  EXPECT_THROW(evaluate(g, in, {}), Error);
  OracleOptions options;
  options.opaque = [](const Eqn&, std::span<const HostArray> x) {
    return std::vector<HostArray>{array(DType::F32, {2}, {to_double(x[0].bits(1), DType::F32), 2})};
  };
  EXPECT_EQ(numbers(evaluate(g, in, {}, options)[0]), (List{1, 2}));
}

}  // namespace
}  // namespace poot::ir
