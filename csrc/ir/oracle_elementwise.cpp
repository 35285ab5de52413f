// Pointwise ops through scalar_eval, with operands broadcast by numpy's rule, and sources.
#include "ir/oracle_ops.h"
#include "ir/scalar_eval.h"

namespace poot::ir {
namespace {

void eval_pointwise_op(OracleCall& call) {
  HostArray& out = call.out[0];
  const DType operand = call.in[call.eqn.op == OpCode::select ? 1 : 0]->dtype;
  std::vector<Bits> args(call.in.size());
  ScalarFault fault = ScalarFault::None;
  for_each_position(out.shape, [&](int64_t i, const Coords& at) {
    for (size_t o = 0; o < args.size(); ++o)
      args[o] = call.in[o]->bits(linear_broadcast(call.in[o]->shape, at));
    out.set_bits(i, eval_pointwise(call.eqn.op, operand, out.dtype, args, &fault));
  });
  if (fault == ScalarFault::DivideByZero) call.fault("integer division by zero");
}

void eval_source(OracleCall& call) {
  HostArray& out = call.out[0];
  switch (call.eqn.op) {
    case OpCode::full:
      for (int64_t i = 0; i < out.numel(); ++i) out.set_bits(i, call.in[0]->bits(0));
      return;
    case OpCode::iota: {
      const int64_t start = call.dim("start"), step = call.dim("step");
      for (int64_t i = 0; i < out.numel(); ++i)
        out.set_bits(i, from_int(start + i * step, out.dtype));
      return;
    }
    case OpCode::size_value:
      out.set_bits(0, from_int(call.dim("value"), out.dtype));
      return;
    default:
      throw InternalError("the oracle lacks " + std::string(call.eqn.info().name));
  }
}

}  // namespace

void eval_elementwise(OracleCall& call) {
  if (call.eqn.info().kind == OpKind::Source) return eval_source(call);
  eval_pointwise_op(call);
}

}  // namespace poot::ir
