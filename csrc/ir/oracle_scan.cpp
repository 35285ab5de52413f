// Scans, position by position in the order and with the accumulator that the op table names.
#include <cmath>

#include "ir/oracle_ops.h"
#include "ir/scalar_eval.h"

namespace poot::ir {
namespace {

double log_add_exp(double sum, double x) {
  if (std::isnan(sum) || std::isnan(x)) return sum + x;
  const double low = std::fmin(sum, x), high = std::fmax(sum, x);
  if (low == high && std::isinf(low)) return x;
  return std::log1p(std::exp(low - high)) + high;
}

Bits step(OpCode op, DType d, Bits before, Bits value) {
  if (op == OpCode::scan_logaddexp)
    return from_double(log_add_exp(to_double(before, d), to_double(value, d)), d);
  return reduce_step(op == OpCode::scan_sum ? OpCode::reduce_sum : OpCode::reduce_prod, d, before,
                     value);
}

Bits start(OpCode op, DType d) {
  if (op == OpCode::scan_logaddexp) return from_double(-INFINITY, d);
  return reduce_identity(op == OpCode::scan_sum ? OpCode::reduce_sum : OpCode::reduce_prod, d);
}

int64_t axis_stride(const OracleCall& call) {
  const HostArray& in = *call.in[0];
  int64_t stride = 1;
  for (auto i = static_cast<size_t>(call.integer("axis")) + 1; i < in.shape.size(); ++i)
    stride *= in.shape[i];
  return stride;
}

void eval_extreme(OracleCall& call) {
  const HostArray& in = *call.in[0];
  HostArray &values = call.out[0], &places = call.out[1];
  const auto axis = static_cast<size_t>(call.integer("axis"));
  const int64_t stride = axis_stride(call);
  const OpCode reaches = call.eqn.op == OpCode::scan_max ? OpCode::ge : OpCode::le;
  for_each_position(in.shape, [&](int64_t i, const Coords& at) {
    const Bits x[] = {in.bits(i)};
    bool taken =
        at[axis] == 0 || eval_pointwise(OpCode::is_nan, in.dtype, DType::Bool, x, nullptr) != 0;
    if (!taken) {
      const Bits pair[] = {x[0], values.bits(i - stride)};
      taken = eval_pointwise(reaches, in.dtype, DType::Bool, pair, nullptr) != 0;
    }
    values.set_bits(i, taken ? x[0] : values.bits(i - stride));
    places.set_bits(i, taken ? static_cast<Bits>(at[axis]) : places.bits(i - stride));
  });
}

}  // namespace

void eval_scan(OracleCall& call) {
  const OpCode op = call.eqn.op;
  if (op == OpCode::scan_max || op == OpCode::scan_min) return eval_extreme(call);
  const HostArray& in = *call.in[0];
  HostArray& out = call.out[0];
  const DType accumulate = scan_accumulator(in.dtype);
  const auto axis = static_cast<size_t>(call.integer("axis"));
  const int64_t stride = axis_stride(call);
  std::vector<Bits> running(static_cast<size_t>(in.numel()));
  for_each_position(in.shape, [&](int64_t i, const Coords& at) {
    const Bits value = accumulate == in.dtype
                           ? in.bits(i)
                           : from_double(to_double(in.bits(i), in.dtype), accumulate);
    const Bits before =
        at[axis] == 0 ? start(op, accumulate) : running[static_cast<size_t>(i - stride)];
    Bits& now = running[static_cast<size_t>(i)];
    now = step(op, accumulate, before, value);
    const Bits args[] = {now};
    out.set_bits(i, eval_pointwise(OpCode::cast, accumulate, out.dtype, args, nullptr));
  });
}

}  // namespace poot::ir
