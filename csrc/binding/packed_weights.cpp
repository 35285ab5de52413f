// oneDNN's prepacked convolution, as ATen offers it to compilers. A packed weight suits other image
// sizes than the one it was packed for, if less well: one is kept a call.
#include "binding/packed_weights.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "binding/torch_host.h"

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

at::Tensor convolve(const at::Tensor& image, const at::Tensor& weight,
                    const std::optional<at::Tensor>& bias, Ints padding, Ints stride, Ints dilation,
                    int64_t groups) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_convolution_pointwise", "")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                            Ints, Ints, Ints, int64_t, std::string_view,
                            c10::List<std::optional<at::Scalar>>,
                            std::optional<std::string_view>)>();
  return op.call(image, weight, bias, padding, stride, dilation, groups, "none",
                 c10::List<std::optional<at::Scalar>>(), "");
}

}  // namespace

PackedWeights::PackedWeights(const program::Program& program) {
  for (const program::Segment& s : program.segments)
    for (const program::Launch& l : s.launches) {
      const auto* call = std::get_if<program::LibraryLaunch>(&l.body);
      if (!call || call->op != program::LibraryOp::convolution_packed) continue;
      const program::View& weight = program.views[call->inputs[1].index];
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

at::Tensor PackedWeights::convolution(std::span<const runtime::TensorRef> inputs,
                                      std::span<const int64_t> ints) {
  const auto n = static_cast<size_t>(ints[0]);
  const auto list = [&](size_t at) { return Ints(ints.data() + 1 + at * n, n); };
  const Ints stride = list(0), padding = list(1), dilation = list(2);
  const int64_t groups = ints[1 + 3 * n];
  const at::Tensor image = borrow(inputs[0], c10::kCPU);
  at::Tensor weight;
  {
    const std::lock_guard lock(mutex_);
    at::Tensor& kept = packed_[ints.data()];
    if (!kept.defined())
      kept = pack(borrow(inputs[1], c10::kCPU), padding, stride, dilation, groups, image.sizes());
    weight = kept;
  }
  std::optional<at::Tensor> bias;
  if (inputs.size() > 2 && inputs[2].present()) bias = borrow(inputs[2], c10::kCPU);
  return convolve(image, weight, bias, padding, stride, dilation, groups);
}

}  // namespace poot::binding
