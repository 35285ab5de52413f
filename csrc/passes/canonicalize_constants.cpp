// Constants. A pointwise equation of constants is a `full` of the folded number (an integer fault
// is left for run time); a constant operand becomes a literal, and an operand that was stretched
// only to fit loses the stretch, where the result's shape does not depend on it.
#include "ir/scalar_eval.h"
#include "passes/canonicalize.h"

namespace poot::passes {
namespace {

ir::Scalar scalar_of(ir::Bits bits, DType d) {
  return is_float(d) ? ir::Scalar::of(d, ir::to_double(bits, d))
                     : ir::Scalar::of(d, ir::to_int(bits, d));
}

// True if operands of these shapes still yield `result` when one of them has shape `s`.
bool keeps_shape(const CanonicalSweep& sweep, const ir::Eqn& eqn, size_t replaced, const Shape& s) {
  const Shape& result = sweep.edit.type(eqn.outs[0]).shape;
  std::vector<const Shape*> shapes;
  for (size_t i = 0; i < eqn.inputs.size(); ++i)
    shapes.push_back(i == replaced ? &s : &sweep.shape(eqn.inputs[i]));
  for (size_t from_end = 1; from_end <= result.size(); ++from_end) {
    const Dim& want = result[result.size() - from_end];
    bool found = false;
    for (const Shape* shape : shapes)
      found = found || (shape->size() >= from_end && (*shape)[shape->size() - from_end] == want);
    if (!found) return false;
  }
  return s.size() <= result.size();
}

// What an operand was before it was stretched by broadcast or given leading unit axes, else null.
const ir::Operand* before_stretch(const CanonicalSweep& sweep, const ir::Operand& o) {
  const ir::Eqn* d = sweep.def(o);
  if (!d) return nullptr;
  if (d->op == ir::OpCode::broadcast) return &d->inputs[0];
  if (d->op != ir::OpCode::reshape) return nullptr;
  const Shape &from = sweep.shape(d->inputs[0]), &to = sweep.shape(o);
  if (to.size() <= from.size()) return nullptr;
  const size_t lead = to.size() - from.size();
  for (size_t i = 0; i < to.size(); ++i)
    if (i < lead ? !to[i].is_const(1) : to[i] != from[i - lead]) return nullptr;
  return &d->inputs[0];
}

}  // namespace

Rewrite fold_constants(CanonicalSweep& sweep, ir::Eqn& eqn) {
  if (eqn.op == ir::OpCode::size_value && eqn.attr<Dim>("value").is_const()) {
    const int64_t size = eqn.attr<Dim>("value").value();
    eqn.op = ir::OpCode::full;
    eqn.inputs = {ir::Scalar::of(DType::I64, size)};
    eqn.attrs = {ir::Attr(Shape{})};
    return Rewrite::in_place();
  }
  if (!ir::is_pointwise(eqn.info().kind)) return Rewrite::none();
  std::vector<ir::Bits> args;
  for (const ir::Operand& o : eqn.inputs) {
    const auto c = sweep.constant(o);
    if (!c || is_complex(c->dtype)) return Rewrite::none();
    args.push_back(ir::bits_of(*c));
  }
  const ir::TensorType& type = sweep.edit.type(eqn.outs[0]);
  if (is_complex(type.dtype)) return Rewrite::none();
  const DType operand = sweep.dtype(eqn.inputs[eqn.op == ir::OpCode::select ? 1 : 0]);
  ir::ScalarFault fault = ir::ScalarFault::None;
  const ir::Bits bits = ir::eval_pointwise(eqn.op, operand, type.dtype, args, &fault);
  if (fault != ir::ScalarFault::None) return Rewrite::none();
  eqn.op = ir::OpCode::full;
  eqn.inputs = {scalar_of(bits, type.dtype)};
  eqn.attrs = {ir::Attr(type.shape)};
  return Rewrite::in_place();
}

Rewrite simplify_operands(CanonicalSweep& sweep, ir::Eqn& eqn) {
  const ir::OpKind kind = eqn.info().kind;
  if (!ir::is_pointwise(kind) && eqn.op != ir::OpCode::full && eqn.op != ir::OpCode::pad)
    return Rewrite::none();
  for (size_t i = 0; i < eqn.inputs.size(); ++i) {
    ir::Operand& o = eqn.inputs[i];
    if (!ir::is_value(o)) continue;
    const bool scalar_slot = eqn.op == ir::OpCode::full || (eqn.op == ir::OpCode::pad && i == 1);
    if (!scalar_slot && !ir::is_pointwise(kind)) continue;
    if (const auto c = sweep.constant(o); c && (scalar_slot || keeps_shape(sweep, eqn, i, {}))) {
      o = *c;
      return Rewrite::in_place();
    }
    if (scalar_slot || eqn.inputs.size() < 2) continue;
    const ir::Operand* bare = before_stretch(sweep, o);
    if (bare && ir::is_value(*bare) && keeps_shape(sweep, eqn, i, sweep.shape(*bare))) {
      o = *bare;
      return Rewrite::in_place();
    }
  }
  return Rewrite::none();
}

}  // namespace poot::passes
