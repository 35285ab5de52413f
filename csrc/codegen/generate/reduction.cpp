// Facts about reductions that the row and the reduce generator share.
#include "codegen/generate/reduction.h"

#include <algorithm>
#include <functional>

#include "ir/moments.h"
#include "ir/scalar_eval.h"
#include "support/errors.h"

namespace poot::codegen {

using ir::OpCode;

ir::Scalar reduction_identity(OpCode reduction, DType accumulate) {
  const ir::Bits bits = ir::reduce_identity(reduction, accumulate);
  if (is_float(accumulate)) return ir::Scalar::of(accumulate, ir::to_double(bits, accumulate));
  return ir::Scalar::of(accumulate, ir::to_int(bits, accumulate));
}

bool has_moments(const Region& region) {
  for (uint32_t i = 0; i < region.nodes.size(); i++) {
    const Node& n = region.nodes.at(NodeId(i));
    if (n.kind == NodeKind::Reduce && region.live[i] && ir::is_moment(n.op)) return true;
  }
  return false;
}

OpCode combining_op(OpCode reduction) {
  switch (reduction) {
    case OpCode::reduce_sum:
      return OpCode::add;
    case OpCode::reduce_prod:
      return OpCode::mul;
    case OpCode::reduce_max:
      return OpCode::maximum;
    case OpCode::reduce_min:
      return OpCode::minimum;
    case OpCode::reduce_any:
      return OpCode::bit_or;
    case OpCode::reduce_all:
      return OpCode::bit_and;
    default:
      throw InternalError("generate: not a reduction");
  }
}

std::optional<ReductionShape> reduction_shape(const ir::Graph& body) {
  std::optional<ReductionShape> widest;
  int64_t most = -1;
  for (const ir::Eqn& e : body.eqns()) {
    if (e.info().kind != ir::OpKind::Reduce) continue;
    const Shape shape = body.type(e.inputs[0]).shape;
    const auto& axes = e.attr<std::vector<int64_t>>("axes");
    ReductionShape s;
    for (size_t i = 0; i < shape.size(); i++) {
      const bool reduced =
          std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
      if (!reduced && !s.reduced.empty()) s.trailing = false;
      (reduced ? s.reduced : s.kept).push_back(shape[i]);
    }
    if (std::all_of(s.reduced.begin(), s.reduced.end(), [](const Dim& d) { return d.is_const(1); }))
      continue;
    const int64_t elems = numel(s.kept).hint(body.symbols());
    if (elems <= most) continue;
    most = elems;
    widest = std::move(s);
  }
  return widest;
}

bool adds_in_order(const Region& region) {
  for (uint32_t i = 0; i < region.nodes.size(); i++) {
    const ir::ReduceOrder order = region.nodes.at(NodeId(i)).order;
    if (region.live[i] && order != ir::ReduceOrder::any && !ir::is_sequential(order)) return true;
  }
  return false;
}

std::vector<std::vector<NodeId>> reduction_levels(const Region& region) {
  std::vector<std::vector<NodeId>> levels;
  std::vector<size_t> level(region.nodes.size());
  const std::function<size_t(const Affine&)> of = [&](const Affine& a) {
    size_t most = 0;
    for (const AffineTerm& t : a.terms) {
      const Atom& atom = region.space.atom(t.atom);
      most =
          std::max(most, atom.kind == AtomKind::Loaded ? level[atom.node.index] : of(atom.operand));
    }
    return most;
  };
  for (uint32_t i = 0; i < region.nodes.size(); i++) {
    const Node& n = region.nodes.at(NodeId(i));
    size_t most = of(n.index);
    for (const GuardTerm& t : n.guard) most = std::max(most, of(t.index));
    for (const NodeId a : n.args) most = std::max(most, level[a.index]);
    if (n.kind == NodeKind::Reduce && region.live[i]) {
      if (levels.size() <= most) levels.resize(most + 1);
      levels[most].push_back(NodeId(i));
      most++;
    }
    level[i] = most;
  }
  return levels;
}

Region reduction_region(const passes::KernelRequest& request, const ReductionShape& shape,
                        bool full_outputs) {
  const ir::Graph& body = *request.body;
  std::vector<RootDim> root;
  for (const Dim& d : shape.kept) root.push_back({d, Role::Free});
  for (const Dim& d : shape.reduced) root.push_back({d, Role::Reduced});
  Shape both = shape.kept;
  both.insert(both.end(), shape.reduced.begin(), shape.reduced.end());
  return build_region(body.symbols(), root, [&](Region& r, const Coordinates& at) {
    const auto split = at.begin() + static_cast<std::ptrdiff_t>(shape.kept.size());
    const Coordinates kept(at.begin(), split), reduced(split, at.end());
    IndexMap map(body, request.inputs, r.space, r.nodes, reduced, shape.reduced);
    for (uint32_t i = 0; i < body.outputs().size(); i++) {
      const ir::ValueId v = body.outputs()[i].value;
      const Shape& out = body.type(v).shape;
      Coordinates c;
      if (full_outputs && (out == both || numel(out) == numel(both)))
        c = reshape_coordinates(r.space, at, both, out);
      else if (numel(out) == numel(shape.kept))
        c = reshape_coordinates(r.space, kept, shape.kept, out);
      else
        throw Unsupported(request.name,
                          "a result of shape " + str(out) + " from reductions over " + str(both));
      r.results.push_back({map.at(v, c), i, element_index(request.outputs[i], c), {}});
    }
    r.checks = map.checks();
  });
}

}  // namespace poot::codegen
