// Memory, modules, events, and the record of what a launch needs. Replays: cuda_replay.cpp.
//
// The context is the device's primary one, which torch uses too. It is made current for each call
// and the thread's own is put back after it.
#include "runtime/cuda_device.h"

#include <algorithm>
#include <utility>

#include "runtime/cuda_current.h"
#include "runtime/cuda_recording.h"
#include "runtime/gpu_module.h"
#include "support/errors.h"

namespace poot::runtime::cuda {
namespace {

constexpr uint32_t kMaxSlots = 1u << 20;
constexpr unsigned kNoTiming = 2;
constexpr uint32_t kLongGrid = INT32_MAX, kShortGrid = 65535;

DeviceFacts facts_of(const Properties& p) {
  DeviceFacts f;
  f.name = "cuda";
  f.alignment = 256;
  f.max_allocation = std::max(p.memory_bytes, uint64_t{1} << 30);
  f.max_binding = f.max_allocation;
  f.max_slots = kMaxSlots;
  f.max_blocks = kLongGrid;
  f.units = p.multiprocessors;
  f.host_memory = false;
  return f;
}

Context retain(const Driver& driver, int ordinal) {
  DeviceHandle device = 0;
  Context context = nullptr;
  driver.check(driver.device_get(&device, ordinal), "device cuda:" + std::to_string(ordinal));
  driver.check(driver.context_retain(&context, device),
               "the context of cuda:" + std::to_string(ordinal));
  return context;
}

DevicePointer pointer(const void* address) {
  return reinterpret_cast<DevicePointer>(address);
}

}  // namespace

Address DriverOwner::allocate(uint64_t bytes) {
  DevicePointer p = 0;
  driver_.check(driver_.memory_allocate(&p, std::max<uint64_t>(bytes, 1)),
                "allocating " + std::to_string(bytes) + " bytes");
  return reinterpret_cast<Address>(p);
}

void DriverOwner::free(Address address) {
  driver_.memory_free(pointer(address));
}

std::unique_ptr<CaptureScope> DriverOwner::begin_capture(QueueMemory&) {
  throw DeviceError("nothing to capture: the device's memory is the driver's");
}

CudaDevice::CudaDevice(const Driver& driver, int ordinal, std::unique_ptr<Owner> owner)
    : driver_(driver),
      owner_(std::move(owner)),
      properties_(cuda::properties(driver, ordinal)),
      facts_(facts_of(properties_)),
      context_(retain(driver, ordinal)),
      tables_(facts_),
      status_(driver) {}

// The primary context stays: the process may use it, and modules live in it.
CudaDevice::~CudaDevice() {
  const Current current(driver_, context_, std::nothrow);
  for (const auto& [address, bytes] : tables_.take_allocations()) owner_->free(address);
  for (const auto& [event, handle] : events_) driver_.event_destroy(handle);
  const auto pending =
      std::exchange(pending_, {});  // recordings among it look for themselves there
}

Address CudaDevice::allocate(uint64_t bytes) {
  tables_.check_size(bytes);
  const Current current(driver_, context_);
  const Address address = owner_->allocate(std::max<uint64_t>(bytes, 1));
  tables_.add_allocation(address, bytes);
  return address;
}

void CudaDevice::free(Address address) {
  tables_.remove_allocation(address);
  const Current current(driver_, context_);
  owner_->free(address);
}

void CudaDevice::copy(CopyKind kind, void* to, const void* from, uint64_t bytes) {
  tables_.check_copy(kind, to, from, bytes);
  if (bytes == 0) return;
  const Current current(driver_, context_);
  const Stream stream = owner_->stream();
  const Status status = kind == CopyKind::ToDevice
                            ? driver_.copy_to_device(pointer(to), from, bytes, stream)
                        : kind == CopyKind::FromDevice
                            ? driver_.copy_from_device(to, pointer(from), bytes, stream)
                            : driver_.copy_on_device(pointer(to), pointer(from), bytes, stream);
  driver_.check(status, "copying " + std::to_string(bytes) + " bytes");
}

ModuleId CudaDevice::load(std::string_view bytes) {
  const GpuModule parsed = parse_gpu_module(bytes);
  const Hash128 key = content_hash(bytes);
  std::lock_guard lock(mutex_);
  std::shared_ptr<const LoadedModule>& known = loaded_[key];
  if (!known) {
    const Current current(driver_, context_);
    auto fresh = std::make_shared<LoadedModule>();
    Module module = nullptr;
    driver_.check(driver_.module_load(&module, parsed.bytes.data(), 0, nullptr, nullptr),
                  "loading a kernel");
    driver_.check(driver_.module_function(&fresh->function, module, parsed.entry),
                  "finding a kernel's entry");
    fresh->threads = parsed.threads;
    fresh->words = parsed.words;
    fresh->dependent = parsed.dependent;
    known = std::move(fresh);
  }
  return tables_.add_module(known);
}

void CudaDevice::unload(ModuleId module) {
  tables_.remove_module(module);
}

void CudaDevice::bind(uint32_t slot, Address address) {
  tables_.bind(slot, address);
}

std::unique_ptr<CudaRecording> CudaDevice::make(std::span<const DeviceLaunch> launches) {
  auto r = std::make_unique<CudaRecording>(*this);
  for (size_t i = 0; i < launches.size(); ++i) {
    const DeviceLaunch& l = launches[i];
    if (tables_.check_launch(l) == 0) continue;
    if (l.grid[1] > kShortGrid || l.grid[2] > kShortGrid)
      throw DeviceError("a grid exceeds 65535 blocks along its second or third axis");
    auto module = std::static_pointer_cast<const LoadedModule>(tables_.module(l.module));
    CudaLaunch c{module->function, {}, module->threads, 0, 0, module->words, module->dependent};
    std::copy(l.grid, l.grid + 3, c.grid);
    c.buffers = static_cast<uint32_t>(l.buffers.size());
    c.first = static_cast<uint32_t>(r->words.size());
    if (c.words != l.buffers.size() + l.meta.size() + 1)
      throw DeviceError("a kernel of " + std::to_string(c.words) + " parameters is launched with " +
                        std::to_string(l.buffers.size() + l.meta.size() + 1));
    r->buffers.insert(r->buffers.end(), l.buffers.begin(), l.buffers.end());
    r->words.resize(r->words.size() + l.buffers.size(), 0);
    for (const int64_t m : l.meta) r->words.push_back(static_cast<uint64_t>(m));
    r->words.push_back(0);
    r->numbers.push_back(static_cast<uint32_t>(i));
    r->modules.push_back(std::move(module));
    r->launches.push_back(c);
  }
  r->recorded = static_cast<uint32_t>(launches.size());
  const Current current(driver_, context_);
  take_status(*r);
  return r;
}

// A word for each launch, its last parameter.
void CudaDevice::take_status(CudaRecording& r) {
  r.status = StatusWords(status_, static_cast<uint32_t>(r.launches.size()));
  for (size_t i = 0; i < r.launches.size(); ++i) {
    const CudaLaunch& c = r.launches[i];
    r.words[c.first + c.words - 1] = r.status.address(static_cast<uint32_t>(i));
  }
}

std::unique_ptr<const Recording> CudaDevice::record(std::span<const DeviceLaunch> launches) {
  return make(launches);
}

void CudaDevice::launch(const DeviceLaunch& launch, Fault& fault) {
  std::shared_ptr<const CudaRecording> r = make({&launch, 1});
  run(*r, tables_.bound());
  std::lock_guard lock(mutex_);
  pending_[r.get()] = {{&fault}, r};
}

Event CudaDevice::event() {
  const Current current(driver_, context_);
  EventHandle handle = nullptr;
  driver_.check(driver_.event_create(&handle, kNoTiming), "making an event");
  driver_.check(driver_.event_record(handle, owner_->stream()), "recording an event");
  std::lock_guard lock(mutex_);
  const Event event = tables_.add_event();
  events_.emplace(event, handle);
  return event;
}

// An event that was waited for is gone, and done.
void CudaDevice::wait(Event event) {
  tables_.check_event(event);
  const Current current(driver_, context_);
  EventHandle handle = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (const auto it = events_.find(event); it != events_.end()) {
      handle = it->second;
      events_.erase(it);
    }
  }
  if (handle) {
    const Status status = driver_.event_synchronize(handle);
    driver_.event_destroy(handle);
    driver_.check(status, "waiting for the device");
  }
  std::map<const CudaRecording*, Pending> done;  // dies without the lock: recordings take it
  std::lock_guard lock(mutex_);
  for (auto& [recording, pending] : pending_) {
    Fault fault;
    if (!take_fault(*recording, fault)) continue;
    for (Fault* f : pending.faults) *f = fault;
  }
  done.swap(pending_);
}

}  // namespace poot::runtime::cuda
