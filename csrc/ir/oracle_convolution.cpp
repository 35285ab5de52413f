// Convolution of any spatial rank, grouped, dilated, transposed: a sum over the channels of a group
// and the kernel's positions, in double, rounded once.
#include "ir/oracle_ops.h"
#include "ir/scalar_eval.h"

namespace poot::ir {
namespace {

// Input coordinate that kernel offset k of output o reads along one axis, or -1 for none.
int64_t source(bool transposed, int64_t o, int64_t k, int64_t stride, int64_t padding,
               int64_t dilation, int64_t size) {
  if (!transposed) {
    const int64_t i = o * stride - padding + k * dilation;
    return i >= 0 && i < size ? i : -1;
  }
  const int64_t scaled = o + padding - k * dilation;
  return scaled >= 0 && scaled % stride == 0 && scaled / stride < size ? scaled / stride : -1;
}

}  // namespace

void eval_convolution(OracleCall& call) {
  const HostArray &x = *call.in[0], &w = *call.in[1];
  HostArray& out = call.out[0];
  const auto &stride = call.ints("stride"), &padding = call.ints("padding");
  const auto& dilation = call.ints("dilation");
  const bool folded = call.eqn.op == OpCode::convolution_folded;
  const bool transposed = !folded && call.eqn.attr<bool>("transposed");
  const int64_t groups = call.integer("groups");
  const size_t spatial = x.shape.size() - 2;
  const std::vector<int64_t> kernel(w.shape.begin() + 2, w.shape.end());
  const int64_t channels = x.shape[1] / groups, results = out.shape[1] / groups;
  for_each_position(out.shape, [&](int64_t i, const Coords& at) {
    const int64_t group = at[1] / results;
    double sum = 0;
    for_each_position(kernel, [&](int64_t, const Coords& k) {
      Coords from{at[0], 0}, weight{0, 0};
      for (size_t s = 0; s < spatial; ++s) {
        from.push_back(source(transposed, at[2 + s], k[s], stride[s], padding[s], dilation[s],
                              x.shape[2 + s]));
        weight.push_back(k[s]);
        if (from.back() < 0) return;
      }
      for (int64_t c = 0; c < channels; ++c) {
        from[1] = group * channels + c;
        // Weights are [O, C/groups, ..], or [C, O/groups, ..] where transposed.
        weight[0] = transposed ? from[1] : at[1];
        weight[1] = transposed ? at[1] % results : c;
        sum += to_double(x.bits(linear(x.shape, from)), x.dtype) *
               to_double(w.bits(linear(w.shape, weight)), w.dtype);
      }
    });
    const auto operand = [&](size_t n, int64_t place) {
      return to_double(call.in[n]->bits(place), call.in[n]->dtype);
    };
    if (folded) {
      sum = sum * operand(2, at[1]) + operand(3, at[1]);
      if (call.in.size() > 4) sum += operand(4, i);
      if (call.eqn.attr<bool>("relu") && sum < 0) sum = 0;
    } else if (call.in.size() > 2) {
      sum += operand(2, at[1]);
    }
    out.set_bits(i, from_double(sum, out.dtype));
  });
}

}  // namespace poot::ir
