// Replay. The parameters of all launches are one stretch of words, of which a call fills in the
// buffers. A few launches go to the stream one by one; more become a graph at the second replay (a
// launch costs the host about 4 us, a whole graph 3 us), in which only the nodes whose words
// changed are patched. A graph in flight may be patched and launched again: the driver orders it.
//
// Where the stream is being captured by the caller, launches go to it one by one and become part of
// the caller's graph.
#include <algorithm>

#include "runtime/cuda_current.h"
#include "runtime/cuda_device.h"
#include "runtime/cuda_recording.h"
#include "support/errors.h"

namespace poot::runtime::cuda {
namespace {

constexpr size_t kGraphLaunches = 3;  // fewer are launched one by one

// The parameters of one launch, as the driver takes them.
struct Packed {
  explicit Packed(uint64_t* words, uint32_t count) : bytes(size_t{8} * count) { extra[1] = words; }
  size_t bytes;
  void* extra[5] = {kParamBuffer, nullptr, kParamBytes, &bytes, kParamEnd};
};

KernelNode node(const CudaLaunch& l, Packed& packed) {
  KernelNode n;
  n.function = l.function;
  std::copy(l.grid, l.grid + 3, n.grid);
  n.block[0] = l.threads;
  n.extra = packed.extra;
  return n;
}

}  // namespace

CudaRecording::~CudaRecording() {
  owner.forget(*this);
}

void CudaDevice::forget(const CudaRecording& recording) {
  {
    std::lock_guard lock(mutex_);
    pending_.erase(&recording);
  }
  if (!recording.graph.exec) return;
  const Current current(driver_, context_, std::nothrow);
  int mode = kNothingRefused;  // the thread may be amid a capture
  const bool exchanged = driver_.capture_mode(&mode) == 0;
  driver_.graph_exec_destroy(recording.graph.exec);
  driver_.graph_destroy(recording.graph.graph);
  if (exchanged) driver_.capture_mode(&mode);
}

bool CudaDevice::take_fault(const CudaRecording& recording, Fault& fault) {
  uint32_t bits = 0, index = 0;
  auto& words = const_cast<StatusWords&>(recording.status);
  if (!words.take(bits, index)) return false;
  fault = {bits, recording.numbers[index]};
  return true;
}

void CudaDevice::replay(const Recording& recording, std::span<const Address> slots, Fault& fault) {
  if (&recording.device() != this) throw DeviceError("replay of another device's recording");
  const auto& r = static_cast<const CudaRecording&>(recording);
  if (r.launches.empty() && !r.captured) return;
  if (r.status.any()) [[unlikely]] {
    std::lock_guard lock(mutex_);
    if (take_fault(r, fault)) return;
  }
  run(r, slots);
  std::lock_guard lock(mutex_);
  std::vector<Fault*>& faults = pending_[&r].faults;
  if (std::find(faults.begin(), faults.end(), &fault) == faults.end()) faults.push_back(&fault);
}

void CudaDevice::run(const CudaRecording& r, std::span<const Address> slots) {
  const Current current(driver_, context_);
  const Stream stream = owner_->stream();
  std::vector<uint64_t> words = r.words;
  const BufferRef* buffer = r.buffers.data();
  for (const CudaLaunch& l : r.launches)
    for (uint32_t i = 0; i < l.buffers; ++i)
      words[l.first + i] = reinterpret_cast<uint64_t>(resolve(*buffer++, slots));
  if (r.captured) {
    const std::lock_guard lock(r.mutex);
    return run_graph(r, words, stream);
  }
  int capturing = 0;
  if (r.launches.size() < kGraphLaunches || driver_.stream_capturing(stream, &capturing) != 0 ||
      capturing != 0)
    return run_launches(r, words, stream);
  std::unique_lock lock(r.mutex, std::try_to_lock);
  if (!lock || r.replays++ == 0) return run_launches(r, words, stream);
  run_graph(r, words, stream);
}

void CudaDevice::run_launches(const CudaRecording& r, std::vector<uint64_t>& words, Stream stream) {
  for (const CudaLaunch& l : r.launches) {
    Packed packed(words.data() + l.first, l.words);
    driver_.check(driver_.launch(l.function, l.grid[0], l.grid[1], l.grid[2], l.threads, 1, 1, 0,
                                 stream, nullptr, packed.extra),
                  "launching a kernel");
  }
}

void CudaDevice::run_graph(const CudaRecording& r, std::vector<uint64_t>& words, Stream stream) {
  ReplayGraph& g = r.graph;
  if (!g.exec) build_graph(r, words);
  for (size_t i = 0; i < r.launches.size(); ++i) {
    const CudaLaunch& l = r.launches[i];
    const auto from = words.begin() + l.first;
    if (std::equal(from, from + l.words, g.words.begin() + l.first)) continue;
    Packed packed(words.data() + l.first, l.words);
    const KernelNode n = node(l, packed);
    driver_.check(driver_.graph_set_kernel(g.exec, g.nodes[i], &n), "patching a graph");
    std::copy(from, from + l.words, g.words.begin() + l.first);
  }
  driver_.check(driver_.graph_launch(g.exec, stream), "launching a graph");
}

void CudaDevice::build_graph(const CudaRecording& r, std::vector<uint64_t>& words) {
  ReplayGraph g;
  g.words = words;
  driver_.check(driver_.graph_create(&g.graph, 0), "making a graph");
  try {
    add_kernels(g, r, words);
  } catch (...) {
    driver_.graph_destroy(g.graph);
    throw;
  }
  instantiate(g);
  r.graph = std::move(g);
}

void CudaDevice::add_kernels(ReplayGraph& g, const CudaRecording& r, std::vector<uint64_t>& words) {
  for (const CudaLaunch& l : r.launches) {
    Packed packed(words.data() + l.first, l.words);
    const KernelNode n = node(l, packed);
    GraphNode made = nullptr;
    driver_.check(
        driver_.graph_add_kernel(&made, g.graph, g.nodes.empty() ? nullptr : &g.nodes.back(),
                                 g.nodes.empty() ? 0 : 1, &n),
        "adding a kernel to a graph");
    g.nodes.push_back(made);
  }
}

// Where it fails the graph is gone.
void CudaDevice::instantiate(ReplayGraph& g) {
  const Status status = driver_.graph_instantiate(&g.exec, g.graph, 0);
  if (status != 0) driver_.graph_destroy(g.graph);
  driver_.check(status, "instantiating a graph");
}

}  // namespace poot::runtime::cuda
