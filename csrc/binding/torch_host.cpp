#include "binding/torch_host.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/CPUAllocator.h>

#include "binding/library_calls.h"
#include "binding/openmp_team.h"
#include "binding/output_memory.h"
#include "binding/torch_types.h"
#include "runtime/library_loans.h"

namespace poot::binding {

at::Tensor borrow(const runtime::TensorRef& ref, c10::Device device) {
  if (!ref.present()) return {};
  return at::for_blob(ref.data, at::IntArrayRef(ref.sizes.data(), ref.sizes.size()))
      .strides(at::IntArrayRef(ref.strides.data(), ref.strides.size()))
      .options(at::TensorOptions(to_torch(ref.dtype)).device(device))
      .target_device(device)
      .make_tensor();
}

namespace {

c10::DispatchKeySet key_of(c10::Device device) {
  return c10::DispatchKeySet(device.is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA);
}

}  // namespace

at::Tensor wrap(const runtime::HostTensor& t, at::ScalarType dtype) {
  const c10::Storage& storage = *static_cast<const c10::Storage*>(t.owner.get());
  at::Tensor out = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), key_of(storage.device()), c10::scalarTypeToTypeMeta(dtype));
  const int64_t bytes = static_cast<const char*>(t.data) - static_cast<const char*>(storage.data());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(
      t.sizes, t.strides, bytes / static_cast<int64_t>(c10::elementSize(dtype)));
  return out;
}

runtime::HostTensor own(const at::Tensor& t) {
  runtime::HostTensor out;
  out.data = t.data_ptr();
  out.sizes = t.sizes().vec();
  out.strides = t.strides().vec();
  out.owner = std::make_shared<c10::Storage>(t.storage());
  out.dtype = from_torch(t.scalar_type());
  return out;
}

runtime::HostTensor own(at::Tensor t, const runtime::HostTensor& out, std::string_view call) {
  if (t.sizes() != at::IntArrayRef(out.sizes))
    throw DeviceError(std::string(call) + " returned other sizes than it was traced with");
  const at::ScalarType dtype = to_torch(out.dtype);
  if (t.scalar_type() != dtype) {
    if (!t.is_floating_point() || !at::isFloatingType(dtype))
      throw DeviceError(std::string(call) + " returned " + c10::toString(t.scalar_type()) +
                        ", traced with " + c10::toString(dtype));
    t = t.to(dtype);
  }
  return own(with_strides(t, out.strides));
}

at::Tensor with_strides(const at::Tensor& t, at::IntArrayRef strides) {
  bool equal = t.numel() == 0;
  if (!equal) {
    equal = true;
    for (int64_t d = 0; d < t.dim(); ++d)
      if (t.size(d) > 1 && t.stride(d) != strides[d]) equal = false;
  }
  if (equal) return t;
  at::Tensor out = at::empty_strided(t.sizes(), strides, t.options());
  out.copy_(t);
  return out;
}

bool TorchHost::pools(size_t bytes) const {
  return pooled_ && device_.is_cpu() && bytes >= runtime::BlockPool::kSmallest;
}

void* TorchHost::allocate(size_t bytes) {
  if (pools(bytes)) return output_pool().take(bytes, runtime::BlockPool::For::Call);
  return c10::GetAllocator(device_.type())->raw_allocate(bytes);
}

void TorchHost::free(void* p) {
  if (pooled_ && device_.is_cpu() && output_pool().owns(p)) return output_pool().give(p);
  c10::GetAllocator(device_.type())->raw_deallocate(p);
}

runtime::HostTensor TorchHost::allocate_output(size_t bytes) {
  auto storage = std::make_shared<c10::Storage>(output_storage(bytes, device_, pooled_));
  runtime::HostTensor t;
  t.data = storage->mutable_data();
  t.owner = std::move(storage);
  return t;
}

void TorchHost::parallel_for(uint32_t n, runtime::RangeFn fn, void* ctx) {
  run_on_team(n, fn, ctx);
}

uint32_t TorchHost::threads() const {
  return static_cast<uint32_t>(at::get_num_threads());
}

void TorchHost::library_call(program::LibraryOp op, std::span<const runtime::TensorRef> inputs,
                             std::span<const runtime::TensorRef> outs,
                             std::span<const int64_t> ints, std::span<const double> floats) {
  call_library_out(op, inputs, outs, ints, floats, device_);
}

void TorchHost::library_call_owned(program::LibraryOp op,
                                   std::span<const runtime::TensorRef> inputs,
                                   std::span<runtime::HostTensor> outs,
                                   std::span<const int64_t> ints, std::span<const double> floats) {
  if (op == program::LibraryOp::convolution_packed)
    outs[0] = own(packed_.convolution(inputs, ints), outs[0], "convolution");
  else if (op == program::LibraryOp::linear_packed)
    outs[0] = own(packed_.linear(inputs, ints), outs[0], "linear");
  else
    call_library(op, inputs, outs, ints, floats, device_);
}

bool TorchHost::lend(const std::shared_ptr<runtime::CallMemory>& memory) {
  if (!device_.is_cpu()) return false;
  runtime::loans::lend(memory);
  return true;
}

bool TorchHost::settle(const std::shared_ptr<runtime::CallMemory>& memory) noexcept {
  return runtime::loans::settle(memory);
}

void TorchHost::opaque_call(uint32_t call, std::span<const runtime::TensorRef> inputs,
                            std::span<const int64_t> symbols, std::span<runtime::HostTensor> outs) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(inputs.size());
  for (const runtime::TensorRef& t : inputs) tensors.push_back(borrow(t, device_));
  std::vector<at::Tensor> results = calls_->call(call, tensors, symbols);
  if (results.size() != outs.size())
    throw DeviceError(calls_->name(call) + " returned " + std::to_string(results.size()) +
                      " tensors, traced with " + std::to_string(outs.size()));
  for (size_t i = 0; i < outs.size(); ++i) {
    at::Tensor& r = results[i];
    // A result that views an operand would die with the arena: it gets memory of its own.
    for (const at::Tensor& in : tensors)
      if (in.defined() && r.storage().data() == in.storage().data() && in.numel() > 0) {
        r = r.clone();
        break;
      }
    outs[i] = own(r, outs[i], calls_->name(call));
  }
}

}  // namespace poot::binding
