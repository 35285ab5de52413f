// The walk is memoised by (value, coordinates, guard): a value read at the same place twice is one
// expression, so work is linear in the body for bodies without movement.
//
// A guard says where the element is wanted at all (inside one operand of a concat, inside a pad).
// Loads under it are masked by it; a computed value under it is arbitrary elsewhere, and whoever
// introduced the guard selects. Divisors under a guard become 1 outside it, so that what is not
// wanted raises no status bit.
#include "codegen/generate/index_map.h"

#include <algorithm>

#include "program/kernel_abi.h"
#include "support/errors.h"

namespace poot::codegen {
namespace {

using ir::OpCode;
using ir::OpKind;

ir::Scalar i64(int64_t v) {
  return ir::Scalar::of(DType::I64, v);
}

[[noreturn]] void refuse(const ir::Eqn& e, const std::string& missing) {
  throw Unsupported("equation " + std::string(e.info().name), missing);
}

bool divides_integers(OpCode op, DType dtype) {
  return !is_float(dtype) && (op == OpCode::floor_div || op == OpCode::trunc_div ||
                              op == OpCode::remainder || op == OpCode::fmod);
}

}  // namespace

IndexMap::IndexMap(const ir::Graph& body, std::span<const ir::Layout> inputs, Space& space,
                   Expressions& nodes, Coordinates reduced, Shape reduced_shape)
    : body_(body),
      inputs_(inputs),
      space_(space),
      nodes_(nodes),
      reduced_(std::move(reduced)),
      reduced_shape_(std::move(reduced_shape)) {}

Coordinates IndexMap::broadcast_to(const Shape& shape, const Coordinates& at) const {
  Coordinates out(shape.size());
  for (size_t i = 0; i < shape.size(); i++)
    if (!shape[i].is_const(1)) out[i] = at[at.size() - shape.size() + i];
  return out;
}

NodeId IndexMap::size_node(const Dim& d) {
  if (d.is_const()) return nodes_.literal(i64(d.value()));
  return nodes_.add({.kind = NodeKind::Index, .dtype = DType::I64, .index = Affine(d)});
}

NodeId IndexMap::guard_node(const Guard& guard) {
  return nodes_.add({.kind = NodeKind::Guard, .dtype = DType::Bool, .guard = guard});
}

void IndexMap::restrict(Guard& guard, const Affine& index, const Dim& lo, const Dim& hi) const {
  if (space_.proves_nonnegative(index - Affine(lo)) && space_.proves_less(index, hi)) return;
  guard.push_back({index, lo, hi});
}

NodeId IndexMap::at(const ir::Operand& operand, const Coordinates& coordinates,
                    const Guard& guard) {
  if (!ir::is_value(operand)) return nodes_.literal(std::get<ir::Scalar>(operand));
  const auto v = std::get<ir::ValueId>(operand);
  std::string k = std::to_string(v.index);
  for (const Affine& c : coordinates) k += "," + c.key();
  k += key(guard);
  if (const auto it = memo_.find(k); it != memo_.end()) return it->second;
  NodeId out;
  if (body_.is_input(v)) {
    const auto inputs = body_.inputs();
    const size_t i =
        static_cast<size_t>(std::find(inputs.begin(), inputs.end(), v) - inputs.begin());
    out = nodes_.add({.kind = NodeKind::Load,
                      .dtype = body_.type(v).dtype,
                      .input = static_cast<uint32_t>(i),
                      .index = space_.joined(element_index(inputs_[i], coordinates)),
                      .guard = guard});
  } else {
    out = equation(body_.eqns()[static_cast<size_t>(body_.def(v))], v, coordinates, guard);
  }
  memo_.emplace(std::move(k), out);
  return out;
}

NodeId IndexMap::equation(const ir::Eqn& e, ir::ValueId v, const Coordinates& at,
                          const Guard& guard) {
  const DType dtype = body_.type(v).dtype;
  switch (e.info().kind) {
    case OpKind::Unary:
    case OpKind::Binary:
    case OpKind::Compare:
    case OpKind::Ternary:
    case OpKind::Cast:
      return pointwise(e, dtype, at, guard);
    case OpKind::Source:
      return source(e, dtype, at, guard);
    case OpKind::View:
      return view(e, at, guard);
    case OpKind::Movement:
      if (e.op == OpCode::concat) return concat(e, at, guard);
      if (e.op == OpCode::pad) return pad(e, at, guard);
      return gather(e, at, guard);
    case OpKind::Reduce:
      return reduce(e, dtype, at, guard);
    case OpKind::Contraction:
      return contraction(e, dtype, at, guard);
    default:
      refuse(e, "an equation of this kind inside a generated kernel");
  }
}

NodeId IndexMap::pointwise(const ir::Eqn& e, DType dtype, const Coordinates& at,
                           const Guard& guard) {
  std::vector<NodeId> args;
  for (const ir::Operand& o : e.inputs)
    args.push_back(this->at(o, broadcast_to(body_.type(o).shape, at), guard));
  if (!guard.empty() && divides_integers(e.op, dtype))
    args[1] = nodes_.pointwise(
        OpCode::select, dtype,
        {guard_node(guard), args[1], nodes_.literal(ir::Scalar::of(dtype, int64_t{1}))});
  if (const NodeId folded = fold_index(e.op, dtype, args)) return folded;
  return nodes_.pointwise(e.op, dtype, std::move(args));
}

// i64 sums and products of index values stay index values, so that a gather by arange + offset is
// an affine read. The product needs a literal.
NodeId IndexMap::fold_index(OpCode op, DType dtype, const std::vector<NodeId>& args) {
  if (dtype != DType::I64 || args.size() != 2) return {};
  if (op != OpCode::add && op != OpCode::sub && op != OpCode::mul) return {};
  const auto affine = [&](NodeId n) -> std::optional<Affine> {
    const Node& node = nodes_.at(n);
    if (node.kind == NodeKind::Index) return node.index;
    if (node.kind != NodeKind::Literal) return std::nullopt;
    const int64_t v = node.literal->as_int();
    if (v > INT32_MAX || v < INT32_MIN) return std::nullopt;
    return Affine(v);
  };
  const auto a = affine(args[0]), b = affine(args[1]);
  if (!a || !b || (a->is_constant() && b->is_constant())) return {};
  Affine out;
  if (op == OpCode::mul) {
    if (!a->is_constant() && !b->is_constant()) return {};
    out = a->is_constant() ? *b * a->offset : *a * b->offset;
  } else {
    out = op == OpCode::add ? *a + *b : *a - *b;
  }
  return nodes_.add({.kind = NodeKind::Index, .dtype = DType::I64, .index = std::move(out)});
}

NodeId IndexMap::source(const ir::Eqn& e, DType dtype, const Coordinates& at, const Guard& guard) {
  if (e.op == OpCode::full) return nodes_.cast(this->at(e.inputs[0], {}, guard), dtype);
  Affine value = e.op == OpCode::size_value ? Affine(e.attr<Dim>("value"))
                                            : at[0] * e.attr<Dim>("step") + e.attr<Dim>("start");
  const DType narrow = dtype == DType::I32 ? DType::I32 : DType::I64;
  const NodeId n = nodes_.add({.kind = NodeKind::Index, .dtype = narrow, .index = value});
  return nodes_.cast(n, dtype);
}

NodeId IndexMap::view(const ir::Eqn& e, const Coordinates& at, const Guard& guard) {
  const Shape& from = body_.type(e.inputs[0]).shape;
  Coordinates c;
  switch (e.op) {
    case OpCode::broadcast:
      c = broadcast_to(from, at);
      break;
    case OpCode::reshape:
      c = reshape_coordinates(space_, at, body_.type(e.outs[0]).shape, from);
      break;
    case OpCode::transpose: {
      const auto& perm = e.attr<std::vector<int64_t>>("perm");
      c.resize(perm.size());
      for (size_t i = 0; i < perm.size(); i++) c[static_cast<size_t>(perm[i])] = at[i];
      break;
    }
    case OpCode::slice: {
      c = at;
      Affine& s = c[static_cast<size_t>(e.attr<int64_t>("axis"))];
      s = s * e.attr<int64_t>("step") + e.attr<Dim>("start");
      break;
    }
    case OpCode::flip:
      c = at;
      for (const int64_t axis : e.attr<std::vector<int64_t>>("axes")) {
        const auto i = static_cast<size_t>(axis);
        c[i] = Affine(from[i] - Dim(1)) - c[i];
      }
      break;
    default:
      refuse(e, "an index map of this view");
  }
  return this->at(e.inputs[0], c, guard);
}

NodeId IndexMap::concat(const ir::Eqn& e, const Coordinates& at, const Guard& guard) {
  const auto axis = static_cast<size_t>(e.attr<int64_t>("axis"));
  struct Part {
    NodeId value;
    Guard own;
  };
  std::vector<Part> parts;
  Dim lo = 0;
  for (const ir::Operand& o : e.inputs) {
    const Dim size = body_.type(o).shape[axis], hi = lo + size;
    const bool below = space_.proves_less(at[axis], lo);
    const bool above = space_.proves_nonnegative(at[axis] - Affine(hi));
    if (!size.is_const(0) && !below && !above) {
      Part part;
      restrict(part.own, at[axis], lo, hi);
      Guard inner = guard;
      inner.insert(inner.end(), part.own.begin(), part.own.end());
      Coordinates c = at;
      c[axis] = c[axis] - Affine(lo);
      part.value = this->at(o, c, inner);
      const bool only = part.own.empty();
      if (only) parts.clear();
      parts.push_back(std::move(part));
      if (only) break;
    }
    lo = hi;
  }
  if (parts.empty()) {  // an empty result: there are no positions
    const DType dtype = body_.type(e.outs[0]).dtype;
    return nodes_.literal(is_float(dtype) ? ir::Scalar::of(dtype, 0.0)
                                          : ir::Scalar::of(dtype, int64_t{0}));
  }
  NodeId out = parts.back().value;
  for (size_t i = parts.size() - 1; i-- > 0;)
    out = nodes_.pointwise(OpCode::select, nodes_.at(out).dtype,
                           {guard_node(parts[i].own), parts[i].value, out});
  return out;
}

NodeId IndexMap::pad(const ir::Eqn& e, const Coordinates& at, const Guard& guard) {
  const Shape& shape = body_.type(e.inputs[0]).shape;
  const auto& low = e.attr<std::vector<Dim>>("low");
  Guard own;
  Coordinates c = at;
  for (size_t i = 0; i < shape.size(); i++) {
    c[i] = c[i] - Affine(low[i]);
    restrict(own, c[i], 0, shape[i]);
  }
  if (own.empty()) return this->at(e.inputs[0], c, guard);
  Guard inner = guard;
  inner.insert(inner.end(), own.begin(), own.end());
  const NodeId inside = this->at(e.inputs[0], c, inner);
  const NodeId outside = this->at(e.inputs[1], {}, guard);
  const Node load = nodes_.at(inside);
  if (load.kind == NodeKind::Load && !load.literal && key(load.guard) == key(inner) &&
      nodes_.at(outside).kind == NodeKind::Literal) {
    Node filled = load;
    filled.literal = nodes_.at(outside).literal;
    return nodes_.add(std::move(filled));
  }
  return nodes_.pointwise(OpCode::select, load.dtype, {guard_node(own), inside, outside});
}

NodeId IndexMap::checked(NodeId index, const Dim& size, const Guard& guard, bool wrap,
                         uint32_t code) {
  const NodeId i = nodes_.cast(index, DType::I64);
  const NodeId n = size_node(size), zero = nodes_.literal(i64(0));
  const auto op = [&](OpCode code, NodeId a, NodeId b) {
    const bool compare = ir::op_info(code).kind == OpKind::Compare || code == OpCode::bit_and;
    return nodes_.pointwise(code, compare ? DType::Bool : DType::I64, {a, b});
  };
  NodeId out = i;
  if (wrap) {
    const NodeId negative = op(OpCode::lt, i, zero);
    out = nodes_.pointwise(OpCode::select, DType::I64, {negative, op(OpCode::add, i, n), i});
  }
  NodeId in_range = op(OpCode::bit_and, op(OpCode::ge, out, zero), op(OpCode::lt, out, n));
  if (!guard.empty()) {
    const NodeId unwanted = nodes_.pointwise(OpCode::bit_not, DType::Bool, {guard_node(guard)});
    in_range = nodes_.pointwise(OpCode::bit_or, DType::Bool, {unwanted, in_range});
  }
  const auto same = [&](const Check& c) { return c.condition == in_range; };
  if (std::none_of(checks_.begin(), checks_.end(), same)) checks_.push_back({in_range, code});
  return out;
}

Affine IndexMap::indirect(NodeId index, const Dim& size, Guard& guard, bool wrap, uint32_t code) {
  if (nodes_.at(index).kind == NodeKind::Index) {
    Affine a = nodes_.at(index).index;
    if (wrap && space_.proves_less(a, 0)) a = a + Affine(size);
    if (space_.proves_nonnegative(a) && space_.proves_less(a, size)) return a;
  }
  const NodeId last = size_node(size - Dim(1)), zero = nodes_.literal(i64(0));
  const NodeId below = nodes_.pointwise(OpCode::minimum, DType::I64,
                                        {checked(index, size, guard, wrap, code), last});
  const NodeId clamped = nodes_.pointwise(OpCode::maximum, DType::I64, {below, zero});
  restrict(guard, Affine(), 0, size);
  return space_.loaded(clamped, size);
}

NodeId IndexMap::gather(const ir::Eqn& e, const Coordinates& at, const Guard& guard) {
  const auto axis = static_cast<size_t>(e.attr<int64_t>("axis"));
  const Dim size = body_.type(e.inputs[0]).shape[axis];
  Coordinates c = at;
  Guard inner = guard;
  if (e.op == OpCode::take) {
    c[axis] =
        indirect(this->at(e.inputs[1], at, guard), size, inner, false, program::kPlaceOutOfRange);
  } else {
    const size_t rank = body_.type(e.inputs[1]).shape.size();
    const auto first = at.begin() + static_cast<std::ptrdiff_t>(axis);
    const auto last = first + static_cast<std::ptrdiff_t>(rank);
    const Affine selected = indirect(this->at(e.inputs[1], {first, last}, guard), size, inner, true,
                                     program::kIndexOutOfRange);
    c.assign(at.begin(), first);
    c.push_back(selected);
    c.insert(c.end(), last, at.end());
  }
  return this->at(e.inputs[0], c, inner);
}

// The product over the reduced coordinate; addmm's bias, before the one rounding. In f32, where
// eager's library adds each part of a sum to what holds the bias, the sum starts from it.
NodeId IndexMap::contraction(const ir::Eqn& e, DType dtype, const Coordinates& at,
                             const Guard& guard) {
  if (!guard.empty()) refuse(e, "a product under concat, pad or gather");
  const bool has_bias = e.op == OpCode::addmm;
  const ir::Operand &a = e.inputs[has_bias ? 1 : 0], &b = e.inputs[has_bias ? 2 : 1];
  if (reduced_.size() != 1 || body_.type(a).shape.back() != reduced_shape_[0])
    refuse(e, "products over different sizes in one kernel");
  const size_t n = at.size();
  Coordinates left = at, right = at;
  left[n - 1] = right[n - 2] = reduced_[0];
  const DType wide = opmath(dtype);
  Node product{
      .kind = NodeKind::Dot, .dtype = wide, .args = {this->at(a, left), this->at(b, right)}};
  const auto bias_at = [&] {
    const ir::Operand& bias = e.inputs[0];
    return nodes_.cast(this->at(bias, broadcast_to(body_.type(bias).shape, at)), wide);
  };
  const bool starts = has_bias && dtype == DType::F32 && e.attr<double>("alpha") == 1 &&
                      e.attr<double>("beta") == 1;
  if (starts) product.args.push_back(bias_at());
  NodeId total = nodes_.add(std::move(product));
  if (has_bias && !starts) {
    const auto scaled = [&](NodeId v, std::string_view factor) {
      const double f = e.attr<double>(factor);
      if (f == 1) return v;
      return nodes_.pointwise(OpCode::mul, wide, {v, nodes_.literal(ir::Scalar::of(wide, f))});
    };
    total = scaled(total, "alpha");
    if (e.attr<double>("beta") != 0)
      total = nodes_.pointwise(OpCode::add, wide, {scaled(bias_at(), "beta"), total});
  }
  return nodes_.cast(total, dtype);
}

NodeId IndexMap::reduce(const ir::Eqn& e, DType dtype, const Coordinates& at, const Guard& guard) {
  if (!guard.empty()) refuse(e, "a reduction under concat, pad or gather");
  const Shape& shape = body_.type(e.inputs[0]).shape;
  const auto& axes = e.attr<std::vector<int64_t>>("axes");
  const bool keepdim = e.attr<bool>("keepdim");
  Coordinates c(shape.size());
  std::vector<size_t> covered;
  size_t next = 0;
  for (size_t i = 0; i < shape.size(); i++) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end()) {
      covered.push_back(i);
      if (keepdim) next++;
    } else {
      c[i] = at[next++];
    }
  }
  const bool trivial =
      std::all_of(covered.begin(), covered.end(), [&](size_t i) { return shape[i].is_const(1); });
  const DType accumulate = opmath(body_.type(e.inputs[0]).dtype);
  for (const Affine& kept : at)
    for (const Affine& r : reduced_)
      for (const AffineTerm& t : r.terms)
        if (!kept.factor(t.atom).is_const(0)) refuse(e, "a reduction read along its own axes");
  if (trivial) {
    NodeId only = nodes_.cast(this->at(e.inputs[0], c), accumulate);
    if (e.op == OpCode::reduce_sum && is_float(accumulate))  // which starts at 0.0: no sum is -0.0
      only = nodes_.pointwise(OpCode::add, accumulate,
                              {only, nodes_.literal(ir::Scalar::of(accumulate, 0.0))});
    if (e.op == OpCode::welford_squares)
      only = nodes_.pointwise(OpCode::sub, accumulate, {only, only});
    return nodes_.cast(only, dtype);
  }
  if (covered.size() != reduced_shape_.size())
    refuse(e, "reductions over different axes in one kernel");
  for (size_t k = 0; k < covered.size(); k++) {
    if (shape[covered[k]] != reduced_shape_[k])
      refuse(e, "reductions of different sizes in one kernel");
    c[covered[k]] = reduced_[k];
  }
  const NodeId operand = nodes_.cast(this->at(e.inputs[0], c), accumulate);
  Node total{.kind = NodeKind::Reduce, .dtype = accumulate, .op = e.op, .args = {operand}};
  if (e.op == OpCode::reduce_sum) total.order = ir::reduce_order(e.text("order")).value();
  return nodes_.cast(nodes_.add(std::move(total)), dtype);
}

}  // namespace poot::codegen
