// One function a library operation; the order of operands and attributes is that of library.def.

#include "binding/library_calls.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include "binding/torch_host.h"
#include "support/errors.h"

namespace poot::binding {
namespace {

using program::LibraryOp;

// The operands of a call as tensors.
struct Operands {
  std::span<const runtime::TensorRef> refs;
  c10::Device device;
  at::Tensor operator[](size_t i) const { return borrow(refs[i], device); }
  std::optional<at::Tensor> optional(size_t i) const {
    if (i >= refs.size() || !refs[i].present()) return std::nullopt;
    return borrow(refs[i], device);
  }
};

// ints: ndim stride.. padding.. dilation.. transposed output_padding.. groups
at::Tensor convolution(const Operands& inputs, std::span<const int64_t> ints) {
  const size_t n = static_cast<size_t>(ints[0]);
  auto list = [&](size_t at) { return at::IntArrayRef(ints.data() + at, n); };
  return at::convolution(inputs[0], inputs[1], inputs.optional(2), list(1), list(1 + n),
                         list(1 + 2 * n), ints[1 + 3 * n] != 0, list(2 + 3 * n), ints[2 + 4 * n]);
}

void max_pool(const Operands& inputs, const Operands& outs, std::span<const int64_t> ints) {
  at::Tensor values = outs[0], indices = outs[1];
  auto pair = [&](size_t at) { return at::IntArrayRef(ints.data() + at, 2); };
  at::max_pool2d_with_indices_out(values, indices, inputs[0], pair(0), pair(2), pair(4), pair(6),
                                  ints[8] != 0);
}

void adopt(at::Tensor t, runtime::HostTensor& out, LibraryOp op) {
  out = own(std::move(t), out, program::library_info(op).name);
}

// Whichever of torch's kernels suits the operands. They do not give log-sum-exp: nothing may read
// the second result, which stays without memory.
void attention(const Operands& inputs, std::span<runtime::HostTensor> outs, bool causal,
               std::optional<double> scale) {
  if (outs.size() > 1) outs[1] = own(at::empty({0}, at::TensorOptions(inputs.device)));
  const at::Tensor q = inputs[0], k = inputs[1];
  adopt(at::scaled_dot_product_attention(q, k, inputs[2], inputs.optional(3), /*dropout_p=*/0.0,
                                         causal, scale, /*enable_gqa=*/q.size(1) != k.size(1)),
        outs[0], LibraryOp::sdpa);
}

}  // namespace

void call_library_out(LibraryOp op, std::span<const runtime::TensorRef> input_refs,
                      std::span<const runtime::TensorRef> out_refs, std::span<const int64_t> ints,
                      std::span<const double> floats, c10::Device device) {
  const Operands inputs{input_refs, device}, outs{out_refs, device};
  if (op == LibraryOp::max_pool2d) return max_pool(inputs, outs, ints);
  at::Tensor out = outs[0];
  switch (op) {
    case LibraryOp::mm:
      at::mm_out(out, inputs[0], inputs[1]);
      return;
    case LibraryOp::bmm:
      at::bmm_out(out, inputs[0], inputs[1]);
      return;
    case LibraryOp::addmm:
      at::addmm_out(out, inputs[0], inputs[1], inputs[2], floats[0], floats[1]);
      return;
    case LibraryOp::baddbmm:
      at::baddbmm_out(out, inputs[0], inputs[1], inputs[2], floats[0], floats[1]);
      return;
    default:
      throw InternalError(std::string(program::library_info(op).name) + " has no out variant");
  }
}

void call_library(LibraryOp op, std::span<const runtime::TensorRef> input_refs,
                  std::span<runtime::HostTensor> outs, std::span<const int64_t> ints,
                  std::span<const double> floats, c10::Device device) {
  const Operands inputs{input_refs, device};
  switch (op) {
    case LibraryOp::convolution:
      return adopt(convolution(inputs, ints), outs[0], op);
    case LibraryOp::sdpa: {
      const auto scale = floats.empty() ? std::nullopt : std::optional(floats[0]);
      if (!device.is_cpu()) return attention(inputs, outs, ints[0] != 0, scale);
      auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
          inputs[0], inputs[1], inputs[2], /*dropout_p=*/0.0, ints[0] != 0, inputs.optional(3),
          scale);
      adopt(std::move(out), outs[0], op);
      if (outs.size() > 1) adopt(std::move(lse), outs[1], op);
      return;
    }
    default:
      throw InternalError(std::string(program::library_info(op).name) +
                          " writes into given memory");
  }
}

}  // namespace poot::binding
