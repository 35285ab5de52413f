// Types of contractions, convolution, pooling, attention and opaque calls.
#include <algorithm>

#include "ir/infer.h"

namespace poot::ir {
namespace {

using Ints = std::vector<int64_t>;

// Matmul of operands a and b: matmul-C1 dtypes and ranks, matmul-C2 sizes.
TensorType product(const InferCall& call, const TensorType& a, const TensorType& b) {
  const size_t rank = a.shape.size();
  if (a.dtype != b.dtype || is_complex(a.dtype) || a.dtype == DType::Bool || rank < 2 ||
      b.shape.size() != rank)
    call.fail("matmul-C1", "operands " + a.str() + " and " + b.str() +
                               " need one number type and one rank of at least 2");
  bool fits = a.shape[rank - 1] == b.shape[rank - 2];
  for (size_t i = 0; i + 2 < rank; ++i) fits = fits && a.shape[i] == b.shape[i];
  if (!fits) call.fail("matmul-C2", "sizes of " + a.str() + " and " + b.str() + " do not match");
  TensorType out = a;
  out.shape[rank - 1] = b.shape[rank - 1];
  return out;
}

bool all_at_least(const Ints& v, int64_t low) {
  return std::all_of(v.begin(), v.end(), [low](int64_t x) { return x >= low; });
}

bool certainly_differ(const Dim& a, const Dim& b) {
  const Dim delta = a - b;
  return delta.is_const() && !delta.is_const(0);
}

struct Conv {
  const Ints &stride, &padding, &dilation, &output_padding;
  bool transposed;
  int64_t groups;

  Conv(const InferCall& call, const Ints& output_padding, bool transposed)
      : stride(call.attr<Ints>("stride")),
        padding(call.attr<Ints>("padding")),
        dilation(call.attr<Ints>("dilation")),
        output_padding(output_padding),
        transposed(transposed),
        groups(call.attr<int64_t>("groups")) {}

  bool well_formed(size_t spatial) const {
    return stride.size() == spatial && padding.size() == spatial && dilation.size() == spatial &&
           output_padding.size() == spatial && all_at_least(stride, 1) &&
           all_at_least(dilation, 1) && all_at_least(padding, 0) &&
           all_at_least(output_padding, 0) && groups >= 1;
  }
  Dim out_size(const Dim& in, const Dim& kernel, size_t i) const {
    const Dim reach = Dim(dilation[i]) * (kernel - 1) - Dim(padding[i]) * 2;
    if (transposed) return (in - 1) * Dim(stride[i]) + reach + Dim(output_padding[i]) + 1;
    return Dim::floordiv(in - reach - 1, Dim(stride[i])) + 1;
  }
};

}  // namespace

TypeList infer_matmul(const InferCall& call) {
  return {product(call, call.in[0], call.in[1])};
}

TypeList infer_addmm(const InferCall& call) {
  TensorType out = product(call, call.in[1], call.in[2]);
  if (call.in[0].dtype != out.dtype || !broadcasts_to(call.in[0].shape, out.shape))
    call.fail("addmm-C1",
              "operand 0 is " + call.in[0].str() + ", which does not broadcast to " + out.str());
  return {out};
}

namespace {

// Of operand 0, operand 1 and, if `biased`, operand 2.
TensorType convolved(const InferCall& call, const Conv& conv, bool biased) {
  const TensorType &x = call.in[0], &w = call.in[1];
  const size_t rank = x.shape.size();
  if (rank < 3 || w.shape.size() != rank || !is_float(x.dtype) || w.dtype != x.dtype ||
      (biased && call.in[2].dtype != x.dtype) || !conv.well_formed(rank - 2))
    call.fail("convolution-C1", "operands " + x.str() + " and " + w.str() + ", " +
                                    std::to_string(rank < 2 ? 0 : rank - 2) +
                                    " spatial axes: rank, dtype or attributes do not fit");
  const Dim groups = conv.groups;
  const Dim channels = conv.transposed ? w.shape[1] * groups : w.shape[0];
  const Dim read = conv.transposed ? w.shape[0] : w.shape[1] * groups;
  TensorType out{x.dtype, {x.shape[0], channels}};
  bool fits = !certainly_differ(read, x.shape[1]);
  if (biased) fits = fits && call.rank(2) == 1 && !certainly_differ(call.in[2].shape[0], channels);
  for (size_t i = 0; i + 2 < rank; ++i) {
    out.shape.push_back(conv.out_size(x.shape[i + 2], w.shape[i + 2], i));
    fits = fits && !(out.shape.back().is_const() && out.shape.back().value() < 0);
  }
  if (!fits)
    call.fail("convolution-C2", "sizes of " + x.str() + ", " + w.str() + " and " +
                                    std::to_string(conv.groups) + " groups do not match");
  return out;
}

}  // namespace

TypeList infer_convolution(const InferCall& call) {
  const Conv conv(call, call.attr<Ints>("output_padding"), call.attr<bool>("transposed"));
  if (call.in.size() > 3) call.fail("convolution-C1", "more than three operands");
  return {convolved(call, conv, call.in.size() == 3)};
}

TypeList infer_convolution_folded(const InferCall& call) {
  const Ints no_padding(call.attr<Ints>("stride").size(), 0);
  const TensorType out = convolved(call, Conv(call, no_padding, false), false);
  bool fits = call.in.size() <= 5;
  for (const size_t i : {2u, 3u})
    fits = fits && call.in[i].dtype == opmath(out.dtype) && call.rank(i) == 1 &&
           !certainly_differ(call.in[i].shape[0], out.shape[1]);
  if (call.in.size() == 5) fits = fits && call.in[4] == out;
  if (!fits)
    call.fail("convolution_folded-C1", "scale and shift are not vectors of the channels of " +
                                           out.str() +
                                           " in its opmath, or the residual is of another type");
  return {out};
}

// ceil mode: the last window must start inside the input or its left padding, hence the minimum.
TypeList infer_max_pool(const InferCall& call) {
  const TensorType& x = call.in[0];
  const auto &kernel = call.attr<Ints>("kernel"), &stride = call.attr<Ints>("stride"),
             &padding = call.attr<Ints>("padding"), &dilation = call.attr<Ints>("dilation");
  for (const Ints* v : {&kernel, &stride, &padding, &dilation})
    if (v->size() != 2 || x.shape.size() != 4 || is_complex(x.dtype) || x.dtype == DType::Bool)
      call.fail("max_pool-C1", "needs a 4-d operand and two numbers an attribute, got " + x.str() +
                                   " and " + list_text(*v));
  TensorType out{x.dtype, {x.shape[0], x.shape[1]}};
  bool fits = all_at_least(kernel, 1) && all_at_least(stride, 1) && all_at_least(dilation, 1) &&
              all_at_least(padding, 0);
  for (size_t i = 0; i < 2 && fits; ++i) {
    const Dim &in = x.shape[i + 2], p = padding[i], s = stride[i];
    const Dim span = in + p * 2 - Dim(dilation[i]) * Dim(kernel[i] - 1) - 1;
    Dim size = call.attr<bool>("ceil")
                   ? Dim::min(Dim::ceildiv(span, s) + 1, Dim::ceildiv(in + p, s))
                   : Dim::floordiv(span, s) + 1;
    fits = 2 * padding[i] <= kernel[i] && !(size.is_const() && size.value() < 1);
    out.shape.push_back(std::move(size));
  }
  if (!fits)
    call.fail("max_pool-C2", "kernel " + list_text(kernel) + ", stride " + list_text(stride) +
                                 ", padding " + list_text(padding) + ", dilation " +
                                 list_text(dilation) + " do not fit " + x.str());
  return {out, {DType::I64, out.shape}};
}

TypeList infer_attention(const InferCall& call) {
  const TensorType &q = call.in[0], &k = call.in[1], &v = call.in[2];
  if (call.in.size() > 4 || q.shape.size() != 4 || k.shape.size() != 4 || !is_float(q.dtype) ||
      k.dtype != q.dtype || v != k || q.shape[0] != k.shape[0] || q.shape[3] != k.shape[3] ||
      (q.shape[1].is_const() && k.shape[1].is_const() &&
       (k.shape[1].value() < 1 || q.shape[1].value() % k.shape[1].value() != 0)))
    call.fail("attention-C1", "q " + q.str() + ", k " + k.str() + ", v " + v.str() +
                                  " are not [B,H,L,D] and twice [B,Hk,S,D] of one float dtype");
  if (call.in.size() == 4) {
    const TensorType& mask = call.in[3];
    const Shape scores = {q.shape[0], q.shape[1], q.shape[2], k.shape[2]};
    if ((mask.dtype != DType::Bool && mask.dtype != q.dtype) || !broadcasts_to(mask.shape, scores))
      call.fail("attention-C2", "the mask " + mask.str() + " is not bool or " +
                                    std::string(name(q.dtype)) + " broadcastable to " +
                                    str(scores));
  }
  return {q, {DType::F32, {q.shape[0], q.shape[1], q.shape[2]}}};
}

TypeList infer_opaque(const InferCall& call) {
  const auto &dtypes = call.attr<Ints>("out_dtypes"), &ranks = call.attr<Ints>("out_ranks");
  const auto& dims = call.attr<std::vector<Dim>>("out_shapes");
  TypeList out;
  size_t at = 0;
  bool fits = dtypes.size() == ranks.size();
  for (size_t i = 0; fits && i < ranks.size(); ++i) {
    fits = ranks[i] >= 0 && static_cast<size_t>(ranks[i]) <= dims.size() - at && dtypes[i] >= 0 &&
           dtypes[i] <= static_cast<int64_t>(DType::C128);
    if (!fits) break;
    const auto first = dims.begin() + static_cast<ptrdiff_t>(at);
    out.push_back({static_cast<DType>(dtypes[i]), Shape(first, first + ranks[i])});
    at += static_cast<size_t>(ranks[i]);
  }
  if (!fits || at != dims.size())
    call.fail("opaque-C1", "out_dtypes " + list_text(dtypes) + ", out_ranks " + list_text(ranks) +
                               " and out_shapes " + str(dims) + " do not fit each other");
  return out;
}

}  // namespace poot::ir
