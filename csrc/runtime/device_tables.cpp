// Plain maps behind one mutex: none of this is on the path of a replay.
#include "runtime/device_tables.h"

#include <cstdio>
#include <utility>

#include "support/errors.h"

namespace poot::runtime {
namespace {

std::string hex(const void* p) {
  char text[2 + 2 * sizeof p + 1];
  std::snprintf(text, sizeof text, "%#zx", reinterpret_cast<size_t>(p));
  return text;
}

}  // namespace

void DeviceTables::check_size(uint64_t bytes) const {
  if (bytes > facts_.max_allocation)
    throw DeviceError("an allocation of " + std::to_string(bytes) + " bytes exceeds " +
                      std::to_string(facts_.max_allocation));
}

void DeviceTables::add_allocation(Address address, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  allocations_.emplace(address, bytes);
}

void DeviceTables::remove_allocation(Address address) {
  std::lock_guard lock(mutex_);
  if (allocations_.erase(address) == 0)
    throw DeviceError("free of " + hex(address) + ", which is not allocated");
}

std::map<Address, uint64_t> DeviceTables::take_allocations() {
  std::lock_guard lock(mutex_);
  return std::exchange(allocations_, {});
}

void DeviceTables::check_range(const void* address, uint64_t bytes) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  std::lock_guard lock(mutex_);
  auto next = allocations_.upper_bound(reinterpret_cast<Address>(at));
  if (next != allocations_.begin()) {
    const auto& [base, size] = *std::prev(next);
    const uint64_t offset = at - reinterpret_cast<uintptr_t>(base);
    if (offset <= size && bytes <= size - offset) return;
  }
  throw DeviceError("copy of " + std::to_string(bytes) + " bytes at " + hex(address) +
                    ", which no allocation holds");
}

void DeviceTables::check_copy(CopyKind kind, const void* to, const void* from,
                              uint64_t bytes) const {
  if (kind != CopyKind::FromDevice) check_range(to, bytes);
  if (kind != CopyKind::ToDevice) check_range(from, bytes);
  if (bytes != 0 && (!to || !from)) throw DeviceError("copy with a null host address");
}

ModuleId DeviceTables::add_module(std::shared_ptr<const void> module) {
  std::lock_guard lock(mutex_);
  modules_.emplace(next_module_, std::move(module));
  return ModuleId(next_module_++);
}

void DeviceTables::remove_module(ModuleId id) {
  std::lock_guard lock(mutex_);
  if (modules_.erase(id.index) == 0)
    throw DeviceError("unload of module " + std::to_string(id.index) + ", which is not loaded");
}

std::shared_ptr<const void> DeviceTables::module(ModuleId id) const {
  std::lock_guard lock(mutex_);
  const auto it = modules_.find(id.index);
  if (it == modules_.end())
    throw DeviceError("launch of module " + std::to_string(id.index) + ", which is not loaded");
  return it->second;
}

uint32_t DeviceTables::check_launch(const DeviceLaunch& launch) const {
  module(launch.module);
  uint64_t blocks = 1;
  for (const uint32_t n : launch.grid) {
    blocks *= n;  // at most 2^32 times 2^32
    if (blocks > facts_.max_blocks)
      throw DeviceError("a grid exceeds " + std::to_string(facts_.max_blocks) + " blocks");
  }
  for (const BufferRef& b : launch.buffers) {
    if (b.bytes > facts_.max_binding)
      throw DeviceError("a buffer of " + std::to_string(b.bytes) + " bytes exceeds " +
                        std::to_string(facts_.max_binding));
    if (b.slot >= facts_.max_slots)
      throw DeviceError("slot " + std::to_string(b.slot) + " of " +
                        std::to_string(facts_.max_slots));
  }
  return static_cast<uint32_t>(blocks);
}

void DeviceTables::bind(uint32_t slot, Address address) {
  if (slot >= facts_.max_slots)
    throw DeviceError("slot " + std::to_string(slot) + " of " + std::to_string(facts_.max_slots));
  std::lock_guard lock(mutex_);
  if (slot >= bound_.size()) bound_.resize(size_t{slot} + 1, nullptr);
  bound_[slot] = address;
}

std::vector<Address> DeviceTables::bound() const {
  std::lock_guard lock(mutex_);
  return bound_;
}

void DeviceTables::refuse_event(Event event) {
  throw DeviceError("wait for event " + std::to_string(event) + ", which was never made");
}

void refuse_slot(const BufferRef& ref, size_t slots) {
  throw DeviceError(
      "slot " + std::to_string(ref.slot) +
      (ref.slot < slots ? " is not bound" : " lies outside the table of " + std::to_string(slots)));
}

}  // namespace poot::runtime
