// oneDNN's prepacked convolution, as ATen offers it to compilers. A packed weight suits other image
// sizes than the one it was packed for, if less well: one is kept a call.
#include "binding/packed_weights.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/mul.h>

#include <cstring>

#include "binding/torch_host.h"
#include "runtime/library_loans.h"

namespace poot::binding {
namespace {

using Ints = at::IntArrayRef;

at::Tensor pack(const at::Tensor& weight, Ints padding, Ints stride, Ints dilation, int64_t groups,
                Ints image) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mkldnn::_reorder_convolution_weight", "")
                             .typed<at::Tensor(const at::Tensor&, Ints, Ints, Ints, int64_t,
                                               at::OptionalIntArrayRef)>();
  return op.call(weight, padding, stride, dilation, groups, image);
}

at::Tensor pack_linear(const at::Tensor& weight, int64_t rows) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mkldnn::_reorder_linear_weight", "")
                             .typed<at::Tensor(const at::Tensor&, std::optional<int64_t>)>();
  return op.call(weight, rows);
}

at::Tensor multiply(const at::Tensor& x, const at::Tensor& weight,
                    const std::optional<at::Tensor>& bias) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                            std::string_view, c10::List<std::optional<at::Scalar>>,
                            std::optional<std::string_view>)>();
  return op.call(x, weight, bias, "none", c10::List<std::optional<at::Scalar>>(), "");
}

struct Convolution {
  Ints stride, padding, dilation;
  int64_t groups;
  bool relu;
};

at::Tensor convolve(const at::Tensor& image, const at::Tensor& weight,
                    const std::optional<at::Tensor>& bias, const Convolution& c) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_convolution_pointwise", "")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                            Ints, Ints, Ints, int64_t, std::string_view,
                            c10::List<std::optional<at::Scalar>>,
                            std::optional<std::string_view>)>();
  return op.call(image, weight, bias, c.padding, c.stride, c.dilation, c.groups,
                 c.relu ? "relu" : "none", c10::List<std::optional<at::Scalar>>(), "");
}

at::Tensor convolve_and_add(const at::Tensor& image, const at::Tensor& residual,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                            const Convolution& c) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_convolution_pointwise", "binary")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                            const std::optional<at::Tensor>&, Ints, Ints, Ints, int64_t,
                            std::string_view, std::optional<at::Scalar>,
                            std::optional<std::string_view>, c10::List<std::optional<at::Scalar>>,
                            std::optional<std::string_view>)>();
  const std::optional<std::string_view> relu =
      c.relu ? std::optional<std::string_view>("relu") : std::nullopt;
  return op.call(image, residual, weight, bias, c.padding, c.stride, c.dilation, c.groups, "add",
                 at::Scalar(1), relu, c10::List<std::optional<at::Scalar>>(), std::nullopt);
}

constexpr size_t kInputs = 6;  // image, weight, bias, scale, shift, residual

bool same_values(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace

PackedWeights::PackedWeights(const program::Program& program) {
  for (const program::Segment& s : program.segments)
    for (const program::Launch& l : s.launches) {
      const auto* call = std::get_if<program::LibraryLaunch>(&l.body);
      if (!call) continue;
      const bool linear = call->op == program::LibraryOp::linear_packed;
      if (!linear && call->op != program::LibraryOp::convolution_packed) continue;
      const program::ViewId place = linear ? call->inputs.back() : call->inputs[1];
      const program::View& weight = program.views[place.index];
      positions_.push_back(program.buffers[weight.buffer.index].index);
    }
}

void PackedWeights::follow(const std::vector<at::Tensor>& arguments) {
  std::vector<Seen> now;
  now.reserve(positions_.size());
  for (const uint32_t p : positions_) {
    const at::Tensor& t = arguments[p];
    now.push_back({t.const_data_ptr(), t.is_inference() ? 0 : static_cast<uint32_t>(t._version())});
  }
  const std::lock_guard lock(mutex_);
  if (now == seen_) return;
  packed_.clear();
  seen_ = std::move(now);
}

// image, weight, bias, scale, shift, residual
PackedWeights::Packed PackedWeights::packed(
    const int64_t* call, std::span<const at::Tensor> inputs,
    const std::function<at::Tensor(const at::Tensor&)>& pack) {
  const at::Tensor &scale = inputs[3], &shift = inputs[4];
  const runtime::loans::OwnMemory outlives_the_call;
  const std::lock_guard lock(mutex_);
  Packed& kept = packed_[call];
  if (kept.weight.defined() && same_values(kept.scale, scale) && same_values(kept.shift, shift))
    return kept;
  kept = {};
  at::Tensor weight = inputs[1];
  if (scale.defined()) {
    kept.scale = scale.clone();
    kept.shift = shift.clone();
    weight =
        at::mul(weight.to(scale.scalar_type()), scale.view({-1, 1, 1, 1})).to(weight.scalar_type());
    kept.bias = kept.shift.to(weight.scalar_type());  // of the copy: `to` may return its operand
  }
  kept.weight = pack(weight);
  return kept;
}

at::Tensor PackedWeights::convolution(std::span<const runtime::TensorRef> refs,
                                      std::span<const int64_t> ints) {
  const auto n = static_cast<size_t>(ints[0]);
  const auto list = [&](size_t at) { return Ints(ints.data() + 1 + at * n, n); };
  const Convolution c{list(0), list(1), list(2), ints[1 + 3 * n], ints[2 + 3 * n] != 0};
  std::vector<at::Tensor> inputs(kInputs);
  for (size_t i = 0; i < refs.size(); ++i)
    if (refs[i].present()) inputs[i] = borrow(refs[i], c10::kCPU);
  const at::Tensor &image = inputs[0], &residual = inputs[5];
  const Packed p = packed(ints.data(), inputs, [&](const at::Tensor& weight) {
    return pack(weight, c.padding, c.stride, c.dilation, c.groups, image.sizes());
  });
  const at::Tensor& own = inputs[3].defined() ? p.bias : inputs[2];
  const std::optional<at::Tensor> bias = own.defined() ? std::optional(own) : std::nullopt;
  if (residual.defined()) return convolve_and_add(image, residual, p.weight, bias, c);
  return convolve(image, p.weight, bias, c);
}

// [bias,] x [M, K], w [K, N]; the library packs [N, K].
at::Tensor PackedWeights::linear(std::span<const runtime::TensorRef> refs,
                                 std::span<const int64_t> ints) {
  const size_t first = refs.size() - 2;
  std::vector<at::Tensor> inputs(kInputs);
  inputs[0] = borrow(refs[first], c10::kCPU);
  inputs[1] = borrow(refs[first + 1], c10::kCPU);
  const Packed p = packed(ints.data(), inputs, [&](const at::Tensor& weight) {
    return pack_linear(weight.t().contiguous(), ints[0]);
  });
  std::optional<at::Tensor> bias;
  if (first > 0) bias = borrow(refs[0], c10::kCPU);
  return multiply(inputs[0], p.weight, bias);
}

}  // namespace poot::binding
