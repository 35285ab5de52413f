// What a device offers beside Device where the host puts work of its own on the device's queue
// (library calls of a framework): recordings that repeat that work too.
#pragma once

#include <functional>

#include "runtime/device.h"

namespace poot::runtime {

// Launches, or work of the host.
struct CaptureStep {
  const Recording* recording = nullptr;
  std::function<void()> work;  // where there is no recording
};

struct QueueState {
  uint64_t id = 0;        // of the queue that the calling thread's work goes to
  bool recorded = false;  // the host records what is queued for a replay of its own; nothing runs
};

class Capturer {
 public:
  virtual ~Capturer() = default;

  virtual QueueState queue() = 0;
  // The steps in order as one recording. A replay repeats launches with the slots that it is given,
  // faults being numbered through all the recordings, and the host's work with the addresses that
  // it used, on the queue that is the thread's now. Calls each work once, on this thread; nothing
  // that it queues runs now. Memory that it takes from the host's allocator stays the recording's
  // where `lasting`; otherwise it serves other recordings of the queue between replays. `slots` is
  // read as the steps come: works may fill it in. Null if the host cannot; throws what a work
  // throws, and DeviceError for work that cannot be repeated.
  virtual std::unique_ptr<const Recording> capture(std::span<const CaptureStep> steps,
                                                   std::span<const Address> slots,
                                                   bool lasting) = 0;
};

}  // namespace poot::runtime
