// Device: where kernels run and transient memory lives. Pinned interface, version below; golden
// file tests/devices/device.golden. tests/devices holds the suite that every device passes.
//
// A device is one asynchronous queue: copy, launch and replay are put on it in the order of the
// calls and may return before the work is done; wait() ends when it is. Everything else takes
// effect at once. All functions may be called from several threads; `bind` and `launch` share one
// table of slots, so their callers agree on an order among themselves. `replay` takes its table as
// an argument and keeps no state, so that one recording may be in flight many times at once.
//
// A misuse (unknown module or address, unbound slot, double free, foreign recording, limits
// exceeded) throws DeviceError and leaves the device as it was; a replay that is refused for a slot
// may have run the launches before the one that needs it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "support/ids.h"

namespace poot::runtime {

inline constexpr uint32_t kDeviceVersion = 1;

// An address in the device's memory; the host may follow it only where facts().host_memory.
using Address = char*;
using ModuleId = Id<struct ModuleTag>;
using Event = uint64_t;  // later events are greater

struct DeviceFacts {
  std::string_view name;
  uint32_t alignment = 64;      // of allocated memory, bytes
  uint64_t max_allocation = 0;  // bytes of one allocation
  uint64_t max_binding = 0;     // bytes that one slot of a launch may span
  uint32_t max_slots = 0;       // slots of the table that bind() fills
  uint64_t max_blocks = 0;      // of one launch, the product of its grid
  uint32_t units = 1;           // threads or multiprocessors
  bool host_memory = false;     // addresses of host memory may be bound, and device memory read
};

// A buffer of a launch: `bytes` from `byte_offset` of whatever the slot is bound to.
struct BufferRef {
  uint32_t slot = 0;
  int64_t byte_offset = 0;
  uint64_t bytes = 0;
};

// One launch, as the kernel ABI orders its arguments.
struct DeviceLaunch {
  ModuleId module;
  std::vector<BufferRef> buffers;
  std::vector<int64_t> meta;
  uint32_t grid[3] = {1, 1, 1};
  int64_t cost = 0;  // elements touched by all blocks together: what parallelism is decided by
};

// The status word of the first launch that set one (program::StatusBit), and its number. Launches
// behind it in the same replay may or may not have run.
struct Fault {
  uint32_t bits = 0;
  uint32_t launch = 0;
};

enum class CopyKind : uint8_t { ToDevice, FromDevice, OnDevice };

class Device;

// Launches prepared for replay. Keeps the modules that it launches; dies before its device.
class Recording {
 public:
  explicit Recording(const Device& device) : device_(device) {}
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  virtual ~Recording() = default;
  const Device& device() const { return device_; }

 private:
  const Device& device_;
};

class Device {
 public:
  virtual ~Device() = default;  // frees what is still allocated; nothing may be queued

  virtual const DeviceFacts& facts() const = 0;

  // At least `bytes` at facts().alignment; zero bytes give an address of their own.
  virtual Address allocate(uint64_t bytes) = 0;
  // An address that allocate() gave, once. Queued work that uses it must be done.
  virtual void free(Address address) = 0;
  // The device's side lies within one allocation. The host's side stays valid until waited for.
  virtual void copy(CopyKind kind, void* to, const void* from, uint64_t bytes) = 0;

  // Takes a kernel (an image or target code). Throws InvalidGraph, with the constraint of the
  // format, if the bytes are none. The id of an unloaded module is never given again.
  virtual ModuleId load(std::string_view bytes) = 0;
  // Launches and recordings made before keep their code.
  virtual void unload(ModuleId module) = 0;

  // Binds a slot of the device's own table, until it is bound anew; null unbinds it.
  virtual void bind(uint32_t slot, Address address) = 0;
  // Queues one launch with the slots as they are bound now. A buffer of zero bytes needs no
  // binding. `fault` is written before a later event is waited for, and must live until then.
  virtual void launch(const DeviceLaunch& launch, Fault& fault) = 0;

  // Checks launches and prepares them; runs nothing and binds nothing.
  virtual std::unique_ptr<const Recording> record(std::span<const DeviceLaunch> launches) = 0;
  // Queues the recorded launches in order, slot i being slots[i], as if each were bound and
  // launched. The table is read before the call returns. Allocates no memory that outlives it.
  // Where the device works asynchronously (not host_memory) and nobody waits, a fault shows in the
  // next replay of the recording, which then runs nothing.
  virtual void replay(const Recording& recording, std::span<const Address> slots, Fault& fault) = 0;

  // Marks the end of what is queued now.
  virtual Event event() = 0;
  // Blocks until everything before the event is done.
  virtual void wait(Event event) = 0;
};

}  // namespace poot::runtime
