// One function a library operation; the order of operands and attributes is that of library.def.

#include "binding/library_calls.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/mm.h>

#include "binding/torch_host.h"
#include "support/errors.h"

namespace poot::binding {
namespace {

using program::LibraryOp;

std::optional<at::Tensor> optional(std::span<const runtime::TensorRef> inputs, size_t i) {
  if (i >= inputs.size() || !inputs[i].present()) return std::nullopt;
  return borrow(inputs[i]);
}

// ints: ndim stride.. padding.. dilation.. transposed output_padding.. groups
at::Tensor convolution(std::span<const runtime::TensorRef> inputs, std::span<const int64_t> ints) {
  const size_t n = static_cast<size_t>(ints[0]);
  auto list = [&](size_t at) { return at::IntArrayRef(ints.data() + at, n); };
  return at::convolution(borrow(inputs[0]), borrow(inputs[1]), optional(inputs, 2), list(1),
                         list(1 + n), list(1 + 2 * n), ints[1 + 3 * n] != 0, list(2 + 3 * n),
                         ints[2 + 4 * n]);
}

void max_pool(std::span<const runtime::TensorRef> inputs, std::span<const runtime::TensorRef> outs,
              std::span<const int64_t> ints) {
  at::Tensor values = borrow(outs[0]), indices = borrow(outs[1]);
  auto pair = [&](size_t at) { return at::IntArrayRef(ints.data() + at, 2); };
  at::max_pool2d_with_indices_out(values, indices, borrow(inputs[0]), pair(0), pair(2), pair(4),
                                  pair(6), ints[8] != 0);
}

void adopt(at::Tensor t, runtime::HostTensor& out) {
  out = own(with_strides(t, out.strides));
}

}  // namespace

void call_library_out(LibraryOp op, std::span<const runtime::TensorRef> inputs,
                      std::span<const runtime::TensorRef> outs, std::span<const int64_t> ints,
                      std::span<const double> floats) {
  if (op == LibraryOp::max_pool2d) return max_pool(inputs, outs, ints);
  at::Tensor out = borrow(outs[0]);
  switch (op) {
    case LibraryOp::mm:
      at::mm_out(out, borrow(inputs[0]), borrow(inputs[1]));
      return;
    case LibraryOp::bmm:
      at::bmm_out(out, borrow(inputs[0]), borrow(inputs[1]));
      return;
    case LibraryOp::addmm:
      at::addmm_out(out, borrow(inputs[0]), borrow(inputs[1]), borrow(inputs[2]), floats[0],
                    floats[1]);
      return;
    case LibraryOp::baddbmm:
      at::baddbmm_out(out, borrow(inputs[0]), borrow(inputs[1]), borrow(inputs[2]), floats[0],
                      floats[1]);
      return;
    default:
      throw InternalError(std::string(program::library_info(op).name) + " has no out variant");
  }
}

void call_library(LibraryOp op, std::span<const runtime::TensorRef> inputs,
                  std::span<runtime::HostTensor> outs, std::span<const int64_t> ints,
                  std::span<const double> floats) {
  switch (op) {
    case LibraryOp::convolution:
      return adopt(convolution(inputs, ints), outs[0]);
    case LibraryOp::sdpa: {
      auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
          borrow(inputs[0]), borrow(inputs[1]), borrow(inputs[2]), /*dropout_p=*/0.0, ints[0] != 0,
          optional(inputs, 3), floats[0]);
      adopt(std::move(out), outs[0]);
      if (outs.size() > 1) adopt(std::move(lse), outs[1]);
      return;
    }
    default:
      throw InternalError(std::string(program::library_info(op).name) +
                          " writes into given memory");
  }
}

}  // namespace poot::binding
