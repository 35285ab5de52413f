// The checks are DeviceTables'; what is left is the log.
#include "runtime/null_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/kernel_store.h"
#include "support/errors.h"

namespace poot::runtime {
namespace {

struct NullRecording final : Recording {
  using Recording::Recording;
  std::vector<DeviceLaunch> launches;
};

DeviceFacts null_facts() {
  DeviceFacts f;
  f.name = "null";
  f.alignment = 256;
  f.max_allocation = uint64_t{1} << 40;
  f.max_binding = uint64_t{1} << 40;
  f.max_slots = 1u << 16;
  f.max_blocks = UINT32_MAX;
  f.host_memory = true;
  return f;
}

std::string describe(const DeviceLaunch& l) {
  std::string s = "module " + std::to_string(l.module.index) + " grid " +
                  std::to_string(l.grid[0]) + "x" + std::to_string(l.grid[1]) + "x" +
                  std::to_string(l.grid[2]) + " slots";
  for (const BufferRef& b : l.buffers) s += " " + std::to_string(b.slot);
  return s;
}

void check_slots(const DeviceLaunch& l, std::span<const Address> slots) {
  for (const BufferRef& b : l.buffers) resolve(b, slots);
}

}  // namespace

NullDevice::NullDevice() : facts_(null_facts()), tables_(facts_) {}

NullDevice::~NullDevice() {
  for (const auto& [address, bytes] : tables_.take_allocations()) std::free(address);
}

std::vector<std::string> NullDevice::calls() const {
  std::lock_guard lock(log_mutex_);
  return calls_;
}

void NullDevice::log(std::string call) {
  std::lock_guard lock(log_mutex_);
  calls_.push_back(std::move(call));
}

Address NullDevice::allocate(uint64_t bytes) {
  tables_.check_size(bytes);
  const uint64_t a = facts_.alignment;
  const auto address =
      static_cast<Address>(std::aligned_alloc(a, (std::max<uint64_t>(bytes, 1) + a - 1) / a * a));
  if (!address) throw DeviceError("out of memory: " + std::to_string(bytes) + " bytes");
  tables_.add_allocation(address, bytes);
  log("allocate " + std::to_string(bytes));
  return address;
}

void NullDevice::free(Address address) {
  tables_.remove_allocation(address);
  std::free(address);
  log("free");
}

void NullDevice::copy(CopyKind kind, void* to, const void* from, uint64_t bytes) {
  tables_.check_copy(kind, to, from, bytes);
  if (bytes != 0) std::memmove(to, from, bytes);
  log("copy " + std::to_string(bytes));
}

ModuleId NullDevice::load(std::string_view bytes) {
  const ModuleId id = tables_.add_module(Image::map(bytes));
  log("load module " + std::to_string(id.index));
  return id;
}

void NullDevice::unload(ModuleId module) {
  tables_.remove_module(module);
  log("unload module " + std::to_string(module.index));
}

void NullDevice::bind(uint32_t slot, Address address) {
  tables_.bind(slot, address);
  log("bind " + std::to_string(slot));
}

void NullDevice::launch(const DeviceLaunch& launch, Fault&) {
  if (tables_.check_launch(launch) != 0) check_slots(launch, tables_.bound());
  log("launch " + describe(launch));
}

std::unique_ptr<const Recording> NullDevice::record(std::span<const DeviceLaunch> launches) {
  for (const DeviceLaunch& l : launches) tables_.check_launch(l);
  auto r = std::make_unique<NullRecording>(*this);
  r->launches.assign(launches.begin(), launches.end());
  log("record " + std::to_string(launches.size()));
  return r;
}

void NullDevice::replay(const Recording& recording, std::span<const Address> slots, Fault&) {
  if (&recording.device() != this) throw DeviceError("replay of another device's recording");
  const auto& launches = static_cast<const NullRecording&>(recording).launches;
  for (const DeviceLaunch& l : launches)
    if (l.grid[0] && l.grid[1] && l.grid[2]) check_slots(l, slots);
  for (const DeviceLaunch& l : launches) log("replay " + describe(l));
}

Event NullDevice::event() {
  log("event");
  return tables_.add_event();
}

void NullDevice::wait(Event event) {
  tables_.check_event(event);
  log("wait " + std::to_string(event));
}

}  // namespace poot::runtime
