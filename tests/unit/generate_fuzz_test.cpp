// Random chains of views, movement and pointwise ops, from fixed seeds, against the graph oracle.
#include "tile_harness.h"

namespace poot::testing {
namespace {

using ir::OpCode;
using Sizes = std::vector<int64_t>;

class ChainBuilder {
 public:
  explicit ChainBuilder(uint64_t seed) : rng_(seed), b_("chain") {}

  std::string run() {
    Sizes shape;
    for (int64_t rank = pick(1, 4); rank > 0; rank--) shape.push_back(kDims[pick(0, 5)]);
    v_ = b_.input({DType::F32, dims(shape)});
    for (int64_t steps = pick(2, 7); steps > 0; steps--) step();
    b_.output(v_);
    return b_.finish().str();
  }

 private:
  static constexpr int64_t kDims[] = {1, 2, 3, 4, 6, 8};

  int64_t pick(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(rng_() % static_cast<uint64_t>(hi - lo + 1));
  }
  static Shape dims(const Sizes& s) { return Shape(s.begin(), s.end()); }
  Sizes shape() const {
    Sizes out;
    for (const Dim& d : b_.type(v_).shape) out.push_back(d.value());
    return out;
  }
  void apply(OpCode op, std::vector<ir::Attr> attrs) { v_ = b_.emit(op, {v_}, std::move(attrs)); }

  void step() {
    const Sizes s = shape();
    const int64_t axis = pick(0, static_cast<int64_t>(s.size()) - 1);
    const auto a = static_cast<size_t>(axis);
    switch (pick(0, 9)) {
      case 0:
        v_ = b_.emit(OpCode::neg, {v_});
        break;
      case 1: {  // with an input that broadcasts
        Sizes other = s;
        for (int64_t& d : other)
          if (pick(0, 2) == 0) d = 1;
        other.erase(other.begin(), other.begin() + pick(0, axis));
        v_ = b_.emit(OpCode::add, {v_, b_.input({DType::F32, dims(other)})});
        break;
      }
      case 2:
        apply(OpCode::reshape, {dims(regroup(s))});
        break;
      case 3: {
        std::vector<int64_t> perm;
        for (size_t i = 0; i < s.size(); i++) perm.push_back(static_cast<int64_t>(i));
        std::shuffle(perm.begin(), perm.end(), rng_);
        apply(OpCode::transpose, {perm});
        break;
      }
      case 4: {
        const int64_t start = pick(0, s[a] - 1), end = pick(start + 1, s[a]);
        apply(OpCode::slice, {axis, Dim(start), Dim(end), pick(1, 2)});
        break;
      }
      case 5:
        apply(OpCode::flip, {std::vector<int64_t>{axis}});
        break;
      case 6: {
        Sizes wide = s;
        if (s.size() < 5) wide.insert(wide.begin(), pick(1, 3));
        for (int64_t& d : wide)
          if (d == 1) d = pick(1, 3);
        apply(OpCode::broadcast, {dims(wide)});
        break;
      }
      case 7: {
        Sizes other = s;
        other[a] = pick(1, 4);
        const ir::ValueId w = b_.input({DType::F32, dims(other)});
        v_ = pick(0, 1) ? b_.emit(OpCode::concat, {v_, w}, {axis})
                        : b_.emit(OpCode::concat, {w, v_}, {axis});
        break;
      }
      case 8: {
        Shape low(s.size(), 0), high(s.size(), 0);
        low[a] = pick(0, 2);
        high[a] = pick(0, 2);
        v_ = b_.emit(OpCode::pad, {v_, ir::Scalar::of(DType::F32, 0.5)}, {low, high});
        break;
      }
      default: {
        const int64_t n = pick(1, 5);
        const ir::ValueId i =
            b_.emit(OpCode::iota, {}, {DType::I64, Dim(n), Dim(pick(0, s[a] - 1)), Dim(0)});
        v_ = b_.emit(OpCode::gather, {v_, i}, {axis});
      }
    }
    if (numel(b_.type(v_).shape).value() > 20000)
      apply(OpCode::slice, {int64_t{0}, Dim(0), Dim(1), int64_t{1}});
  }

  // The same number of elements in other dims.
  Sizes regroup(const Sizes& s) {
    int64_t n = 1;
    for (const int64_t d : s) n *= d;
    Sizes out;
    while (out.size() < 3 && n > 1) {
      Sizes divisors;
      for (int64_t d = 1; d <= n; d++)
        if (n % d == 0) divisors.push_back(d);
      out.push_back(
          divisors[static_cast<size_t>(pick(0, static_cast<int64_t>(divisors.size()) - 1))]);
      n /= out.back();
    }
    out.push_back(n);
    return out;
  }

  std::mt19937_64 rng_;
  ir::Builder b_;
  ir::ValueId v_;
};

TEST(GenerateFuzz, chains_of_views) {
  for (uint64_t seed = 0; seed < 300; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::string graph = ChainBuilder(seed).run();
    try {
      run_tile_case({.graph = graph});
    } catch (const Error& e) {
      ADD_FAILURE() << e.what() << "\n" << graph;
    }
    if (HasFailure()) break;
  }
}

// x (permuted in memory) times an input that broadcasts, reduced; for rows also used again.
TileCase random_reduction(uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto pick = [&](int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(rng() % static_cast<uint64_t>(hi - lo + 1));
  };
  const int64_t sizes[] = {1, 2, 3, 5, 16, 17, 33, 70, 300};
  const DType dtypes[] = {DType::F32, DType::BF16, DType::F64, DType::I64, DType::I32, DType::U8};
  const OpCode ops[] = {OpCode::reduce_sum, OpCode::reduce_max, OpCode::reduce_min,
                        OpCode::reduce_prod};
  const DType dtype = dtypes[pick(0, 5)];
  const OpCode op = ops[pick(0, 3)];
  const bool row = pick(0, 1);
  Shape shape, other;
  for (int64_t rank = pick(1, 4), n = 1; rank > 0; rank--) {
    int64_t d = sizes[pick(0, 8)];
    if (n * d > 20000) d = 2;
    n *= d;
    shape.push_back(d);
    other.push_back(pick(0, 1) ? d : 1);
  }
  const auto rank = static_cast<int64_t>(shape.size());
  std::vector<int64_t> axes;
  if (row) {
    for (int64_t a = pick(0, rank - 1); a < rank; a++) axes.push_back(a);
  } else {
    for (int64_t a = 0; a < rank; a++)
      if (pick(0, 1)) axes.push_back(a);
    if (axes.empty()) axes.push_back(0);
  }
  ir::Builder b("reduction");
  const ir::ValueId x = b.input({dtype, shape}), y = b.input({dtype, other});
  const ir::ValueId v = b.emit(OpCode::mul, {x, y});
  const ir::ValueId r = b.emit(op, {v}, {axes, row || pick(0, 1) == 1});
  if (row && pick(0, 1)) b.output(r);
  b.output(row ? b.emit(OpCode::sub, {v, r}) : b.emit(OpCode::neg, {r}));

  TileCase c;
  c.kind = row ? passes::RequestKind::Row : passes::RequestKind::Reduce;
  c.graph = b.finish().str();
  c.tolerance = dtype == DType::BF16 ? 2e-2 : is_float(dtype) ? 2e-4 : 0;
  // x with its dims in another order in memory.
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); i++) order[i] = i;
  if (pick(0, 1)) std::shuffle(order.begin(), order.end(), rng);
  ir::Layout layout{shape, pick(0, 3), 1};
  Dim stride = 1;
  for (const size_t i : order) {
    layout.strides[i] = stride;
    stride = stride * shape[i];
  }
  c.inputs.emplace_back(0, layout);
  return c;
}

TEST(GenerateFuzz, reductions) {
  for (uint64_t seed = 0; seed < 200; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TileCase c = random_reduction(seed);
    try {
      run_tile_case(c);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what() << "\n" << c.graph;
    }
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace poot::testing
