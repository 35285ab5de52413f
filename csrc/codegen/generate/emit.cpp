// A node's tile has exactly the axes that its element depends on, so a row's mean is computed once
// a row and a literal once a block, wherever the lowering puts the loops.
#include "codegen/generate/emit.h"

#include <algorithm>

#include "support/errors.h"

namespace poot::codegen {

using ir::OpCode;
using tile::IndexId;
using tile::ValueId;

Emitter::Emitter(tile::TileBuilder& builder, const Region& region, std::vector<tile::AxisId> axes,
                 std::vector<tile::BufferId> inputs)
    : b_(builder), region_(region), axes_(std::move(axes)), inputs_(std::move(inputs)) {}

void Emitter::bind(AtomId atom, Bound bound) {
  bound_[atom] = bound;
  fresh();
}

void Emitter::set(NodeId node, ValueId value) {
  given_[node] = value;
  fresh();
}

void Emitter::reduce_over(int position) {
  reduce_position_ = position;
  fresh();
}

void Emitter::fresh() {
  emitted_ = given_;
  depends_.clear();
}

uint32_t Emitter::depends(const Affine& a) const {
  uint32_t mask = 0;
  for (const AffineTerm& t : a.terms) {
    const Atom& atom = region_.space.atom(t.atom);
    switch (atom.kind) {
      case AtomKind::Var:
        mask |= bound_.at(t.atom).axes;
        break;
      case AtomKind::Loaded:
        mask |= depends(atom.node);
        break;
      default:
        mask |= depends(atom.operand);
    }
  }
  return mask;
}

uint32_t Emitter::depends(NodeId node) const {
  if (const auto it = depends_.find(node); it != depends_.end()) return it->second;
  uint32_t mask = 0;
  if (const auto it = given_.find(node); it != given_.end()) {
    const auto& axes = b_.type(it->second).axes;
    for (size_t i = 0; i < axes.size(); i++)
      if (axes[i]) mask |= 1u << i;
    return depends_[node] = mask;
  }
  const Node& n = region_.nodes.at(node);
  mask = depends(n.index);
  for (const GuardTerm& t : n.guard) mask |= depends(t.index);
  for (const NodeId a : n.args) mask |= depends(a);
  const bool reduces = n.kind == NodeKind::Reduce || n.kind == NodeKind::Dot;
  if (reduces && reduce_position_ >= 0) mask &= ~(1u << reduce_position_);
  return depends_[node] = mask;
}

std::vector<tile::AxisId> Emitter::axes_of(uint32_t mask) const {
  if (mask == 0) return {};
  std::vector<tile::AxisId> out(axes_.size());
  for (size_t i = 0; i < axes_.size(); i++)
    if (mask >> i & 1) out[i] = axes_[i];
  return out;
}

IndexId Emitter::atom(AtomId a) {
  const Atom& atom = region_.space.atom(a);
  switch (atom.kind) {
    case AtomKind::Var:
      return bound_.at(a).index;
    case AtomKind::Loaded:
      return b_.loaded(value(atom.node));
    case AtomKind::Div:
      return b_.div(index(atom.operand), b_.dim(atom.divisor));
    default:
      return b_.mod(index(atom.operand), b_.dim(atom.divisor));
  }
}

IndexId Emitter::index(const Affine& a) {
  IndexId sum = b_.cst(0);
  for (const AffineTerm& t : a.terms) sum = b_.add(sum, b_.mul(atom(t.atom), b_.dim(t.factor)));
  return b_.add(sum, b_.dim(a.offset));
}

tile::Mask Emitter::mask(const Guard& guard) {
  tile::Mask out;
  for (const GuardTerm& t : guard) out.push_back({index(t.index), b_.dim(t.lo), b_.dim(t.hi)});
  return out;
}

ValueId Emitter::index_tile(const Affine& a, DType dtype) {
  return b_.index_tile(index(a), dtype, axes_of(depends(a)));
}

// In i32 where the bounds allow it, so that a vector of guards has as many lanes as one of f32.
ValueId Emitter::guard_tile(const Guard& guard) {
  ValueId all;
  for (const GuardTerm& t : guard) {
    const uint32_t axes = depends(t.index);
    const auto fits = [&](IndexId i) {
      const tile::Bounds r = b_.bounds(i);
      return r.lo >= INT32_MIN && r.hi <= INT32_MAX;
    };
    const IndexId i = index(t.index), lo = b_.dim(t.lo), hi = b_.dim(t.hi);
    const DType dtype = fits(i) && fits(lo) && fits(hi) ? DType::I32 : DType::I64;
    const ValueId at = b_.index_tile(i, dtype, axes_of(axes));
    const auto within = [&](OpCode op, IndexId limit) {
      return b_.pointwise(op, DType::Bool, {at, b_.index_tile(limit, dtype, {})});
    };
    const auto join = [&](ValueId term) {
      all = all ? b_.pointwise(OpCode::bit_and, DType::Bool, {all, term}) : term;
    };
    if (b_.bounds(i).lo < b_.bounds(lo).hi) join(within(OpCode::ge, lo));
    if (b_.bounds(i).hi >= b_.bounds(hi).lo) join(within(OpCode::lt, hi));
  }
  return all ? all : b_.constant(ir::Scalar::of(DType::Bool, int64_t{1}));
}

ValueId Emitter::value(NodeId node) {
  if (const auto it = emitted_.find(node); it != emitted_.end()) return it->second;
  const Node& n = region_.nodes.at(node);
  ValueId out;
  switch (n.kind) {
    case NodeKind::Literal:
      out = b_.constant(*n.literal);
      break;
    case NodeKind::Index:
      out = index_tile(n.index, n.dtype);
      break;
    case NodeKind::Guard:
      out = guard_tile(n.guard);
      break;
    case NodeKind::Load: {
      const uint32_t axes = depends(node);
      const IndexId i = index(n.index);
      out = b_.load(inputs_.at(n.input), i, axes_of(axes), mask(n.guard), n.literal);
      break;
    }
    case NodeKind::Pointwise: {
      std::vector<ValueId> args;
      for (const NodeId a : n.args) args.push_back(value(a));
      out = b_.pointwise(n.op, n.dtype, std::move(args));
      break;
    }
    case NodeKind::Reduce: {
      if (reduce_position_ < 0) throw InternalError("generate: a reduction out of its loop");
      const bool any =
          ir::is_sequential(n.order) || (drops_cascades_ && n.order == ir::ReduceOrder::cascade);
      out = b_.reduce(n.op, full(n.args[0]), static_cast<uint32_t>(reduce_position_),
                      any ? ir::ReduceOrder::any : n.order);
      break;
    }
    case NodeKind::Dot:
      out = dot(n);
      break;
  }
  emitted_[node] = out;
  return out;
}

ValueId Emitter::dot(const Node& n) {
  if (reduce_position_ < 0) throw InternalError("generate: a product out of its loop");
  const auto axis = static_cast<uint32_t>(reduce_position_);
  const bool starts = n.args.size() > 2;
  ValueId out;
  if (dots_as_sums_) {
    std::vector<ValueId> sides;
    for (const NodeId side : {n.args[0], n.args[1]})
      sides.push_back(b_.pointwise(OpCode::cast, n.dtype, {full(side)}));
    out = b_.reduce(OpCode::reduce_sum, b_.pointwise(OpCode::mul, n.dtype, std::move(sides)), axis);
  } else {
    const ValueId a = value(n.args[0]), b = value(n.args[1]);
    const auto along = [&](NodeId v) { return depends(v) >> reduce_position_ & 1; };
    const bool varies = along(n.args[0]) || along(n.args[1]);
    const ValueId right = varies ? b : b_.broadcast(b, axes_);
    if (starts && dots_start_) return b_.dot(a, right, axis, value(n.args[2]));
    out = b_.dot(a, right, axis);
  }
  return starts ? b_.pointwise(OpCode::add, n.dtype, {value(n.args[2]), out}) : out;
}

ValueId Emitter::full(NodeId node) {
  return b_.broadcast(value(node), axes_);
}

void emit_checks(tile::TileBuilder& b, Emitter& emit, const std::vector<Check>& checks,
                 uint32_t axes) {
  for (const Check& c : checks) {
    tile::ValueId v = emit.value(c.condition);
    const uint32_t own = emit.depends(c.condition);
    if ((own | axes) != own) v = b.broadcast(v, emit.axes_of(own | axes));
    b.check(v, c.code);
  }
}

void emit_result(tile::TileBuilder& b, Emitter& emit, const Result& result, tile::BufferId buffer,
                 tile::IndexId first, std::optional<ir::OpCode> combining) {
  uint32_t axes = emit.depends(result.index) | emit.depends(result.value);
  for (const GuardTerm& t : result.guard) axes |= emit.depends(t.index);
  tile::ValueId v = emit.value(result.value);
  if (axes != emit.depends(result.value)) v = b.broadcast(v, emit.axes_of(axes));
  tile::IndexId at = emit.index(result.index);
  if (first) at = b.add(first, at);
  if (combining)
    b.combine(*combining, buffer, at, v, emit.mask(result.guard));
  else
    b.store(buffer, at, v, emit.mask(result.guard));
}

Buffers declare_buffers(tile::TileBuilder& b, const passes::KernelRequest& request, size_t skip,
                        bool outputs) {
  const ir::Graph& body = *request.body;
  // The layout's alignment is that of its first element, which is element 0 only without offset.
  const auto align = [](const ir::Layout& l, DType d) {
    const auto own = static_cast<uint32_t>(byte_size(d));
    return l.offset.is_const(0) ? std::max(l.align, own) : own;
  };
  Buffers out;
  out.inputs.resize(skip);
  for (size_t i = skip; i < body.inputs().size(); i++) {
    const DType d = body.type(body.inputs()[i]).dtype;
    out.inputs.push_back(b.buffer("in" + std::to_string(i), d, false, align(request.inputs[i], d)));
  }
  for (size_t i = 0; outputs && i < body.outputs().size(); i++) {
    const DType d = body.type(body.outputs()[i].value).dtype;
    out.outputs.push_back(
        b.buffer("out" + std::to_string(i), d, true, align(request.outputs[i], d)));
    const int32_t over = i < request.in_place.size() ? request.in_place[i] : -1;
    if (over < 0) continue;
    b.program().buffers[out.outputs[i].index].shared = true;
    b.program().buffers[out.inputs[static_cast<size_t>(over)].index].shared = true;
  }
  return out;
}

bool bypasses_cache(const passes::KernelRequest& request, const Target& target) {
  constexpr uint64_t kTimesCache = 4;
  const ir::Graph& body = *request.body;
  uint64_t bytes = 0;
  for (size_t i = 0; i < body.outputs().size(); i++) {
    if (i < request.in_place.size() && request.in_place[i] >= 0) return false;
    const ir::TensorType& t = body.type(body.outputs()[i].value);
    bytes += static_cast<uint64_t>(numel(t.shape).hint(body.symbols()) * byte_size(t.dtype));
  }
  return bytes >= kTimesCache * target.cache_bytes;
}

}  // namespace poot::codegen
