// What a device offers beside Device where the host puts work of its own on the device's queue
// (library calls of a framework): recordings that repeat that work too.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

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

// Memory that the host's libraries take while work of one queue is captured. All recordings of the
// queue share it: what one of them needs no longer when it ends may lie where another leaves
// something that is read later.
class QueueMemory {
 public:
  QueueMemory() = default;
  QueueMemory(const QueueMemory&) = delete;
  QueueMemory& operator=(const QueueMemory&) = delete;
  virtual ~QueueMemory() = default;

  // The right to replay the queue's recordings, while it lives; the memory outlives it.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept
        : memory_(std::exchange(other.memory_, nullptr)), alone_(other.alone_) {}
    Use& operator=(Use&& other) noexcept {
      std::swap(memory_, other.memory_);
      std::swap(alone_, other.alone_);
      return *this;
    }
    ~Use() {
      if (memory_) memory_->users_.fetch_add(alone_ ? 1 : -1);
    }
    explicit operator bool() const { return memory_ != nullptr; }

   private:
    friend class QueueMemory;
    Use(QueueMemory* memory, bool alone) : memory_(memory), alone_(alone) {}
    QueueMemory* memory_ = nullptr;
    bool alone_ = false;
  };
  // `alone` for a call in which something that a recording left is read behind it: until the call
  // has queued all that reads it, no other call's recording may run. Never waits: empty if refused.
  Use use(bool alone) {
    int now = users_.load();
    do {
      if (now < 0 || (alone && now > 0)) return {};
    } while (!users_.compare_exchange_weak(now, alone ? -1 : now + 1));
    return {this, alone};
  }

 private:
  std::atomic<int> users_{0};  // -1: one alone
};

class Capturer {
 public:
  virtual ~Capturer() = default;

  virtual QueueState queue() = 0;
  // Of the queue that the calling thread's work goes to; one and the same while anybody holds it.
  // Null if the host cannot capture; throws DeviceError.
  virtual std::shared_ptr<QueueMemory> memory() = 0;
  // The steps in order as one recording, which dies before `memory`. A replay repeats launches with
  // the slots that it is given, faults being numbered through all the recordings, and the host's
  // work with the addresses that it used, on the queue that is the thread's now. Calls each work
  // once, on this thread; nothing that it queues runs now. Memory that works take is of `memory`,
  // and serves later captures once it is given up. `slots` is read as the steps come: works may
  // fill it in. Throws what a work throws, and DeviceError for work that cannot be repeated.
  virtual std::unique_ptr<const Recording> capture(std::span<const CaptureStep> steps,
                                                   std::span<const Address> slots,
                                                   QueueMemory& memory) = 0;
};

}  // namespace poot::runtime
