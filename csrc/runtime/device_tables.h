// What devices keep: allocations, modules (of whatever type the device loads), bound slots, events.
// Every function checks its arguments and throws DeviceError; thread-safe.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/device.h"

namespace poot::runtime {

class DeviceTables {
 public:
  explicit DeviceTables(const DeviceFacts& facts) : facts_(facts) {}

  void check_size(uint64_t bytes) const;  // against max_allocation
  void add_allocation(Address address, uint64_t bytes);
  void remove_allocation(Address address);
  std::map<Address, uint64_t> take_allocations();
  // That the device's side of a copy lies within one allocation.
  void check_copy(CopyKind kind, const void* to, const void* from, uint64_t bytes) const;

  ModuleId add_module(std::shared_ptr<const void> module);
  void remove_module(ModuleId id);
  std::shared_ptr<const void> module(ModuleId id) const;
  // Module, grid and binding sizes of a launch; returns its number of blocks.
  uint32_t check_launch(const DeviceLaunch& launch) const;

  void bind(uint32_t slot, Address address);
  std::vector<Address> bound() const;  // the table as it is now

  Event add_event() { return ++last_event_; }
  void check_event(Event event) const {
    if (event == 0 || event > last_event_) refuse_event(event);
  }

 private:
  [[noreturn]] static void refuse_event(Event event);
  void check_range(const void* address, uint64_t bytes) const;

  const DeviceFacts facts_;
  mutable std::mutex mutex_;
  std::map<Address, uint64_t> allocations_;
  std::map<uint32_t, std::shared_ptr<const void>> modules_;
  uint32_t next_module_ = 0;
  std::vector<Address> bound_;
  std::atomic<Event> last_event_{0};
};

[[noreturn]] void refuse_slot(const BufferRef& ref, size_t slots);

// The address of a launch's buffer under a table of slots. Throws DeviceError if the slot is
// outside the table or unbound; a buffer of zero bytes may be either.
inline Address resolve(const BufferRef& ref, std::span<const Address> slots) {
  if (ref.slot < slots.size() && slots[ref.slot]) [[likely]]
    return slots[ref.slot] + ref.byte_offset;
  if (ref.bytes != 0) refuse_slot(ref, slots.size());
  return nullptr;
}

}  // namespace poot::runtime
