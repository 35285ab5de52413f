// Captures: launches and the host's own work on one stream become one graph. The host's work is
// fixed in it; of each launch the node that the stream ended with right after it is kept, so that
// replays patch its buffers as they do in graphs of launches alone.
#include <algorithm>
#include <utility>

#include "runtime/cuda_current.h"
#include "runtime/cuda_device.h"
#include "runtime/cuda_recording.h"
#include "support/errors.h"

namespace poot::runtime::cuda {
namespace {

void append(CudaRecording& to, const CudaRecording& from) {
  const auto words = static_cast<uint32_t>(to.words.size());
  for (CudaLaunch l : from.launches) {
    l.first += words;
    to.launches.push_back(l);
  }
  for (const uint32_t n : from.numbers) to.numbers.push_back(to.recorded + n);
  to.recorded += from.recorded;
  to.buffers.insert(to.buffers.end(), from.buffers.begin(), from.buffers.end());
  to.words.insert(to.words.end(), from.words.begin(), from.words.end());
  to.modules.insert(to.modules.end(), from.modules.begin(), from.modules.end());
}

const CudaRecording& own(const CudaDevice& device, const Recording& recording) {
  if (&recording.device() != &device) throw DeviceError("capture of another device's recording");
  return static_cast<const CudaRecording&>(recording);
}

// A stream is captured from begin to end; what goes before its end gives the capture up.
class StreamCapture {
 public:
  StreamCapture(const Driver& driver, Stream stream) : driver_(driver), stream_(stream) {
    driver_.check(driver_.capture_begin(stream_, kUnsafeOfThisThread), "beginning a capture");
  }
  ~StreamCapture() {
    if (!stream_) return;
    Graph given_up = nullptr;
    driver_.capture_end(stream_, &given_up);
    if (given_up) driver_.graph_destroy(given_up);
  }
  StreamCapture(const StreamCapture&) = delete;
  StreamCapture& operator=(const StreamCapture&) = delete;

  Graph end() {
    Graph graph = nullptr;
    driver_.check(driver_.capture_end(std::exchange(stream_, nullptr), &graph), "ending a capture");
    if (!graph) throw DeviceError("a capture was given up by what it captured");
    return graph;
  }

 private:
  const Driver& driver_;
  Stream stream_;
};

}  // namespace

QueueState CudaDevice::queue() {
  const Current current(driver_, context_);
  const Stream stream = owner_->stream();
  int capturing = 0;
  const Status status = driver_.stream_capturing(stream, &capturing);
  return {reinterpret_cast<uint64_t>(stream), status != 0 || capturing != 0};
}

// A kernel that waits for `before`, the kernel right before it, may begin while that one ends.
GraphNode CudaDevice::queue_captured(const CudaLaunch& l, std::vector<uint64_t>& words,
                                     Stream stream, const CudaLaunch* before) {
  const bool early = l.dependent && before && before->dependent;
  size_t bytes = size_t{8} * l.words;
  void* extra[5] = {kParamBuffer, words.data() + l.first, kParamBytes, &bytes, kParamEnd};
  LaunchAttribute attribute;
  attribute.id = kProgrammaticSerialization;
  attribute.value = 1;
  LaunchConfig config;
  std::copy(l.grid, l.grid + 3, config.grid);
  config.block[0] = l.threads;
  config.stream = stream;
  config.attributes = &attribute;
  config.count = 1;
  const Status status = early ? driver_.launch_with(&config, l.function, nullptr, extra)
                              : driver_.launch(l.function, l.grid[0], l.grid[1], l.grid[2],
                                               l.threads, 1, 1, 0, stream, nullptr, extra);
  driver_.check(status, "capturing a kernel");
  int state = 0;
  unsigned long long id = 0;
  Graph graph = nullptr;
  const GraphNode* last = nullptr;
  size_t count = 0;
  driver_.check(driver_.capture_info(stream, &state, &id, &graph, &last, &count),
                "asking for a capture's state");
  if (count != 1) throw DeviceError("a captured kernel is not the last of its stream");
  return *last;
}

std::shared_ptr<QueueMemory> CudaDevice::memory() {
  const Current current(driver_, context_);
  return owner_->capture_memory();
}

std::unique_ptr<const Recording> CudaDevice::capture(std::span<const CaptureStep> steps,
                                                     std::span<const Address> slots,
                                                     QueueMemory& memory) {
  auto r = std::make_unique<CudaRecording>(*this);
  for (const CaptureStep& s : steps)
    if (s.recording) append(*r, own(*this, *s.recording));
  const Current current(driver_, context_);
  take_status(*r);
  ReplayGraph g;
  g.words = r->words;
  {
    const std::unique_ptr<CaptureScope> scope = owner_->begin_capture(memory);
    StreamCapture captured(driver_, scope->stream());
    size_t next = 0, buffer = 0;
    const CudaLaunch* before = nullptr;
    for (const CaptureStep& s : steps) {
      if (!s.recording) {
        s.work();
        before = nullptr;
        continue;
      }
      for (size_t n = own(*this, *s.recording).launches.size(); n > 0; --n) {
        const CudaLaunch& l = r->launches[next++];
        for (uint32_t i = 0; i < l.buffers; ++i)
          g.words[l.first + i] = reinterpret_cast<uint64_t>(resolve(r->buffers[buffer++], slots));
        g.nodes.push_back(queue_captured(l, g.words, scope->stream(), before));
        before = &l;
      }
    }
    g.graph = captured.end();
  }
  instantiate(g);
  r->graph = std::move(g);
  r->captured = true;
  return r;
}

}  // namespace poot::runtime::cuda
