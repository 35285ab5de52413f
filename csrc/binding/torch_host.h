// HostServices of torch: memory from its allocators, its thread team, its libraries, its
// dispatcher.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string_view>

#include "binding/launch_ranges.h"
#include "binding/library_memory.h"
#include "binding/opaque_table.h"
#include "binding/packed_weights.h"
#include "runtime/host_services.h"

namespace poot::binding {

// A tensor on `device` that views memory which somebody else keeps alive for the duration of the
// call.
at::Tensor borrow(const runtime::TensorRef& ref, c10::Device device);
// The result tensor: `owner` is the c10::Storage that holds `data`.
at::Tensor wrap(const runtime::HostTensor& t, at::ScalarType dtype);
runtime::HostTensor own(const at::Tensor& t);
// `t`, which `call` returned, in the dtype and strides that `out` asks for. Throws DeviceError if
// its sizes or the kind of its numbers are others.
runtime::HostTensor own(at::Tensor t, const runtime::HostTensor& out, std::string_view call);
// `t` itself if it has these strides (where a dim's size exceeds 1), else a copy that has.
at::Tensor with_strides(const at::Tensor& t, at::IntArrayRef strides);

class TorchHost : public runtime::HostServices {
 public:
  // Of a program whose tensors lie on `device`; `pooled`: large results and
  // transients on the CPU come from the process's pool.
  TorchHost(std::shared_ptr<OpaqueTable> calls, const program::Program& program, c10::Device device,
            bool pooled)
      : calls_(std::move(calls)), device_(device), pooled_(pooled), packed_(program) {
    if (device.is_cpu()) install_library_memory();
  }
  PackedWeights& packed_weights() { return packed_; }
  void* allocate(size_t bytes) override;
  void free(void* p) override;
  runtime::HostTensor allocate_output(size_t bytes) override;
  void parallel_for(uint32_t n, runtime::RangeFn fn, void* ctx) override;
  uint32_t threads() const override;
  void library_call(program::LibraryOp op, std::span<const runtime::TensorRef> inputs,
                    std::span<const runtime::TensorRef> outs, std::span<const int64_t> ints,
                    std::span<const double> floats) override;
  void library_call_owned(program::LibraryOp op, std::span<const runtime::TensorRef> inputs,
                          std::span<runtime::HostTensor> outs, std::span<const int64_t> ints,
                          std::span<const double> floats) override;
  void opaque_call(uint32_t call, std::span<const runtime::TensorRef> inputs,
                   std::span<const int64_t> symbols, std::span<runtime::HostTensor> outs) override;
  bool lend(const std::shared_ptr<runtime::CallMemory>& memory) override;
  bool settle(const std::shared_ptr<runtime::CallMemory>& memory) noexcept override;
  runtime::Watch watched() const override { return ranges_.watched(); }
  std::shared_ptr<void> announce(const program::Program& program, std::span<const int64_t> symbols,
                                 uint32_t first, uint32_t count) override {
    return ranges_.announce(program, symbols, first, count);
  }

 private:
  bool pools(size_t bytes) const;

  std::shared_ptr<OpaqueTable> calls_;
  const c10::Device device_;
  const bool pooled_;
  PackedWeights packed_;
  LaunchRanges ranges_;
};

}  // namespace poot::binding
