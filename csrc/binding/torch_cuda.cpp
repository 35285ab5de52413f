// The current stream's handle: the default stream is the null handle; others are asked of Python,
// since torch's C++ interface for it needs a CUDA build, and remembered.
#include "binding/torch_cuda.h"

#include <c10/core/Allocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/utils/pybind.h>

#include <map>
#include <mutex>

#include "binding/torch_capture.h"
#include "runtime/kernel_store.h"
#include "runtime/nvjitlink.h"

namespace poot::binding {
namespace py = pybind11;
namespace cuda = runtime::cuda;

namespace {

class TorchOwner final : public cuda::Owner {
 public:
  explicit TorchOwner(int ordinal) : device_(c10::kCUDA, static_cast<c10::DeviceIndex>(ordinal)) {}

  runtime::Address allocate(uint64_t bytes) override {
    return static_cast<runtime::Address>(c10::GetAllocator(c10::kCUDA)->raw_allocate(bytes));
  }
  void free(runtime::Address address) override {
    c10::GetAllocator(c10::kCUDA)->raw_deallocate(address);
  }
  cuda::Stream stream() override {
    const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
    const c10::StreamId id = guard.getStream(device_).id();
    if (id == 0) return nullptr;
    {
      std::lock_guard lock(mutex_);
      if (const auto it = handles_.find(id); it != handles_.end()) return it->second;
    }
    py::gil_scoped_acquire gil;
    const auto raw = py::module_::import("torch._C")
                         .attr("_cuda_getCurrentRawStream")(int{device_.index()})
                         .cast<uintptr_t>();
    std::lock_guard lock(mutex_);
    return handles_[id] = reinterpret_cast<cuda::Stream>(raw);
  }
  std::shared_ptr<runtime::QueueMemory> capture_memory() override { return capture_pool(device_); }
  std::unique_ptr<cuda::CaptureScope> begin_capture(runtime::QueueMemory& memory) override {
    return binding::begin_capture(device_, memory);
  }

 private:
  const c10::Device device_;
  std::mutex mutex_;
  std::map<c10::StreamId, cuda::Stream> handles_;
};

}  // namespace

cuda::CudaDevice& cuda_device(int ordinal) {
  static std::mutex mutex;
  static auto* devices = new std::map<int, std::unique_ptr<cuda::CudaDevice>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<cuda::CudaDevice>& device = (*devices)[ordinal];
  if (!device)
    device = std::make_unique<cuda::CudaDevice>(cuda::Driver::get(), ordinal,
                                                std::make_unique<TorchOwner>(ordinal));
  return *device;
}

bool link_with_nvjitlink(const std::vector<std::string>& paths) {
  std::shared_ptr<const runtime::NvJitLink> linker = runtime::NvJitLink::open(paths);
  if (!linker) return false;
  const std::string version = "nvJitLink " + linker->version();
  runtime::KernelStore::instance().link_ptx(
      [linker](const std::string& ptx, const std::string& arch) { return linker->link(ptx, arch); },
      version);
  return true;
}

}  // namespace poot::binding
