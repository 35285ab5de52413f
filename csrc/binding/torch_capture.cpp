// torch.cuda.CUDAGraph is asked through Python, since its C++ class needs a CUDA build. The
// workspaces of cuBLAS are dropped before and after a capture: the graph then has one in its pool,
// which nobody but graphs of that pool is given.
//
// Graphs of one stream run one after the other, so those that leave nothing behind share one pool:
// fifty graphs then hold one workspace of 32 MiB and the memory of the largest.
#include "binding/torch_capture.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <pybind11/eval.h>
#include <torch/csrc/utils/pybind.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

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

// The pool that graphs of a stream share, while there are any: torch refuses the name of a pool
// that no graph has. Called, and given up, under TorchCapture::mutex().
using PoolId = std::pair<unsigned long long, unsigned long long>;
std::shared_ptr<const PoolId> pool_of(const c10::Stream& stream) {
  static auto& pools =
      *new std::map<std::pair<c10::DeviceIndex, c10::StreamId>, std::weak_ptr<const PoolId>>;
  std::weak_ptr<const PoolId>& known = pools[{stream.device_index(), stream.id()}];
  if (auto pool = known.lock()) return pool;
  const py::object made = py::module_::import("torch.cuda").attr("graph_pool_handle")();
  auto pool = std::make_shared<const PoolId>(made.cast<PoolId>());
  known = pool;
  return pool;
}

// A capture that failed leaves torch's random generators in the state of a capture, where drawing
// numbers is an error. One that ends well brings them back.
void restore_generators() {
  const py::gil_scoped_acquire gil;
  try {
    py::exec(R"(
import torch, warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin(capture_error_mode="thread_local")
    graph.capture_end()
)",
             py::dict());
  } catch (const py::error_already_set&) {  // the device is lost; other errors tell
  }
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
  TorchCapture(c10::Device device, bool lasting)
      : alone_(mutex()), guard_(c10::kCUDA), before_(guard_.getStream(device)) {
    guard_.exchangeStream(side_stream(device));
    try {
      with_python("beginning a capture", [&] {
        drop_workspaces();
        graph_ = py::module_::import("torch.cuda").attr("CUDAGraph")(py::arg("keep_graph") = true);
        if (!lasting) pool_ = pool_of(before_);
        const py::object pool = lasting ? py::object(py::none()) : py::cast(*pool_);
        graph_.attr("capture_begin")(py::arg("pool") = pool,
                                     py::arg("capture_error_mode") = "thread_local");
        stream_ = reinterpret_cast<cuda::Stream>(
            py::module_::import("torch._C")
                .attr("_cuda_getCurrentRawStream")(int{device.index()})
                .cast<uintptr_t>());
      });
    } catch (...) {
      pool_.reset();
      drop_graph();
      restore_generators();
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
    if (!Py_IsInitialized()) {  // at exit: the graph goes with the process
      graph_.release();
      return;
    }
    // Whoever holds the mutex may be waiting for the GIL.
    std::optional<py::gil_scoped_release> no_gil;
    if (PyGILState_Check()) no_gil.emplace();
    const std::lock_guard lock(mutex());
    pool_.reset();
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
    const std::unique_lock ends = std::move(alone_);
    try {
      with_python("ending a capture", [&] {
        graph_.attr("capture_end")();
        drop_workspaces();
      });
    } catch (const DeviceError&) {
      restore_generators();
      throw;
    }
  }

  void drop_graph() {
    const py::gil_scoped_acquire gil;
    graph_ = py::object();
  }

  static std::mutex& mutex() {
    static std::mutex& m = *new std::mutex;
    return m;
  }

  std::unique_lock<std::mutex> alone_;  // until the capture ends
  const c10::impl::VirtualGuardImpl guard_;
  const c10::Stream before_;
  std::shared_ptr<const PoolId> pool_;
  py::object graph_;
  cuda::Stream stream_ = nullptr;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<cuda::GraphCapture> begin_capture(c10::Device device, bool lasting) {
  return std::make_unique<TorchCapture>(device, lasting);
}

}  // namespace poot::binding
