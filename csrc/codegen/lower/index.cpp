// Index expressions and masks. An access is base + stride * column wherever the stride is known, so
// the base (the expression with the column's coordinate taken as 0) is scalar arithmetic that is
// emitted outside the column loop; only what is not affine becomes vector arithmetic.
#include <bit>

#include "codegen/lower/emitter.h"

namespace poot::codegen::lowering {

using kir::Op;
using kir::Pred;
using tile::IndexId;
using tile::IndexOp;
using KValue = kir::ValueId;

KValue Emitter::i64(int64_t v) {
  for (auto s = scopes_.rbegin(); s != scopes_.rend(); ++s)
    if (auto it = s->constants.find(v); it != s->constants.end()) return it->second;
  const KValue c = b_.i64(v);
  scopes_.back().constants[v] = c;
  known_[c.index] = v;
  return c;
}

std::optional<int64_t> Emitter::constant_of(KValue v) const {
  auto it = known_.find(v.index);
  return it == known_.end() ? std::nullopt : std::optional(it->second);
}

KValue Emitter::add(KValue a, KValue b) {
  const auto x = constant_of(a), y = constant_of(b);
  if (x && y) return i64(static_cast<int64_t>(static_cast<uint64_t>(*x) + uint64_t(*y)));
  if (x && *x == 0) return b;
  if (y && *y == 0) return a;
  return b_.emit(Op::iadd, {a, b});
}

KValue Emitter::mul(KValue a, KValue b) {
  const auto x = constant_of(a), y = constant_of(b);
  if (x && y) return i64(static_cast<int64_t>(static_cast<uint64_t>(*x) * uint64_t(*y)));
  if ((x && *x == 0) || (y && *y == 1)) return a;
  if ((y && *y == 0) || (x && *x == 1)) return b;
  return b_.emit(Op::imul, {a, b});
}

// Floor division and modulo by a positive divisor, scalar or vector.
KValue Emitter::divide(IndexOp op, const tile::IndexNode& n, KValue a, KValue b) {
  const kir::Type t = b_.type(a);
  const tile::IndexNode& divisor = program().index.at(n.b.index);
  if (divisor.op == IndexOp::Const && divisor.value > 0 &&
      std::has_single_bit(static_cast<uint64_t>(divisor.value))) {
    const int shift = std::countr_zero(static_cast<uint64_t>(divisor.value));
    const int64_t k = op == IndexOp::Div ? shift : divisor.value - 1;
    return b_.emit(op == IndexOp::Div ? Op::ashr : Op::band, {a, splat(i64(k), t.lanes)});
  }
  if (facts_.non_negative(n.a)) return b_.emit(op == IndexOp::Div ? Op::sdiv : Op::srem, {a, b});
  const KValue zero = splat(i64(0), t.lanes), r = b_.emit(Op::srem, {a, b});
  const KValue below = b_.icmp(Pred::slt, r, zero);
  if (op == IndexOp::Mod) return b_.select(below, b_.emit(Op::iadd, {r, b}), r);
  const KValue q = b_.emit(Op::sdiv, {a, b});
  return b_.select(below, b_.emit(Op::isub, {q, splat(i64(1), t.lanes)}), q);
}

KValue Emitter::index(IndexId i, tile::AxisId zeroed) {
  if (zeroed && (facts_.deps(i) & TileFacts::bit(zeroed)) == 0) zeroed = {};
  const std::pair<uint32_t, uint32_t> key(i.index, zeroed.index);
  for (auto s = scopes_.rbegin(); s != scopes_.rend(); ++s)
    if (auto it = s->index.find(key); it != s->index.end()) return it->second;
  const tile::IndexNode& n = program().index.at(i.index);
  KValue v;
  switch (n.op) {
    case IndexOp::Const:
      return i64(n.value);
    case IndexOp::Coord:
      if (zeroed && n.ref == zeroed.index) return i64(0);
      if ((bound_ >> n.ref & 1) == 0 || n.ref == vector_.axis.index)
        throw InternalError("coordinate of " + program().axes.at(n.ref).name + " is not scalar");
      return coordinates_.at(n.ref);
    case IndexOp::Scalar:
      v = exact(tile::ValueId(n.ref));
      break;
    case IndexOp::Loaded: {
      const tile::ValueId value(n.ref);
      v = exact(value);
      if (b_.type(v).elem != kir::Elem::I64)
        v = b_.emit(is_signed(program().type(value).dtype) ? Op::sext : Op::zext, {kir::Elem::I64},
                    {v});
      break;
    }
    case IndexOp::Meta:
      v = b_.meta(static_cast<uint32_t>(n.value));
      break;
    default: {
      const KValue a = index(n.a, zeroed), b = index(n.b, zeroed);
      switch (n.op) {
        case IndexOp::Add:
          v = add(a, b);
          break;
        case IndexOp::Mul:
          v = mul(a, b);
          break;
        case IndexOp::Min:
        case IndexOp::Max:
          v = b_.emit(n.op == IndexOp::Min ? Op::smin : Op::smax, {a, b});
          break;
        default:
          v = divide(n.op, n, a, b);
      }
    }
  }
  scopes_.back().index[key] = v;
  return v;
}

KValue Emitter::index_lanes(IndexId i) {
  for (auto s = scopes_.rbegin(); s != scopes_.rend(); ++s)
    if (auto it = s->index_lanes.find(i.index); it != s->index_lanes.end()) return it->second;
  const tile::IndexNode& n = program().index.at(i.index);
  const kir::Type t{kir::Elem::I64, vector_.lanes};
  KValue v;
  if (!varies(facts_.deps(i))) {
    v = splat(index(i), t.lanes);
  } else if (auto stride = tile::const_stride(program(), i, vector_.axis)) {
    const KValue first = add(index(i, vector_.axis), mul(vector_.base, i64(*stride)));
    KValue steps = b_.emit(Op::lane_ids, t, {});
    if (*stride != 1) steps = b_.emit(Op::imul, {steps, splat(i64(*stride), t.lanes)});
    v = b_.emit(Op::iadd, {splat(first, t.lanes), steps});
  } else if (n.op == IndexOp::Loaded) {
    const tile::ValueId value(n.ref);
    v = exact(value, t.lanes);
    if (b_.type(v).elem != kir::Elem::I64)
      v = b_.emit(is_signed(program().type(value).dtype) ? Op::sext : Op::zext, t, {v});
  } else {
    const KValue a = index_lanes(n.a), b = index_lanes(n.b);
    switch (n.op) {
      case IndexOp::Add:
        v = b_.emit(Op::iadd, {a, b});
        break;
      case IndexOp::Mul:
        v = b_.emit(Op::imul, {a, b});
        break;
      case IndexOp::Min:
      case IndexOp::Max:
        v = b_.emit(n.op == IndexOp::Min ? Op::smin : Op::smax, {a, b});
        break;
      case IndexOp::Div:
      case IndexOp::Mod:
        v = divide(n.op, n, a, b);
        break;
      default:
        throw InternalError("index leaf varies with a column in no known way");
    }
  }
  scopes_.back().index_lanes[i.index] = v;
  return v;
}

std::optional<int64_t> Emitter::static_extent(tile::AxisId a) const {
  const tile::IndexNode& n = program().index.at(program().axes.at(a.index).extent.index);
  return n.op == IndexOp::Const ? std::optional(n.value) : std::nullopt;
}

Emitter::Guard Emitter::guard(const tile::Mask& mask) {
  Guard g;
  const auto both = [&](KValue a, KValue b) { return a ? b_.emit(Op::band, {a, b}) : b; };
  // On a GPU a vector is read under one condition where all its lanes agree on it: neither bound
  // lies inside a vector.
  const auto whole_vectors = [&](IndexId i, IndexId limit) {
    return target_.isa == Isa::Ptx && vector_.axis && !varies(facts_.deps(limit)) &&
           tile::const_stride(program(), i, vector_.axis) == 1 &&
           facts_.known_factor(i, vector_.axis) % vector_.lanes == 0 &&
           facts_.known_factor(limit, {}) % vector_.lanes == 0;
  };
  const auto bound = [&](IndexId i, IndexId limit, Pred p) {
    if (varies(facts_.deps(i)) && whole_vectors(i, limit)) {
      const KValue first = add(index(i, vector_.axis), vector_.base);
      g.scalar = both(g.scalar, b_.icmp(p, first, index(limit)));
    } else if (varies(facts_.deps(i) | facts_.deps(limit))) {
      g.lanes = both(g.lanes, b_.icmp(p, index_lanes(i), index_lanes(limit)));
    } else {
      const KValue at = index(i), end = index(limit);
      const auto x = constant_of(at), y = constant_of(end);
      if (!x || !y)
        g.scalar = both(g.scalar, b_.icmp(p, at, end));
      else if (p == Pred::sge ? *x < *y : *x >= *y)
        g.never = true;
    }
  };
  for (const tile::MaskTerm& t : mask) {
    const tile::IndexNode& lo = program().index.at(t.lo.index);
    const bool starts_at_0 = lo.op == IndexOp::Const && lo.value <= 0;
    if (!starts_at_0 || !facts_.non_negative(t.index)) bound(t.index, t.lo, Pred::sge);
    const tile::IndexNode &at = program().index.at(t.index.index),
                          &hi = program().index.at(t.hi.index);
    const bool ends_after = at.op == IndexOp::Coord && hi.op == IndexOp::Const &&
                            hi.value >= program().axes.at(at.ref).capacity;
    if (!ends_after) bound(t.index, t.hi, Pred::slt);
  }
  return g;
}

void Emitter::hoist_index(IndexId i, tile::AxisId column) {
  if (!i) return;
  AxisSet deps = facts_.deps(i);
  const bool affine = column && (deps & TileFacts::bit(column)) != 0 &&
                      tile::const_stride(program(), i, column).has_value();
  if (affine) deps &= ~TileFacts::bit(column);
  const tile::IndexNode& n = program().index.at(i.index);
  if ((deps & ~bound_) == 0) {
    index(i, affine ? column : tile::AxisId());
    return;
  }
  if (n.op == IndexOp::Loaded) hoist(tile::ValueId(n.ref), column);
  if (n.op == IndexOp::Const || n.op == IndexOp::Coord || n.op == IndexOp::Scalar ||
      n.op == IndexOp::Loaded || n.op == IndexOp::Meta)
    return;
  hoist_index(n.a, column);
  hoist_index(n.b, column);
}

void Emitter::hoist_access(const tile::Inst& inst, tile::AxisId column) {
  hoist_index(inst.index, column);
  for (const tile::MaskTerm& t : inst.mask) {
    hoist_index(t.index, column);
    hoist_index(t.lo, column);
    hoist_index(t.hi, column);
  }
}

void Emitter::hoist_extent(tile::AxisId a) {
  hoist_index(program().axes.at(a.index).extent, {});
}

}  // namespace poot::codegen::lowering
