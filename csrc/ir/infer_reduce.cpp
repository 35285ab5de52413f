// Types of reductions: the axes disappear or, with keepdim, become 1; the dtype stays. Types of
// scans: the operand's.
#include "ir/infer.h"
#include "ir/reduce_order.h"

namespace poot::ir {
namespace {

TensorType reduced(const InferCall& call) {
  const TensorType& in = call.in[0];
  const auto& axes = call.attr<std::vector<int64_t>>("axes");
  if (axes.empty() || !are_axes(axes, call.rank()))
    call.fail("reduce-C1", "axes " + list_text(axes) + " of a value with " +
                               std::to_string(call.rank()) + " axes");
  const bool sums = call.info.rounding == Rounding::Accumulate;
  if (is_complex(in.dtype) || (sums && in.dtype == DType::Bool))
    call.fail("reduce-C2", "operand of type " + in.str());
  std::vector<bool> gone(call.rank(), false);
  for (int64_t a : axes) gone[a] = true;
  TensorType out{in.dtype, {}};
  for (size_t i = 0; i < gone.size(); ++i) {
    if (!gone[i]) out.shape.push_back(in.shape[i]);
    if (gone[i] && call.attr<bool>("keepdim")) out.shape.push_back(1);
  }
  return out;
}

void check_order(const InferCall& call) {
  const auto* order = std::get_if<std::string>(&call.attrs[call.info.attr_index("order")]);
  if (order && (order->empty() || !reduce_order(*order)))
    call.fail("reduce-C5", "no order of addition is called " + *order);
}

}  // namespace

TypeList infer_reduce(const InferCall& call) {
  TensorType out = reduced(call);
  if (call.op == OpCode::reduce_sum) check_order(call);
  if (call.info.rounding == Rounding::Exact)
    for (int64_t a : call.attr<std::vector<int64_t>>("axes"))
      if (call.in[0].shape[a].is_const(0))
        call.fail("reduce-C3",
                  "no element along axis " + std::to_string(a) + " of " + call.in[0].str());
  return {out};
}

TypeList infer_reduce_bool(const InferCall& call) {
  TensorType out = reduced(call);
  if (out.dtype != DType::Bool) call.fail("reduce-C4", "operand of type " + call.in[0].str());
  return {out};
}

TypeList infer_moment(const InferCall& call) {
  if (call.in[0].dtype != DType::F32) call.fail("reduce-C2", "operand of type " + call.in[0].str());
  return {reduced(call)};
}

TypeList infer_scan(const InferCall& call) {
  call.axis(call.rank(), "scan-C1");
  const TensorType& in = call.in[0];
  const bool real_only = call.op == OpCode::scan_logaddexp;
  if (is_complex(in.dtype) || in.dtype == DType::Bool || (real_only && !is_float(in.dtype)))
    call.fail("scan-C2", "operand of type " + in.str());
  return {in};
}

TypeList infer_scan_place(const InferCall& call) {
  TypeList types = infer_scan(call);
  types.push_back({DType::I64, types[0].shape});
  return types;
}

}  // namespace poot::ir
