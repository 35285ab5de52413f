// Reductions and matrix products. Floating-point sums and products accumulate in double and round
// once, so the reference is at least as good as any order of f32 additions; integers wrap.
#include <algorithm>
#include <functional>

#include "ir/moments.h"
#include "ir/oracle_ops.h"
#include "ir/scalar_eval.h"

namespace poot::ir {
namespace {

// a[.., M, K] x b[.., K, N] at one result position of batch `batch`.
double dot(const HostArray& a, const HostArray& b, int64_t batch, int64_t m, int64_t n) {
  const int64_t k = a.shape.back();
  const int64_t rows = a.shape[a.shape.size() - 2], columns = b.shape.back();
  double sum = 0;
  for (int64_t i = 0; i < k; ++i)
    sum += to_double(a.bits((batch * rows + m) * k + i), a.dtype) *
           to_double(b.bits((batch * k + i) * columns + n), b.dtype);
  return sum;
}

int64_t dot_int(const HostArray& a, const HostArray& b, int64_t batch, int64_t m, int64_t n) {
  const int64_t k = a.shape.back();
  const int64_t rows = a.shape[a.shape.size() - 2], columns = b.shape.back();
  uint64_t sum = 0;
  for (int64_t i = 0; i < k; ++i)
    sum += static_cast<uint64_t>(to_int(a.bits((batch * rows + m) * k + i), a.dtype)) *
           static_cast<uint64_t>(to_int(b.bits((batch * k + i) * columns + n), b.dtype));
  return static_cast<int64_t>(sum);
}

// Two passes in double.
void eval_moment(OracleCall& call, const std::function<int64_t(const Coords&)>& slot) {
  const HostArray& in = *call.in[0];
  HostArray& out = call.out[0];
  const auto size = static_cast<size_t>(out.numel());
  std::vector<double> mean(size, 0), squares(size, 0);
  const double count = static_cast<double>(in.numel()) / static_cast<double>(out.numel());
  const auto each = [&](const std::function<void(size_t, double)>& body) {
    for_each_position(in.shape, [&](int64_t i, const Coords& at) {
      body(static_cast<size_t>(slot(at)), to_double(in.bits(i), in.dtype));
    });
  };
  each([&](size_t i, double x) { mean[i] += x / count; });
  each([&](size_t i, double x) { squares[i] += (x - mean[i]) * (x - mean[i]); });
  for (size_t i = 0; i < size; ++i)
    out.set_bits(
        static_cast<int64_t>(i),
        from_double(call.eqn.op == OpCode::welford_mean ? mean[i] : squares[i], out.dtype));
}

}  // namespace

void eval_reduce(OracleCall& call) {
  const HostArray& in = *call.in[0];
  HostArray& out = call.out[0];
  const OpCode op = call.eqn.op;
  const auto& axes = call.ints("axes");
  const bool keepdim = call.eqn.attr<bool>("keepdim");
  const auto reduced = [&](size_t axis) {
    return std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != axes.end();
  };
  const auto slot_of = [&](const Coords& at) {
    Coords to;
    for (size_t axis = 0; axis < at.size(); ++axis) {
      if (!reduced(axis))
        to.push_back(at[axis]);
      else if (keepdim)
        to.push_back(0);
    }
    return linear(out.shape, to);
  };
  if (is_moment(op)) return eval_moment(call, slot_of);
  const bool sums = op == OpCode::reduce_sum || op == OpCode::reduce_prod;
  const DType accumulate = is_float(in.dtype) && sums ? DType::F64 : in.dtype;
  std::vector<Bits> acc(static_cast<size_t>(out.numel()), reduce_identity(op, accumulate));
  for_each_position(in.shape, [&](int64_t i, const Coords& at) {
    Bits& slot = acc[static_cast<size_t>(slot_of(at))];
    const Bits value = accumulate == in.dtype
                           ? in.bits(i)
                           : from_double(to_double(in.bits(i), in.dtype), accumulate);
    slot = reduce_step(op, accumulate, slot, value);
  });
  for (int64_t i = 0; i < out.numel(); ++i) {
    const Bits args[] = {acc[static_cast<size_t>(i)]};
    out.set_bits(i, eval_pointwise(OpCode::cast, accumulate, out.dtype, args, nullptr));
  }
}

void eval_contraction(OracleCall& call) {
  HostArray& out = call.out[0];
  const bool add = call.eqn.op == OpCode::addmm;
  const HostArray &a = *call.in[add ? 1 : 0], &b = *call.in[add ? 2 : 1];
  const double alpha = add ? call.eqn.attr<double>("alpha") : 1;
  const double beta = add ? call.eqn.attr<double>("beta") : 0;
  const size_t rank = out.shape.size();
  const int64_t rows = out.shape[rank - 2], columns = out.shape[rank - 1];
  for_each_position(out.shape, [&](int64_t i, const Coords& at) {
    const int64_t batch = rows * columns == 0 ? 0 : i / (rows * columns);
    const int64_t m = at[rank - 2], n = at[rank - 1];
    if (!is_float(out.dtype)) {
      int64_t value = dot_int(a, b, batch, m, n) * static_cast<int64_t>(alpha);
      if (add && beta != 0)
        value += static_cast<int64_t>(beta) *
                 to_int(call.in[0]->bits(linear_broadcast(call.in[0]->shape, at)), out.dtype);
      out.set_bits(i, from_int(value, out.dtype));
      return;
    }
    double value = alpha * dot(a, b, batch, m, n);
    if (add && beta != 0)  // as BLAS: a NaN in what beta = 0 multiplies does not count
      value += beta * to_double(call.in[0]->bits(linear_broadcast(call.in[0]->shape, at)),
                                call.in[0]->dtype);
    out.set_bits(i, from_double(value, out.dtype));
  });
}

}  // namespace poot::ir
