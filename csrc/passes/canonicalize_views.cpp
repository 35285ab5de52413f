// Views and movement that move nothing, and chains of views that are one view.
//
//   reshape(reshape x) = reshape x         transpose(transpose x) = transpose x
//   broadcast(broadcast x) = broadcast x   slice(slice x), both of step 1 on one axis = slice x
//   a transpose that moves only unit axes, or a broadcast that only adds them, is a reshape
//   the same shape again, a whole slice, no flipped axes, pad by nothing, concat of one: x
//   a maximum, minimum, product, any or all over unit axes: x, reshaped
//   a sum over unit axes: 0 + x, since 0 + -0.0 is 0.0; of integers x
#include <algorithm>

#include "passes/canonicalize.h"

namespace poot::passes {
namespace {

using ir::OpCode;

bool all_zero(const std::vector<Dim>& dims) {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_const(0); });
}

Rewrite becomes_reshape(CanonicalSweep& sweep, ir::Eqn& eqn) {
  eqn.op = OpCode::reshape;
  eqn.attrs = {ir::Attr(sweep.edit.type(eqn.outs[0]).shape), ir::Attr()};
  return Rewrite::in_place();
}

Rewrite transpose(CanonicalSweep& sweep, ir::Eqn& eqn) {
  const auto perm = eqn.attr<std::vector<int64_t>>("perm");
  const Shape& in = sweep.shape(eqn.inputs[0]);
  std::vector<int64_t> moved;  // axes that matter, in the result's order
  for (const int64_t p : perm)
    if (!in[static_cast<size_t>(p)].is_const(1)) moved.push_back(p);
  if (std::is_sorted(moved.begin(), moved.end())) return becomes_reshape(sweep, eqn);
  const ir::Eqn* inner = sweep.def(eqn.inputs[0]);
  if (!inner || inner->op != OpCode::transpose) return Rewrite::none();
  const auto& first = inner->attr<std::vector<int64_t>>("perm");
  std::vector<int64_t> both;
  for (const int64_t p : perm) both.push_back(first[static_cast<size_t>(p)]);
  const ir::Operand source = inner->inputs[0];
  eqn.attrs = {ir::Attr(both)};
  eqn.inputs[0] = source;
  return Rewrite::in_place();
}

Rewrite slice(CanonicalSweep& sweep, ir::Eqn& eqn) {
  const auto axis = eqn.attr<int64_t>("axis");
  const Dim start = eqn.attr<Dim>("start"), end = eqn.attr<Dim>("end");
  const auto step = eqn.attr<int64_t>("step");
  const ir::Operand x = eqn.inputs[0];
  if (step == 1 && start.is_const(0) && end == sweep.shape(x)[static_cast<size_t>(axis)])
    return Rewrite::value(std::get<ir::ValueId>(x));
  const ir::Eqn* inner = sweep.def(x);
  if (!inner || inner->op != OpCode::slice || step != 1 || inner->attr<int64_t>("axis") != axis ||
      inner->attr<int64_t>("step") != 1)
    return Rewrite::none();
  const Dim base = inner->attr<Dim>("start");
  const ir::Operand source = inner->inputs[0];
  eqn.attrs = {ir::Attr(axis), ir::Attr(base + start), ir::Attr(base + end), ir::Attr(int64_t{1})};
  eqn.inputs[0] = source;
  return Rewrite::in_place();
}

Rewrite reduce(CanonicalSweep& sweep, ir::Eqn& eqn) {
  const Shape& in = sweep.shape(eqn.inputs[0]);
  const auto& axes = eqn.attr<std::vector<int64_t>>("axes");
  const bool unit = std::all_of(axes.begin(), axes.end(),
                                [&](int64_t a) { return in[static_cast<size_t>(a)].is_const(1); });
  const DType dtype = sweep.dtype(eqn.inputs[0]);
  if (!unit || is_complex(dtype) || eqn.op == OpCode::welford_squares ||
      sweep.edit.type(eqn.outs[0]).dtype != dtype)
    return Rewrite::none();
  if (eqn.op != OpCode::reduce_sum || !is_float(dtype)) return becomes_reshape(sweep, eqn);
  const Shape& out = sweep.edit.type(eqn.outs[0]).shape;
  ir::Operand x = eqn.inputs[0];
  if (in != out) {
    ir::Eqn view = sweep.edit.make(OpCode::reshape, {x}, {ir::Attr(out), ir::Attr()});
    view.origins = eqn.origins;
    x = view.outs[0];
    sweep.emit(std::move(view));
  }
  eqn.op = OpCode::add;
  eqn.attrs = {};
  eqn.inputs = {x, ir::Scalar::of(dtype, 0.0)};
  return Rewrite::in_place();
}

}  // namespace

Rewrite simplify_view(CanonicalSweep& sweep, ir::Eqn& eqn) {
  if (eqn.inputs.empty() || !ir::is_value(eqn.inputs[0])) return Rewrite::none();
  const auto x = std::get<ir::ValueId>(eqn.inputs[0]);
  const bool same_type = eqn.outs.size() == 1 && sweep.edit.type(x) == sweep.edit.type(eqn.outs[0]);
  const ir::Eqn* inner = sweep.def(x);
  switch (eqn.op) {
    case OpCode::reshape:
      if (same_type) return Rewrite::value(x);
      if (!inner || inner->op != OpCode::reshape) return Rewrite::none();
      if (inner->flag("proven")) eqn.attrs[eqn.info().attr_index("proven")] = true;
      eqn.inputs[0] = ir::Operand(inner->inputs[0]);
      return Rewrite::in_place();
    case OpCode::broadcast: {
      if (same_type) return Rewrite::value(x);
      if (numel(sweep.shape(x)) == numel(sweep.edit.type(eqn.outs[0]).shape))
        return becomes_reshape(sweep, eqn);
      if (!inner || inner->op != OpCode::broadcast) return Rewrite::none();
      eqn.inputs[0] = ir::Operand(inner->inputs[0]);
      return Rewrite::in_place();
    }
    case OpCode::transpose:
      return transpose(sweep, eqn);
    case OpCode::slice:
      return slice(sweep, eqn);
    case OpCode::flip: {
      const auto& axes = eqn.attr<std::vector<int64_t>>("axes");
      return std::all_of(
                 axes.begin(), axes.end(),
                 [&](int64_t a) { return sweep.shape(x)[static_cast<size_t>(a)].is_const(1); })
                 ? Rewrite::value(x)
                 : Rewrite::none();
    }
    case OpCode::concat:
      return eqn.inputs.size() == 1 ? Rewrite::value(x) : Rewrite::none();
    case OpCode::pad:
      return all_zero(eqn.attr<std::vector<Dim>>("low")) &&
                     all_zero(eqn.attr<std::vector<Dim>>("high"))
                 ? Rewrite::value(x)
                 : Rewrite::none();
    default:
      return eqn.info().kind == ir::OpKind::Reduce ? reduce(sweep, eqn) : Rewrite::none();
  }
}

}  // namespace poot::passes
