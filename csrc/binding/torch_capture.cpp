// Torch's allocator is asked through Python, since its C++ interface needs a CUDA build. Graphs are
// not made by torch.cuda.CUDAGraph: that registers the random generator, whose state takes memory
// of the device as long as a graph lives and is spoilt by a capture that fails, and nothing that is
// captured here draws numbers.
//
// The workspaces of cuBLAS are dropped before and after a capture: what is captured then has one in
// the pool, which nobody but graphs of that pool is given.
#include "binding/torch_capture.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/utils/pybind.h>

#include <map>
#include <mutex>
#include <utility>

#include "support/errors.h"

namespace poot::binding {
namespace py = pybind11;
namespace cuda = runtime::cuda;
namespace {

// `body` with the GIL and torch._C; its Python errors as DeviceError.
template <class F>
auto with_torch(const char* what, F&& body) {
  const py::gil_scoped_acquire gil;
  try {
    return body(py::module_::import("torch._C"));
  } catch (const py::error_already_set& e) {
    throw DeviceError(std::string(what) + ": " + e.what());
  }
}

// For what ends things: errors are dropped.
template <class F>
void end_with_torch(F&& body) {
  if (!Py_IsInitialized()) return;  // at exit: it goes with the process
  try {
    with_torch("", body);
  } catch (const std::exception&) {
  }
}

// Torch counts who uses a pool: this object, and the scopes that allocate from it.
class Pool final : public runtime::QueueMemory {
 public:
  explicit Pool(c10::Device device) : device_(device.index()) {
    with_torch("making a pool of captures", [&](const py::module_& torch) {
      id_ = py::module_::import("torch.cuda").attr("graph_pool_handle")().cast<Id>();
      begin(torch);
      torch.attr("_cuda_endAllocateToPool")(device_, id_);
    });
  }
  ~Pool() override {
    end_with_torch([&](const py::module_& torch) { release(torch); });
  }

  void begin(const py::module_& torch) const {
    torch.attr("_cuda_beginAllocateCurrentThreadToPool")(device_, id_);
  }
  void end(const py::module_& torch) const {
    torch.attr("_cuda_endAllocateToPool")(device_, id_);
    release(torch);
  }

 private:
  using Id = std::pair<unsigned long long, unsigned long long>;
  void release(const py::module_& torch) const { torch.attr("_cuda_releasePool")(device_, id_); }

  const int device_;
  Id id_;
};

// One a device: captures of several threads go to one stream, one after the other.
c10::Stream side_stream(c10::Device device) {
  static auto& streams = *new std::map<c10::DeviceIndex, c10::Stream>;
  auto it = streams.find(device.index());
  if (it == streams.end())
    it =
        streams
            .emplace(device.index(),
                     c10::impl::VirtualGuardImpl(c10::kCUDA).getStreamFromGlobalPool(device, false))
            .first;
  return it->second;
}

class TorchScope final : public cuda::CaptureScope {
 public:
  TorchScope(c10::Device device, const Pool& pool)
      : alone_(mutex()), pool_(pool), guard_(c10::kCUDA), before_(guard_.getStream(device)) {
    guard_.exchangeStream(side_stream(device));
    try {
      with_torch("beginning a capture", [&](const py::module_& torch) {
        torch.attr("_cuda_clearCublasWorkspaces")();
        stream_ = reinterpret_cast<cuda::Stream>(
            torch.attr("_cuda_getCurrentRawStream")(int{device.index()}).cast<uintptr_t>());
        pool_.begin(torch);
      });
    } catch (...) {
      guard_.exchangeStream(before_);
      throw;
    }
  }
  ~TorchScope() override {
    end_with_torch([&](const py::module_& torch) { pool_.end(torch); });
    end_with_torch([&](const py::module_& torch) { torch.attr("_cuda_clearCublasWorkspaces")(); });
    guard_.exchangeStream(before_);
  }

  cuda::Stream stream() override { return stream_; }

 private:
  static std::mutex& mutex() {
    static std::mutex& m = *new std::mutex;
    return m;
  }

  const std::unique_lock<std::mutex> alone_;
  const Pool& pool_;
  const c10::impl::VirtualGuardImpl guard_;
  const c10::Stream before_;
  cuda::Stream stream_ = nullptr;
};

}  // namespace

std::shared_ptr<runtime::QueueMemory> capture_pool(c10::Device device) {
  static std::mutex& mutex = *new std::mutex;
  static auto& pools =
      *new std::map<std::pair<c10::DeviceIndex, c10::StreamId>, std::weak_ptr<Pool>>;
  const c10::Stream stream = c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(device);
  const std::lock_guard lock(mutex);
  std::weak_ptr<Pool>& known = pools[{stream.device_index(), stream.id()}];
  if (auto pool = known.lock()) return pool;
  auto pool = std::make_shared<Pool>(device);
  known = pool;
  return pool;
}

std::unique_ptr<cuda::CaptureScope> begin_capture(c10::Device device, runtime::QueueMemory& pool) {
  return std::make_unique<TorchScope>(device, static_cast<const Pool&>(pool));
}

}  // namespace poot::binding
