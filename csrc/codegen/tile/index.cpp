// Index expressions: construction with simplification, interval bounds, and the two questions that
// lowerings ask (stride along an axis, dependence on an axis).
//
// Constants are kept to the right of sums and products, so `x + 3` and `3 + x` are one node.
// Division and modulo by a constant look at a sum as terms with constant coefficients: those
// divisible by the divisor leave the division, and if what remains is known to lie in [0, divisor)
// it vanishes:
//   (r*64 + c) / 64 = r,  (r*64 + c) % 64 = c      with 0 <= c < 64 from c's capacity.
// Where a step K divides the divisor and all terms but a remainder in [0, K), the quotient is that
// of whole steps, so that a block of rows is found once and its rows by addition:
//   (b*64 + r) / 512 = b / 8,  (b*64 + r) % 512 = (b % 8)*64 + r      with 0 <= r < 64.
#include <algorithm>
#include <numeric>

#include "codegen/tile/tile.h"
#include "support/errors.h"

namespace poot::tile {
namespace {

constexpr int64_t kLow = INT64_MIN, kHigh = INT64_MAX;

int64_t clamp128(__int128 v) {
  if (v <= kLow) return kLow;
  if (v >= kHigh) return kHigh;
  return static_cast<int64_t>(v);
}
bool infinite(int64_t v) {
  return v == kLow || v == kHigh;
}
int64_t add_bound(int64_t a, int64_t b) {
  if (infinite(a)) return a;
  if (infinite(b)) return b;
  return clamp128(static_cast<__int128>(a) + b);
}
// 0 * infinity is 0: the factor is exactly 0 there.
int64_t mul_bound(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (infinite(a) || infinite(b)) return (a < 0) == (b < 0) ? kHigh : kLow;
  return clamp128(static_cast<__int128>(a) * b);
}
int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

Bounds mul_bounds(Bounds a, Bounds b) {
  const int64_t c[4] = {mul_bound(a.lo, b.lo), mul_bound(a.lo, b.hi), mul_bound(a.hi, b.lo),
                        mul_bound(a.hi, b.hi)};
  return {*std::min_element(c, c + 4), *std::max_element(c, c + 4)};
}

const IndexNode& node(const Program& p, IndexId i) {
  return p.index.at(i.index);
}

struct Term {
  IndexId value;  // none: the constant 1
  int64_t factor;
};
void collect_terms(const Program& p, IndexId i, int64_t factor, std::vector<Term>& out) {
  const IndexNode& n = node(p, i);
  if (n.op == IndexOp::Const) {
    out.push_back({{}, clamp128(static_cast<__int128>(n.value) * factor)});
  } else if (n.op == IndexOp::Add) {
    collect_terms(p, n.a, factor, out);
    collect_terms(p, n.b, factor, out);
  } else if (n.op == IndexOp::Mul && node(p, n.b).op == IndexOp::Const) {
    collect_terms(p, n.a, clamp128(static_cast<__int128>(node(p, n.b).value) * factor), out);
  } else {
    out.push_back({i, factor});
  }
}

}  // namespace

IndexId TileBuilder::intern(IndexNode n) {
  const std::array<uint64_t, 5> key = {static_cast<uint64_t>(n.op), static_cast<uint64_t>(n.value),
                                       n.ref, n.a.index, n.b.index};
  auto [it, fresh] =
      interned_.try_emplace(key, IndexId(static_cast<uint32_t>(program_.index.size())));
  if (fresh) program_.index.push_back(n);
  return it->second;
}

IndexId TileBuilder::cst(int64_t v) {
  return intern({.op = IndexOp::Const, .value = v});
}
IndexId TileBuilder::coord(AxisId a) {
  // Not for capacity 1 alone: an empty axis has no positions, and its accesses must still say that
  // they are along it.
  const Axis& axis = program_.axes.at(a.index);
  if (axis.capacity == 1 && node(program_, axis.extent) == IndexNode{.value = 1}) return cst(0);
  return intern({.op = IndexOp::Coord, .ref = a.index});
}
IndexId TileBuilder::scalar(ValueId v) {
  if (!type(v).scalar) throw InternalError("tile: an index scalar must be an i64 scalar");
  return intern({.op = IndexOp::Scalar, .ref = v.index});
}
IndexId TileBuilder::loaded(ValueId v) {
  return intern({.op = IndexOp::Loaded, .ref = v.index});
}

IndexId TileBuilder::add(IndexId a, IndexId b) {
  IndexNode x = node(program_, a), y = node(program_, b);
  if (x.op == IndexOp::Const) {
    std::swap(a, b);
    std::swap(x, y);
  }
  if (y.op != IndexOp::Const) return intern({.op = IndexOp::Add, .a = a, .b = b});
  if (x.op == IndexOp::Const) return cst(x.value + y.value);
  if (y.value == 0) return a;
  if (x.op == IndexOp::Add && node(program_, x.b).op == IndexOp::Const)
    return add(x.a, cst(node(program_, x.b).value + y.value));
  return intern({.op = IndexOp::Add, .a = a, .b = b});
}

IndexId TileBuilder::mul(IndexId a, IndexId b) {
  IndexNode x = node(program_, a), y = node(program_, b);
  if (x.op == IndexOp::Const) {
    std::swap(a, b);
    std::swap(x, y);
  }
  if (y.op != IndexOp::Const) return intern({.op = IndexOp::Mul, .a = a, .b = b});
  if (x.op == IndexOp::Const) return cst(x.value * y.value);
  if (y.value == 0) return b;
  if (y.value == 1) return a;
  if (x.op == IndexOp::Mul && node(program_, x.b).op == IndexOp::Const)
    return mul(x.a, cst(node(program_, x.b).value * y.value));
  return intern({.op = IndexOp::Mul, .a = a, .b = b});
}

IndexId TileBuilder::div(IndexId a, IndexId b) {
  return divmod(IndexOp::Div, a, b);
}
IndexId TileBuilder::mod(IndexId a, IndexId b) {
  return divmod(IndexOp::Mod, a, b);
}

IndexId TileBuilder::divmod(IndexOp op, IndexId a, IndexId b) {
  const bool is_div = op == IndexOp::Div;
  const IndexNode y = node(program_, b);
  const Bounds ra = bounds(a), rb = bounds(b);
  if (ra.lo >= 0 && ra.hi < rb.lo) return is_div ? cst(0) : a;
  if (y.op != IndexOp::Const) return intern({.op = op, .a = a, .b = b});
  const int64_t d = y.value;
  if (d <= 0) throw InternalError("tile: division of an index by " + std::to_string(d));
  if (d == 1) return is_div ? a : cst(0);
  if (node(program_, a).op == IndexOp::Const) {
    const int64_t q = floor_div(node(program_, a).value, d);
    return cst(is_div ? q : node(program_, a).value - q * d);
  }
  std::vector<Term> terms;
  collect_terms(program_, a, 1, terms);
  IndexId whole = cst(0), rest = cst(0);
  for (const Term& t : terms) {
    const int64_t q = floor_div(t.factor, d), r = t.factor - q * d;
    const IndexId v = t.value ? t.value : cst(1);
    // A term leaves the division only with its whole factor; a constant leaves by its quotient.
    if (r == 0 || !t.value) whole = add(whole, mul(v, cst(q)));
    if (r != 0) rest = add(rest, mul(v, cst(t.value ? t.factor : r)));
  }
  const Bounds rr = bounds(rest);
  if (rr.lo >= 0 && rr.hi < d) return is_div ? whole : rest;
  if (const auto steps = whole_steps(rest, d)) {
    const auto [k, big, small] = *steps;
    const IndexId q = divmod(op, big, cst(d / k));
    return is_div ? add(whole, q) : add(mul(q, cst(k)), small);
  }
  if (is_div) return add(whole, intern({.op = op, .a = rest, .b = b}));
  return intern({.op = op, .a = rest, .b = b});
}

// i = k * big + small with 0 <= small < k, where k > 1 divides d.
std::optional<TileBuilder::Steps> TileBuilder::whole_steps(IndexId i, int64_t d) {
  std::vector<Term> terms;
  collect_terms(program_, i, 1, terms);
  std::vector<int64_t> candidates;
  for (const Term& t : terms)
    if (t.value && t.factor > 0) candidates.push_back(std::gcd(t.factor, d));
  std::sort(candidates.rbegin(), candidates.rend());
  for (const int64_t k : candidates) {
    if (k <= 1 || k >= d) continue;
    IndexId big = cst(0), small = cst(0);
    for (const Term& t : terms) {
      const IndexId v = t.value ? t.value : cst(1);
      const int64_t q = floor_div(t.factor, k), r = t.factor - q * k;
      if (r == 0 || !t.value) big = add(big, mul(v, cst(q)));
      if (r != 0) small = add(small, mul(v, cst(t.value ? t.factor : r)));
    }
    const Bounds range = bounds(small);
    if (range.lo >= 0 && range.hi < k) return Steps{k, big, small};
  }
  return std::nullopt;
}

IndexId TileBuilder::min(IndexId a, IndexId b) {
  const Bounds x = bounds(a), y = bounds(b);
  if (a == b || x.hi <= y.lo) return a;
  if (y.hi <= x.lo) return b;
  if (node(program_, a).op == IndexOp::Const) std::swap(a, b);
  return intern({.op = IndexOp::Min, .a = a, .b = b});
}
IndexId TileBuilder::max(IndexId a, IndexId b) {
  const Bounds x = bounds(a), y = bounds(b);
  if (a == b || x.lo >= y.hi) return a;
  if (y.lo >= x.hi) return b;
  if (node(program_, a).op == IndexOp::Const) std::swap(a, b);
  return intern({.op = IndexOp::Max, .a = a, .b = b});
}

Bounds TileBuilder::bounds(IndexId i) const {
  const IndexNode& n = node(program_, i);
  switch (n.op) {
    case IndexOp::Const:
      return {n.value, n.value};
    case IndexOp::Coord:
      return {0, std::max<int64_t>(program_.axes.at(n.ref).capacity - 1, 0)};
    case IndexOp::Scalar: {
      const auto it = scalar_bounds_.find(ValueId(n.ref));
      return it == scalar_bounds_.end() ? Bounds{} : it->second;
    }
    case IndexOp::Loaded:
      return {};
    case IndexOp::Meta: {
      const Range r = program_.meta.at(static_cast<size_t>(n.value)).range(symbols_);
      return {r.lo, r.hi};
    }
    default:
      break;
  }
  const Bounds a = bounds(n.a), b = bounds(n.b);
  switch (n.op) {
    case IndexOp::Add:
      return {add_bound(a.lo, b.lo), add_bound(a.hi, b.hi)};
    case IndexOp::Mul:
      return mul_bounds(a, b);
    case IndexOp::Min:
      return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    case IndexOp::Max:
      return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    case IndexOp::Div:
      if (a.lo >= 0 && b.lo >= 1)
        return {infinite(b.hi) ? 0 : a.lo / b.hi, infinite(a.hi) ? kHigh : a.hi / b.lo};
      return {};
    default:  // Mod by a positive divisor
      return {0, infinite(b.hi) ? kHigh : std::max<int64_t>(b.hi - 1, 0)};
  }
}

bool depends_on(const Program& p, IndexId index, AxisId a) {
  const IndexNode& n = node(p, index);
  switch (n.op) {
    case IndexOp::Const:
    case IndexOp::Scalar:
    case IndexOp::Meta:
      return false;
    case IndexOp::Coord:
      return n.ref == a.index;
    case IndexOp::Loaded: {
      const auto& axes = p.type(ValueId(n.ref)).axes;
      return std::find(axes.begin(), axes.end(), a) != axes.end();
    }
    default:
      return depends_on(p, n.a, a) || depends_on(p, n.b, a);
  }
}

std::optional<int64_t> const_stride(const Program& p, IndexId index, AxisId a) {
  const IndexNode& n = node(p, index);
  if (n.op == IndexOp::Coord) return n.ref == a.index ? 1 : 0;
  if (!depends_on(p, index, a)) return 0;
  if (n.op == IndexOp::Add) {
    const auto x = const_stride(p, n.a, a), y = const_stride(p, n.b, a);
    if (x && y) return *x + *y;
  } else if (n.op == IndexOp::Mul && node(p, n.b).op == IndexOp::Const) {
    if (const auto x = const_stride(p, n.a, a)) return *x * node(p, n.b).value;
  }
  return std::nullopt;
}

}  // namespace poot::tile
