// What the runtime asks of its host. `_C` answers with torch, the tools and C++ tests with malloc,
// so the whole compiler and runtime run without torch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "program/program.h"
#include "runtime/call_memory.h"
#include "support/dtype.h"

namespace poot::runtime {

// A strided tensor in the host's or the caller's memory.
struct TensorRef {
  void* data = nullptr;
  DType dtype = DType::F32;
  std::span<const int64_t> sizes, strides;  // elements
  bool present() const { return data != nullptr || !sizes.empty(); }
};

// Memory that the host owns (a tensor of the framework): freed by the deleter.
struct HostTensor {
  void* data = nullptr;
  std::shared_ptr<void> owner;
  std::vector<int64_t> sizes, strides;
  DType dtype = DType::F32;
};

// How closely somebody watches what runs: not at all; steps as they are, with the launches in them
// told; each launch by itself.
enum class Watch : uint8_t { Nothing, Steps, Launches };

using RangeFn = void (*)(void* ctx, uint32_t first, uint32_t last);

class HostServices {
 public:
  virtual ~HostServices() = default;
  // 64-byte aligned; throws DeviceError. Transient memory of 1 MiB and more is asked for anew in
  // each call, so a host may keep it mapped.
  virtual void* allocate(size_t bytes) = 0;
  virtual void free(void* p) = 0;
  // Fresh memory for results of one call; `owner` keeps it alive, `data` is 64-byte aligned.
  virtual HostTensor allocate_output(size_t bytes) = 0;
  // Runs fn over [0, n) split into contiguous ranges on the host's thread team; returns when all
  // ended.
  virtual void parallel_for(uint32_t n, RangeFn fn, void* ctx) = 0;
  virtual uint32_t threads() const = 0;
  // Out-variant library call: writes into outs.
  virtual void library_call(program::LibraryOp op, std::span<const TensorRef> inputs,
                            std::span<const TensorRef> outs, std::span<const int64_t> ints,
                            std::span<const double> floats) = 0;
  // Library call that returns its own memory, one HostTensor a result. The caller fills in the
  // sizes, strides and dtype that the plan expects; the host returns exactly those, copying if the
  // library chose other strides or another floating-point dtype. Throws DeviceError for other sizes
  // and for numbers of another kind.
  virtual void library_call_owned(program::LibraryOp op, std::span<const TensorRef> inputs,
                                  std::span<HostTensor> outs, std::span<const int64_t> ints,
                                  std::span<const double> floats) = 0;
  // Call number `call` of the host's own table of prepared calls. Results as in library_call_owned,
  // and never memory that an input owns.
  virtual void opaque_call(uint32_t call, std::span<const TensorRef> inputs,
                           std::span<const int64_t> symbols, std::span<HostTensor> outs) = 0;
  // From now on, what libraries allocate in this thread may come from `memory`. False: the host
  // cannot, and settle() is not called.
  virtual bool lend(const std::shared_ptr<CallMemory>& /*memory*/) { return false; }
  // Ends it. False if something taken is still in use: the host then keeps `memory` until all has
  // come back, and what was lent must never be used again.
  virtual bool settle(const std::shared_ptr<CallMemory>& /*memory*/) noexcept { return true; }
  // Asked once a call, and quick.
  virtual Watch watched() const { return Watch::Nothing; }
  // Where watched: `count` launches of the program, from number `first`, run until what is returned
  // goes.
  virtual std::shared_ptr<void> announce(const program::Program&,
                                         std::span<const int64_t> /*symbols*/, uint32_t /*first*/,
                                         uint32_t /*count*/) {
    return nullptr;
  }
};

}  // namespace poot::runtime
