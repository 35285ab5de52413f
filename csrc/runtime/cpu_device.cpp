// A recording is three flat arrays: launches, their buffers, their metadata. Replay fills an array
// of pointers on the stack and jumps; it takes no lock, so any number of replays run side by side.

#include "runtime/cpu_device.h"

#include <algorithm>
#include <cstring>

#include "codegen/target.h"
#include "support/errors.h"

namespace poot::runtime {
namespace {

// Below this many elements a launch runs on the calling thread: waking the team costs 1-2 us, in
// which one core touches about this much.
constexpr int64_t kSerialElements = 32768;
constexpr uint32_t kMaxSlots = 1u << 20;
// Kernels with more buffers than this (a fused optimiser step) take their pointers from the heap.
constexpr size_t kStackPointers = 64;

struct CpuLaunch {
  program::CpuEntry entry;
  uint32_t blocks;
  bool parallel;
  uint32_t grid[3];
  uint32_t buffers, meta;  // how many, taken in order from the recording's arrays
};

struct CpuRecording final : Recording {
  using Recording::Recording;
  std::vector<CpuLaunch> launches;
  std::vector<BufferRef> buffers;
  std::vector<int64_t> meta;
  size_t widest = 0;  // buffers of one launch
  std::vector<std::shared_ptr<const Image>> images;
};

struct Job {
  program::CpuEntry entry;
  const program::Args* args;
};

void run_range(void* ctx, uint32_t first, uint32_t last) {
  const Job& job = *static_cast<const Job*>(ctx);
  job.entry(job.args, first, last);
}

DeviceFacts facts_of(const HostServices& host) {
  DeviceFacts f;
  f.name = "cpu";
  f.alignment = 64;
  f.max_allocation = uint64_t{1} << 47;
  f.max_binding = uint64_t{1} << 47;
  f.max_slots = kMaxSlots;
  f.max_blocks = UINT32_MAX;
  f.units = std::max(1u, host.threads());
  f.host_memory = true;
  return f;
}

}  // namespace

// Images may hold kernels that use the matrix unit, whoever compiled them.
CpuDevice::CpuDevice(HostServices& host) : host_(host), facts_(facts_of(host)), tables_(facts_) {
  allow_matrix_unit();
}

CpuDevice::~CpuDevice() {
  for (const auto& [address, bytes] : tables_.take_allocations()) host_.free(address);
}

ModuleId CpuDevice::adopt(std::shared_ptr<const Image> image) {
  return tables_.add_module(std::move(image));
}

Address CpuDevice::allocate(uint64_t bytes) {
  tables_.check_size(bytes);
  const auto address = static_cast<Address>(host_.allocate(std::max<uint64_t>(bytes, 1)));
  tables_.add_allocation(address, bytes);
  return address;
}

void CpuDevice::free(Address address) {
  tables_.remove_allocation(address);
  host_.free(address);
}

void CpuDevice::copy(CopyKind kind, void* to, const void* from, uint64_t bytes) {
  tables_.check_copy(kind, to, from, bytes);
  if (bytes != 0) std::memmove(to, from, bytes);
}

ModuleId CpuDevice::load(std::string_view bytes) {
  return adopt(Image::map(bytes));
}

void CpuDevice::unload(ModuleId module) {
  tables_.remove_module(module);
}

void CpuDevice::bind(uint32_t slot, Address address) {
  tables_.bind(slot, address);
}

void CpuDevice::launch(const DeviceLaunch& launch, Fault& fault) {
  replay(*record({&launch, 1}), tables_.bound(), fault);
}

std::unique_ptr<const Recording> CpuDevice::record(std::span<const DeviceLaunch> launches) {
  auto r = std::make_unique<CpuRecording>(*this);
  for (const DeviceLaunch& l : launches) {
    CpuLaunch c{};
    c.blocks = tables_.check_launch(l);
    r->images.push_back(std::static_pointer_cast<const Image>(tables_.module(l.module)));
    c.entry = r->images.back()->entry();
    c.parallel = c.blocks > 1 && l.cost > kSerialElements;
    std::copy(l.grid, l.grid + 3, c.grid);
    c.buffers = static_cast<uint32_t>(l.buffers.size());
    c.meta = static_cast<uint32_t>(l.meta.size());
    r->buffers.insert(r->buffers.end(), l.buffers.begin(), l.buffers.end());
    r->meta.insert(r->meta.end(), l.meta.begin(), l.meta.end());
    r->widest = std::max(r->widest, l.buffers.size());
    r->launches.push_back(c);
  }
  return r;
}

void CpuDevice::replay(const Recording& recording, std::span<const Address> slots, Fault& fault) {
  if (&recording.device() != this) throw DeviceError("replay of another device's recording");
  const auto& r = static_cast<const CpuRecording&>(recording);
  void* few[kStackPointers];
  std::vector<void*> many;
  void** pointers = few;
  if (r.widest > kStackPointers) {
    many.resize(r.widest);
    pointers = many.data();
  }
  const BufferRef* buffer = r.buffers.data();
  const int64_t* meta = r.meta.data();
  for (const CpuLaunch& l : r.launches) {
    if (l.blocks != 0) {
      for (uint32_t i = 0; i < l.buffers; ++i) pointers[i] = resolve(buffer[i], slots);
      uint32_t status = 0;
      program::Args args{pointers, meta, &status, {l.grid[0], l.grid[1], l.grid[2]}};
      if (l.parallel) {
        Job job{l.entry, &args};
        host_.parallel_for(l.blocks, run_range, &job);
      } else {
        l.entry(&args, 0, l.blocks);
      }
      if (status != 0) {
        fault = {status, static_cast<uint32_t>(&l - r.launches.data())};
        return;
      }
    }
    buffer += l.buffers;
    meta += l.meta;
  }
}

Event CpuDevice::event() {
  return tables_.add_event();
}

void CpuDevice::wait(Event event) {
  tables_.check_event(event);
}

}  // namespace poot::runtime
