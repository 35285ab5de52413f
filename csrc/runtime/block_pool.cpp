// The same program asks for the same sizes again and again, so a tensor gets a block of nearly its
// own size only, the newest first: its pages are likeliest to be in the caches. Idle blocks are
// few (each is large), so they are searched in a plain vector, oldest first.

#include "runtime/block_pool.h"

#include <algorithm>
#include <new>

namespace poot::runtime {
namespace {

constexpr uint64_t kPage = 4096;

bool fits(uint64_t block, uint64_t bytes, BlockPool::For use) {
  return block >= bytes && (use == BlockPool::For::Call || block - bytes <= bytes / 8);
}

}  // namespace

BlockPool::~BlockPool() {
  trim();
}

void* BlockPool::take(size_t bytes, For use) {
  const uint64_t size = (bytes + kPage - 1) / kPage * kPage;
  {
    std::lock_guard guard(mutex_);
    if (void* p = take_idle(size, use)) return p;
  }
  void* p = nullptr;
  try {
    p = options_.allocate(size);
  } catch (...) {
    trim();
    p = options_.allocate(size);
  }
  std::lock_guard guard(mutex_);
  live_.emplace(p, size);
  ++stats_.fresh;
  stats_.live_bytes += size;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes + stats_.idle_bytes);
  return p;
}

bool BlockPool::owns(void* p) const {
  std::lock_guard guard(mutex_);
  return live_.contains(p);
}

void* BlockPool::take_idle(size_t bytes, For use) {
  auto best = idle_.rend();
  for (auto it = idle_.rbegin(); it != idle_.rend(); ++it)
    if (fits(it->bytes, bytes, use) && (best == idle_.rend() || it->bytes < best->bytes)) best = it;
  if (best == idle_.rend()) return nullptr;
  const Idle block = *best;
  live_.emplace(block.data, block.bytes);
  idle_.erase(std::next(best).base());
  ++stats_.reused;
  stats_.idle_bytes -= block.bytes;
  stats_.live_bytes += block.bytes;
  return block.data;
}

void BlockPool::give(void* p) noexcept {
  std::vector<void*> out;
  try {
    const Clock::time_point now = Clock::now();
    std::lock_guard guard(mutex_);
    const auto found = live_.find(p);
    const uint64_t bytes = found->second;
    idle_.push_back({p, bytes, now});  // before anything changes: it may throw
    live_.erase(found);
    stats_.live_bytes -= bytes;
    stats_.idle_bytes += bytes;
    evict(options_.idle_cap, now - options_.idle_for, out);
  } catch (const std::bad_alloc&) {
    // The block stays out, or what was to be evicted stays idle.
  }
  free_all(out);
}

void BlockPool::trim(uint64_t keep) noexcept {
  std::vector<void*> out;
  try {
    std::lock_guard guard(mutex_);
    evict(keep, Clock::time_point::min(), out);
  } catch (const std::bad_alloc&) {
    // What was to be evicted stays idle.
  }
  free_all(out);
}

void BlockPool::evict(uint64_t keep, Clock::time_point older_than, std::vector<void*>& out) {
  uint64_t left = stats_.idle_bytes;
  size_t n = 0;
  while (n < idle_.size() && (left > keep || idle_[n].since < older_than)) left -= idle_[n++].bytes;
  if (n == 0) return;
  out.reserve(n);
  for (size_t i = 0; i < n; ++i) out.push_back(idle_[i].data);
  idle_.erase(idle_.begin(), idle_.begin() + static_cast<std::ptrdiff_t>(n));
  stats_.idle_bytes = left;
}

void BlockPool::free_all(const std::vector<void*>& blocks) const noexcept {
  for (void* p : blocks) options_.free(p);
}

BlockPool::Stats BlockPool::stats() const {
  std::lock_guard guard(mutex_);
  return stats_;
}

}  // namespace poot::runtime
