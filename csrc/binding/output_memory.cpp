// The pool behind torch's Allocator interface, so that resize_ and whatever else asks a storage for
// its allocator keep working. The context of a pooled block is the block itself.

#include "binding/output_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>

#include "support/env.h"

namespace poot::binding {
namespace {

// At most what the environment says, and a sixteenth of the machine's memory.
uint64_t idle_cap() {
  const uint64_t machine = static_cast<uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES))) *
                           static_cast<uint64_t>(std::max(0L, sysconf(_SC_PAGESIZE)));
  const int64_t wanted = std::max<int64_t>(0, env::integer(env::Var::POOT_OUTPUT_POOL_MIB));
  return std::min(static_cast<uint64_t>(wanted) << 20, machine / 16);
}

void give_back(void* block) {
  output_pool().give(block);
}

class PoolAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes < runtime::BlockPool::kSmallest) return c10::GetCPUAllocator()->allocate(bytes);
    void* block = output_pool().take(bytes);
    return {block, block, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

runtime::BlockPool& output_pool() {
  static runtime::BlockPool& pool = *[] {
    auto* p = new runtime::BlockPool({c10::alloc_cpu, c10::free_cpu, idle_cap()});
    pthread_atfork([] { output_pool().lock(); }, [] { output_pool().unlock(); },
                   [] { output_pool().unlock(); });
    return p;
  }();
  return pool;
}

c10::Storage output_storage(size_t bytes, c10::Device device, bool pooled) {
  static PoolAllocator& pool = *new PoolAllocator;
  c10::Allocator* allocator = c10::GetAllocator(device.type());
  if (pooled && device.is_cpu() && bytes >= runtime::BlockPool::kSmallest) allocator = &pool;
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                               static_cast<int64_t>(bytes),
                                               allocator->allocate(bytes), allocator,
                                               /*resizable=*/true);
}

}  // namespace poot::binding
