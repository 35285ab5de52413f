// A CUDA driver that records: the table of cuda_driver.def filled with functions that log what they
// are asked for, keep memory with malloc, and run the one kernel of the tests (add_meta) on the
// calling thread, so that a CudaDevice is tested without a GPU. One at a time; thread-safe.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cuda_driver.h"

namespace poot::testing {

class RecordingDriver {
 public:
  RecordingDriver();
  ~RecordingDriver();
  RecordingDriver(const RecordingDriver&) = delete;
  RecordingDriver& operator=(const RecordingDriver&) = delete;

  const runtime::cuda::Driver& table() const { return table_; }
  // The next call of this member ("launch") returns `status` and does nothing else.
  void fail(const std::string& member, runtime::cuda::Status status);
  // Calls that change something, in order, one line each:
  // "launch grid 4x1x1 block 1 words 4", "graph_set_kernel 1 words 4".
  std::vector<std::string> calls();
  void clear();

  // While it is captured, launches on this stream and queued work become a graph's nodes.
  static inline const auto kCaptureStream = reinterpret_cast<runtime::cuda::Stream>(2);
  // Takes work of the host for the capture that is under way; false if there is none.
  bool queue(std::function<void()> work);

  // The context that was current on the calling thread at each launch, of graphs too.
  std::vector<runtime::cuda::Context> launched_in();

  int devices = 1;  // contexts of device n: n + 1
  int version = 13000, capability = 90;
  int capturing = 0;  // what stream_capturing tells

 private:
  runtime::cuda::Driver table_;
};

}  // namespace poot::testing
