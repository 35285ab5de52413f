// Max pooling and attention, straight from their definitions; convolution has its own file.
#include <cmath>
#include <limits>

#include "ir/oracle_ops.h"
#include "ir/scalar_eval.h"

namespace poot::ir {
namespace {

// Largest element of each window and its index in the plane; the first of equals, a NaN over all.
void max_pool(OracleCall& call) {
  const HostArray& in = *call.in[0];
  HostArray &values = call.out[0], &indices = call.out[1];
  const auto &kernel = call.ints("kernel"), &stride = call.ints("stride");
  const auto &padding = call.ints("padding"), &dilation = call.ints("dilation");
  const int64_t h = in.shape[in.shape.size() - 2], w = in.shape.back();
  for_each_position(values.shape, [&](int64_t i, const Coords& at) {
    const int64_t oh = at[at.size() - 2], ow = at.back();
    const int64_t plane = i / (values.shape[at.size() - 2] * values.shape.back());
    int64_t best = -1;
    double best_value = 0;
    for (int64_t kh = 0; kh < kernel[0]; ++kh)
      for (int64_t kw = 0; kw < kernel[1]; ++kw) {
        const int64_t y = oh * stride[0] - padding[0] + kh * dilation[0];
        const int64_t x = ow * stride[1] - padding[1] + kw * dilation[1];
        if (y < 0 || y >= h || x < 0 || x >= w) continue;
        const int64_t at_plane = y * w + x;
        const double v = to_double(in.bits(plane * h * w + at_plane), in.dtype);
        if (best < 0 || v > best_value || std::isnan(v)) {
          best = at_plane;
          best_value = v;
        }
      }
    if (best < 0) call.fault("a window lies wholly in the padding");
    values.set_bits(i, in.bits(plane * h * w + best));
    indices.set_bits(i, from_int(best, indices.dtype));
  });
}

struct Heads {
  const HostArray &q, &k, &v;
  const HostArray* mask;
  double scale;
  bool causal;
  int64_t length, keys, width, group;  // group: query heads that share a key head
};

// Score of one query with one key, -inf where masked.
double score(const Heads& h, int64_t query_row, int64_t key_row, const Coords& at) {
  constexpr double kMasked = -std::numeric_limits<double>::infinity();
  if (h.causal && at[3] > at[2]) return kMasked;
  double sum = 0;
  for (int64_t d = 0; d < h.width; ++d)
    sum += to_double(h.q.bits(query_row * h.width + d), h.q.dtype) *
           to_double(h.k.bits(key_row * h.width + d), h.k.dtype);
  sum *= h.scale;
  if (!h.mask) return sum;
  const Bits m = h.mask->bits(linear_broadcast(h.mask->shape, at));
  if (h.mask->dtype == DType::Bool) return m ? sum : kMasked;
  return sum + to_double(m, h.mask->dtype);
}

// A query that may look at no key yields 0 and log-sum-exp -inf.
void attention_row(OracleCall& call, const Heads& h, int64_t batch, int64_t head, int64_t query) {
  const int64_t query_row = (batch * h.q.shape[1] + head) * h.length + query;
  const int64_t key_base = (batch * h.k.shape[1] + head / h.group) * h.keys;
  std::vector<double> p(static_cast<size_t>(h.keys));
  double most = -std::numeric_limits<double>::infinity();
  for (int64_t s = 0; s < h.keys; ++s) {
    p[static_cast<size_t>(s)] = score(h, query_row, key_base + s, {batch, head, query, s});
    const double v = p[static_cast<size_t>(s)];
    most = std::isnan(v) || v > most ? v : most;
  }
  const bool none = std::isinf(most) && most < 0;
  double sum = 0;
  for (double& v : p) sum += v = none ? 0 : std::exp(v - most);
  call.out[1].set_bits(query_row, from_double(most + std::log(sum), call.out[1].dtype));
  const int64_t width = h.v.shape[3];
  for (int64_t d = 0; d < width; ++d) {
    double value = 0;
    for (int64_t s = 0; s < h.keys && !none; ++s)
      value += p[static_cast<size_t>(s)] / sum *
               to_double(h.v.bits((key_base + s) * width + d), h.v.dtype);
    call.out[0].set_bits(query_row * width + d, from_double(value, call.out[0].dtype));
  }
}

void attention(OracleCall& call) {
  const HostArray &q = *call.in[0], &k = *call.in[1];
  const Heads h{q,
                k,
                *call.in[2],
                call.in.size() > 3 ? call.in[3] : nullptr,
                call.eqn.number("scale").value_or(1 / std::sqrt(static_cast<double>(q.shape[3]))),
                call.eqn.attr<bool>("causal"),
                q.shape[2],
                k.shape[2],
                q.shape[3],
                k.shape[1] == 0 ? 1 : q.shape[1] / k.shape[1]};
  for (int64_t batch = 0; batch < q.shape[0]; ++batch)
    for (int64_t head = 0; head < q.shape[1]; ++head)
      for (int64_t query = 0; query < h.length; ++query) attention_row(call, h, batch, head, query);
}

}  // namespace

void eval_structured(OracleCall& call) {
  switch (call.eqn.op) {
    case OpCode::max_pool:
      return max_pool(call);
    case OpCode::attention:
      return attention(call);
    case OpCode::convolution:
    case OpCode::convolution_folded:
      return eval_convolution(call);
    default:
      throw InternalError("the oracle lacks " + std::string(call.eqn.info().name));
  }
}

}  // namespace poot::ir
