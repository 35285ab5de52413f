// Random graphs through all passes: the result verifies and computes the same bits, with fusion and
// without, and each region's tile program computes its body.
#include <gtest/gtest.h>

#include <random>

#include "ir/scalar_eval.h"
#include "passes/pass.h"
#include "tile_harness.h"

namespace poot::testing {
namespace {

using ir::OpCode;
using ir::ValueId;

class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : random_(seed), b_("fuzz", {{{2, 16}, 4}}) {
    for (const Shape& s : std::vector<Shape>{{n_, 6}, {n_, 6}, {6}, {n_, 1}, {2, n_, 6}})
      values_.push_back(b_.input({DType::F32, s}));
    weight_ = b_.input({DType::F32, {6, 6}});
    index_ = b_.input({DType::I64, {n_}});
  }

  ir::Graph build(int steps) {
    for (int i = 0; i < steps; ++i) step();
    for (size_t i = 5; i < values_.size(); ++i)
      if (i + 1 == values_.size() || pick(8) == 0) b_.output(values_[i]);
    return b_.finish();
  }

 private:
  size_t pick(size_t n) { return random_() % n; }
  // Recent values more often than old ones.
  ValueId any() {
    const size_t back = std::min(pick(values_.size()), pick(values_.size()));
    return values_[values_.size() - 1 - back];
  }
  const Shape& shape(ValueId v) const { return b_.type(v).shape; }
  void keep(ValueId v) { values_.push_back(v); }

  void step() {
    const ValueId x = any();
    switch (pick(13)) {
      case 0:
      case 1:
        return keep(b_.emit(unary_[pick(std::size(unary_))], {x}));
      case 2:
        return keep(b_.emit(OpCode::mul, {x, ir::Scalar::of(DType::F32, 0.5 + double(pick(2)))}));
      case 3:
      case 4:
      case 5:
        return binary(x);
      case 6:
        return reduce(x);
      case 7:
        return view(x);
      case 8:
        return move(x);
      case 9:
        if (shape(x).size() == 2 && shape(x)[1].is_const(6))
          keep(b_.emit(OpCode::matmul, {x, weight_}));
        return;
      case 10: {
        const DType narrow = pick(2) ? DType::BF16 : DType::F16;
        const ValueId y = b_.emit(OpCode::cast, {x}, {narrow});
        return keep(b_.emit(OpCode::cast, {y}, {DType::F32}));
      }
      case 11: {
        const ValueId c = b_.emit(OpCode::lt, {x, ir::Scalar::of(DType::F32, 0.25)});
        return keep(b_.emit(OpCode::select, {c, x, ir::Scalar::of(DType::F32, 1.0)}));
      }
      default:
        if (!shape(x).empty() && shape(x)[0] == n_ && shape(x).size() == 2)
          keep(b_.emit(OpCode::scatter_update, {x, index_, x}, {int64_t{0}}));
        return;
    }
  }

  void binary(ValueId x) {
    const ValueId y = any();
    const OpCode op = binary_[pick(std::size(binary_))];
    try {
      keep(b_.emit(op, {x, y}));
    } catch (const InvalidGraph&) {
      keep(b_.emit(op, {x, x}));  // the shapes do not broadcast
    }
  }

  void reduce(ValueId x) {
    if (shape(x).empty()) return;
    const auto rank = static_cast<int64_t>(shape(x).size());
    std::vector<int64_t> axes;
    if (pick(3) == 0)
      axes = {static_cast<int64_t>(pick(shape(x).size()))};
    else
      for (int64_t a = rank - 1 - static_cast<int64_t>(pick(shape(x).size())); a < rank; ++a)
        axes.push_back(a);
    const ValueId r =
        b_.emit(pick(2) ? OpCode::reduce_sum : OpCode::reduce_max, {x}, {axes, pick(3) != 0});
    keep(r);
    try {  // the way norms go on
      keep(b_.emit(OpCode::sub, {x, r}));
    } catch (const InvalidGraph&) {
    }
  }

  void view(ValueId x) {
    const Shape s = shape(x);
    if (s.empty()) return;
    const auto axis = static_cast<int64_t>(pick(s.size()));
    switch (pick(4)) {
      case 0: {
        std::vector<int64_t> perm(s.size());
        for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
        std::shuffle(perm.begin(), perm.end(), random_);
        return keep(b_.emit(OpCode::transpose, {x}, {perm}));
      }
      case 1:
        return keep(b_.emit(OpCode::reshape, {x}, {pick(2) ? Shape{numel(s)} : with_unit(s)}));
      case 2:
        return keep(b_.emit(OpCode::flip, {x}, {std::vector<int64_t>{axis}}));
      default:
        if (s[static_cast<size_t>(axis)].is_const() && s[static_cast<size_t>(axis)].value() > 2)
          keep(b_.emit(OpCode::slice, {x},
                       {axis, Dim(1), s[static_cast<size_t>(axis)], int64_t{1}}));
    }
  }

  Shape with_unit(Shape s) {
    s.insert(s.begin() + static_cast<ptrdiff_t>(pick(s.size() + 1)), Dim(1));
    return s.size() > 4 ? Shape{numel(s)} : s;
  }

  void move(ValueId x) {
    const Shape s = shape(x);
    if (s.empty()) return;
    const auto axis = static_cast<int64_t>(pick(s.size()));
    if (pick(2) && numel(s).hint({{{2, 16}, 4}}) < 2000)
      return keep(b_.emit(OpCode::concat, {x, x}, {axis}));
    if (s[0] == n_) keep(b_.emit(OpCode::gather, {x, index_}, {int64_t{0}}));
  }

  static constexpr OpCode unary_[] = {OpCode::neg, OpCode::abs, OpCode::exp, OpCode::tanh,
                                      OpCode::sigmoid};
  static constexpr OpCode binary_[] = {OpCode::add, OpCode::sub, OpCode::mul, OpCode::maximum};
  const Dim n_ = Dim::symbol(0);
  std::mt19937_64 random_;
  ir::Builder b_;
  std::vector<ValueId> values_;
  ValueId weight_, index_;
};

std::vector<ir::HostArray> inputs_of(const ir::Graph& g, std::span<const int64_t> symbols) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  std::vector<ir::HostArray> arrays;
  for (const ValueId v : g.inputs()) {
    std::vector<int64_t> shape;
    for (const Dim& d : g.type(v).shape) shape.push_back(d.eval(symbols));
    arrays.push_back(ir::HostArray::zeros(g.type(v).dtype, shape));
    for (int64_t i = 0; i < arrays.back().numel(); ++i)
      arrays.back().set_bits(i, is_float(g.type(v).dtype)
                                    ? ir::from_double(normal(random), g.type(v).dtype)
                                    : ir::from_int(random() % 4, g.type(v).dtype));
  }
  return arrays;
}

void expect_same(const std::vector<ir::HostArray>& x, const std::vector<ir::HostArray>& y) {
  for (size_t o = 0; o < x.size(); ++o)
    for (int64_t i = 0; i < x[o].numel(); ++i) {
      const double a = ir::to_double(x[o].bits(i), x[o].dtype);
      const double b = ir::to_double(y[o].bits(i), y[o].dtype);
      if (std::isnan(a) && std::isnan(b)) continue;
      ASSERT_EQ(x[o].bits(i), y[o].bits(i))
          << "output " << o << "[" << i << "]: " << a << ", " << b;
    }
}

TEST(PassesFuzz, KeepsEveryBit) {
  static const Target target;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    const ir::Graph before = RandomGraph(seed).build(8 + static_cast<int>(seed % 40));
    const std::vector<int64_t> symbols{4};
    const auto inputs = inputs_of(before, symbols);
    const auto expected = ir::evaluate(before, inputs, symbols);
    for (const bool fuse : {true, false}) {
      ir::Graph after = before;
      passes::PassContext context{.target = target};
      context.options.fuse = fuse;
      ASSERT_NO_THROW(passes::run_passes(after, context)) << before.str();
      expect_same(expected, ir::evaluate(after, inputs, symbols));
      if (HasFailure()) FAIL() << before.str() << after.str();
      for (const ir::Eqn& e : after.eqns()) {
        const ir::OpKind kind = e.info().kind;
        EXPECT_FALSE(ir::is_pointwise(kind) || kind == ir::OpKind::Reduce ||
                     kind == ir::OpKind::Movement)
            << e.info().name << " is in no region";
      }
    }
  }
}

}  // namespace
}  // namespace poot::testing
