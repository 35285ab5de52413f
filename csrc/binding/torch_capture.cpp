// torch.cuda.CUDAGraph is asked through Python, since its C++ class needs a CUDA build. The
// workspaces of cuBLAS are dropped before and after a capture: a graph then has one of its own, in
// its pool, that nobody else is given.
#include "binding/torch_capture.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/utils/pybind.h>

#include <map>
#include <mutex>

#include "support/errors.h"

namespace poot::binding {
namespace py = pybind11;
namespace cuda = runtime::cuda;
namespace {

// One a device: captures of several threads go to one stream, one after the other.
c10::Stream side_stream(c10::Device device) {
  static std::mutex mutex;
  static auto& streams = *new std::map<c10::DeviceIndex, c10::Stream>;
  const std::lock_guard lock(mutex);
  auto it = streams.find(device.index());
  if (it == streams.end())
    it =
        streams
            .emplace(device.index(),
                     c10::impl::VirtualGuardImpl(c10::kCUDA).getStreamFromGlobalPool(device, false))
            .first;
  return it->second;
}

// `body` with the GIL; its Python errors as DeviceError.
template <class F>
auto with_python(const char* what, F&& body) {
  const py::gil_scoped_acquire gil;
  try {
    return body();
  } catch (const py::error_already_set& e) {
    throw DeviceError(std::string(what) + ": " + e.what());
  }
}

void drop_workspaces() {
  py::module_::import("torch._C").attr("_cuda_clearCublasWorkspaces")();
}

class TorchCapture final : public cuda::GraphCapture {
 public:
  explicit TorchCapture(c10::Device device)
      : guard_(c10::kCUDA), before_(guard_.getStream(device)) {
    guard_.exchangeStream(side_stream(device));
    try {
      with_python("beginning a capture", [&] {
        drop_workspaces();
        graph_ = py::module_::import("torch.cuda").attr("CUDAGraph")(py::arg("keep_graph") = true);
        graph_.attr("capture_begin")(py::arg("capture_error_mode") = "thread_local");
        stream_ = reinterpret_cast<cuda::Stream>(
            py::module_::import("torch._C")
                .attr("_cuda_getCurrentRawStream")(int{device.index()})
                .cast<uintptr_t>());
      });
    } catch (...) {
      drop_graph();
      guard_.exchangeStream(before_);
      throw;
    }
  }

  ~TorchCapture() override {
    if (!ended_) {
      try {
        finish();
      } catch (const DeviceError&) {  // the capture is given up because something failed
      }
    }
    drop_graph();
  }

  cuda::Stream stream() override { return stream_; }

  cuda::Graph end() override {
    finish();
    return with_python("ending a capture", [&] {
      return reinterpret_cast<cuda::Graph>(graph_.attr("raw_cuda_graph")().cast<uintptr_t>());
    });
  }

 private:
  void finish() {
    ended_ = true;
    struct Restore {
      TorchCapture& c;
      ~Restore() { c.guard_.exchangeStream(c.before_); }
    } restore{*this};
    with_python("ending a capture", [&] {
      graph_.attr("capture_end")();
      drop_workspaces();
    });
  }

  // At exit Python may be gone; the graph goes with the process then.
  void drop_graph() {
    if (!Py_IsInitialized()) {
      graph_.release();
      return;
    }
    const py::gil_scoped_acquire gil;
    graph_ = py::object();
  }

  const c10::impl::VirtualGuardImpl guard_;
  const c10::Stream before_;
  py::object graph_;
  cuda::Stream stream_ = nullptr;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<cuda::GraphCapture> begin_capture(c10::Device device) {
  return std::make_unique<TorchCapture>(device);
}

}  // namespace poot::binding
