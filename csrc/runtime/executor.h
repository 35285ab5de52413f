// Executor: replays a Program. Thread-safe and re-entrant: each call in flight leases
// its own arena. Entries (one a symbol binding: sizes, grids, metadata and arena layout evaluated
// once, kernel launches recorded on the device) are bounded, oldest dropped first.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/host_services.h"
#include "runtime/kernel_store.h"
#include "support/errors.h"

namespace poot::runtime {

// One argument of a call. Tensors: data, sizes and strides as they came; ints: `integer`.
struct CallArg {
  TensorRef tensor;
  int64_t integer = 0;
};

// One result. The host wraps it: `tensor.owner` holds the memory (fresh, or shared by several
// results of one base); pass-through arguments and ints are told by the program's Result records.
struct CallResult {
  HostTensor tensor;
  int64_t integer = 0;
};

// Who calls: holds the arguments' memory.
class Caller {
 public:
  virtual ~Caller() = default;
  virtual void give_up(uint32_t arg) = 0;  // nothing in the call reads the argument any more
};

class Executor {
 public:
  // On the CPU: `images[i]` is kernel i's; `donated`: arguments, by position, whose memory is free
  // once the caller gives them up, empty if none. Throws InvalidGraph if the program does not
  // check.
  Executor(program::Program program, std::vector<std::shared_ptr<const Image>> images,
           HostServices& host, std::vector<bool> donated = {});
  // On a device whose memory the host's tensors lie in: `modules[i]` is kernel i's. Host and device
  // outlive the executor. Where the device works asynchronously, so does run(), and a kernel's
  // fault is the error of a later call. With a capturer, library calls are replayed with the
  // launches where their operands stay in place.
  Executor(program::Program program, std::vector<ModuleId> modules, HostServices& host,
           Device& device, Capturer* capturer = nullptr);
  ~Executor();
  const program::Program& program() const;
  // Runs one call. Throws ArgumentMismatch when the call does not fit the program (sizes, strides,
  // overlap of a mutated argument) before anything is written, and IndexError / ZeroDivision kinds
  // through `StatusError`.
  void run(std::span<const CallArg> args, std::span<CallResult> results, Caller* caller = nullptr);
  // Strides that the program wants of a tensor argument, for this call's symbols.
  std::vector<int64_t> wanted_strides(std::span<const CallArg> args, uint32_t arg) const;
  uint64_t entries() const;
  uint64_t arena_bytes() const;  // high-water mark over entries
  uint64_t kept_bytes() const;   // of arenas, between calls

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// An argument does not have the dtype, sizes or strides that the program was compiled for, or a
// mutated argument overlaps another. Thrown before anything is written.
class ArgumentMismatch : public Error {
 public:
  enum class What : uint8_t { Kind, Dtype, Sizes, Strides, Overlap };
  ArgumentMismatch(What what, uint32_t arg, const std::string& detail);
  What what_kind() const { return what_; }
  uint32_t arg() const { return arg_; }

 private:
  What what_;
  uint32_t arg_;
};

// A kernel's status word was set: the host raises eager's exception.
class StatusError : public Error {
 public:
  StatusError(uint32_t bits, const std::string& kernel);
  uint32_t bits() const { return bits_; }

 private:
  uint32_t bits_;
};

}  // namespace poot::runtime
