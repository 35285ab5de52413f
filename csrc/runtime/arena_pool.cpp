// Last in, first out, so that the arena whose pages are in the caches is used again.
#include "runtime/arena_pool.h"

#include <algorithm>

namespace poot::runtime {
namespace {

constexpr size_t kMaxIdle = 4;

}  // namespace

ArenaPool::~ArenaPool() {
  for (const Arena& a : idle_) device_.free(a.data);
}

void ArenaPool::reserve(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  idle_.reserve(kMaxIdle);
  high_water_ = std::max(high_water_, bytes);
}

uint64_t ArenaPool::high_water() const {
  std::lock_guard lock(mutex_);
  return high_water_;
}

ArenaPool::Arena ArenaPool::take(uint64_t bytes) {
  if (bytes == 0) return {};
  uint64_t wanted = bytes;
  {
    std::lock_guard lock(mutex_);
    while (!idle_.empty()) {
      const Arena a = idle_.back();
      idle_.pop_back();
      if (a.bytes >= bytes) return a;
      device_.free(a.data);  // of the time before the program grew
    }
    if (device_.facts().host_memory) wanted = std::max(wanted, high_water_);
  }
  return {device_.allocate(wanted), wanted};
}

// Memory that a device in trouble does not take back is lost with it.
void ArenaPool::give(const Arena& arena) noexcept try {
  if (!arena.data) return;
  std::lock_guard lock(mutex_);
  // On an asynchronous device the arena may still be in use: its owner knows when it is not.
  const bool keeps = device_.facts().host_memory;
  if (keeps && idle_.size() < std::min(kMaxIdle, idle_.capacity()) && arena.bytes >= high_water_)
    idle_.push_back(arena);
  else
    device_.free(arena.data);
} catch (const std::exception&) {
}

}  // namespace poot::runtime
