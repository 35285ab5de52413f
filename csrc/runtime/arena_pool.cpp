// Last in, first out, so that the arena whose pages are in the caches is used again.
#include "runtime/arena_pool.h"

#include <algorithm>

#include "runtime/block_pool.h"

namespace poot::runtime {
namespace {

constexpr size_t kMaxIdle = 4;

// Whether an arena of this size stays with its program.
bool is_small(uint64_t bytes) {
  return bytes < BlockPool::kSmallest;
}

}  // namespace

ArenaPool::~ArenaPool() {
  for (const Arena& a : idle_) device_.free(a.data);
}

void ArenaPool::reserve(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  idle_.reserve(kMaxIdle);
  high_water_ = std::max(high_water_, bytes);
  if (is_small(bytes)) small_bytes_ = std::max(small_bytes_, bytes);
}

uint64_t ArenaPool::high_water() const {
  std::lock_guard lock(mutex_);
  return high_water_;
}

uint64_t ArenaPool::kept_bytes() const {
  std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const Arena& a : idle_) bytes += a.bytes;
  return bytes;
}

ArenaPool::Arena ArenaPool::take(uint64_t bytes) {
  if (bytes == 0) return {};
  uint64_t wanted = bytes;
  if (is_small(bytes)) {
    std::lock_guard lock(mutex_);
    while (!idle_.empty()) {
      const Arena a = idle_.back();
      idle_.pop_back();
      if (a.bytes >= bytes) return a;
      device_.free(a.data);  // of the time before the program grew
    }
    if (device_.facts().host_memory) wanted = std::max(wanted, small_bytes_);
  }
  return {device_.allocate(wanted), wanted};
}

// Memory that a device in trouble does not take back is lost with it.
void ArenaPool::give(const Arena& arena) noexcept try {
  if (!arena.data) return;
  std::lock_guard lock(mutex_);
  // On an asynchronous device the arena may still be in use: its owner knows when it is not.
  const bool keeps = device_.facts().host_memory && is_small(arena.bytes);
  if (keeps && idle_.size() < std::min(kMaxIdle, idle_.capacity()) && arena.bytes >= small_bytes_)
    idle_.push_back(arena);
  else
    device_.free(arena.data);
} catch (const std::exception&) {
}

}  // namespace poot::runtime
