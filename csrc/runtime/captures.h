// Stretches of an entry's steps that are replayed as one recording, library calls included: an
// entry with hundreds of library calls then costs the host a few launches.
//
// A library call's operands are fixed in its recording. It is captured if they lie in an arena, in
// constants, in what calls of the same stretch returned, or in arguments that came at the same
// address in every call so far, as weights do. Addresses are compared at each call; where one
// differs, and wherever the call's work goes to another queue or is recorded by the host itself,
// steps run one by one, as if nothing had been captured. Arenas are taken for each call, and come
// at the same addresses as a rule; where they do not, the entry keeps its own from then on.
//
// All entries of a queue share the memory that libraries take in captures. What a stretch leaves
// for later steps is held, so that no later capture is given its place. An earlier capture may have
// scratch there; of this entry that is a stretch which has run by then, since stretches are
// captured in their order, and of others it is kept from running (QueueMemory::Use).
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/arena_pool.h"
#include "runtime/capture.h"
#include "runtime/run.h"

namespace poot::runtime {

class Captures {
 public:
  // Both outlive the object.
  Captures(const Entry& entry, Capturer& capturer);
  Captures(const Captures&) = delete;
  Captures& operator=(const Captures&) = delete;

  // Whether there is anything to capture.
  static bool worth(const Entry& entry);

  // A call's right to run through arenas() and run(), until it goes. Without it, the call runs by
  // itself.
  struct Turn {
    std::unique_lock<std::mutex> lock;
    QueueMemory::Use use;
    explicit operator bool() const { return lock.owns_lock(); }
  };
  // Takes note of a call.
  Turn begin(std::span<const CallArg> args);
  bool keeps_arenas() const { return kept_.has_value(); }
  // The arenas of this call: `fresh`, or those that the entry keeps.
  CallArenas& arenas(CallArenas& fresh);
  // Runs the steps; the run's buffers are placed. Throws what steps throw.
  void run(Run& run);

 private:
  struct Stretch {
    size_t first = 0, last = 0;  // steps [first, last)
    // Buffers that its calls touch but did not return, and what they returned, with addresses.
    std::vector<std::pair<uint32_t, Address>> fixed, made;
    std::vector<uint32_t> kernels;
    // Buffers that it makes and that are read behind it, and what holds their memory: other
    // recordings cannot be given it.
    std::vector<uint32_t> lasting;
    std::vector<HostTensor> held;
    bool refused = false;
    Fault fault;
    std::unique_ptr<const Recording> recording;
    void forget();  // what was captured
  };
  using Places = std::pair<Address, Address>;
  // An argument that library calls touch.
  struct Watched {
    uint32_t buffer = 0;
    const void* seen = nullptr;
    uint32_t changes = 0;
  };

  void note(std::span<const CallArg> args);
  std::shared_ptr<QueueMemory> queue_memory() const;
  void plan();
  bool capturable(const BoundCall& call, const Stretch& stretch) const;
  bool fixed_place(uint32_t buffer, const Stretch& stretch) const;
  bool released(uint32_t buffer, size_t first, size_t last) const;
  void run_captured(const BoundCall& call, Stretch& s, Run& run) const;
  void capture(Stretch& s, Run& run);
  bool replay(Stretch& s, Run& run);

  const Entry& entry_;
  Capturer& capturer_;
  std::mutex mutex_;  // what follows
  std::vector<Watched> watched_;
  uint32_t calls_ = 0, plans_ = 0;
  uint64_t queue_ = 0;
  bool planned_ = false;
  bool lasting_ = false;                 // some stretch has something lasting
  std::shared_ptr<QueueMemory> memory_;  // outlives the recordings
  std::optional<Places> places_, last_;  // of the arenas: in recordings, in the last call
  uint32_t arena_moves_ = 0;
  std::optional<CallArenas> kept_;
  std::vector<std::unique_ptr<Stretch>> stretches_;
};

}  // namespace poot::runtime
