// A library call makes few allocations, so everything is searched in plain vectors. The smallest
// gap that fits is taken; neighbours merge again when they come back.

#include "runtime/call_memory.h"

#include <algorithm>
#include <functional>

namespace poot::runtime {
namespace {

constexpr uint64_t kAlign = 64;

}  // namespace

void CallMemory::open() {
  const std::lock_guard lock(mutex_);
  places_.clear();
  gaps_.clear();
  open_ = true;
}

void CallMemory::close() {
  const std::lock_guard lock(mutex_);
  open_ = false;
}

void CallMemory::add_place(void* data, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  places_.push_back({{static_cast<char*>(data), bytes}, false});
}

void CallMemory::add_gap(void* data, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  free_gap({static_cast<char*>(data), bytes});
}

void* CallMemory::take(size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!open_ || bytes == 0) return nullptr;
  for (Place& p : places_) {
    if (p.taken || p.bytes != bytes) continue;
    p.taken = true;
    return p.data;
  }
  return take_gap(bytes);
}

void* CallMemory::take_gap(uint64_t bytes) {
  taken_.reserve(taken_.size() + 1);
  gaps_.reserve(gaps_.size() + taken_.size() + 1);  // so that giving back never allocates
  auto best = gaps_.end();
  for (auto it = gaps_.begin(); it != gaps_.end(); ++it)
    if (it->bytes >= bytes && (best == gaps_.end() || it->bytes < best->bytes)) best = it;
  if (best == gaps_.end()) return nullptr;
  const Block block{best->data, std::min(best->bytes, (bytes + kAlign - 1) / kAlign * kAlign)};
  best->data += block.bytes;
  best->bytes -= block.bytes;
  if (best->bytes == 0) gaps_.erase(best);
  taken_.push_back(block);
  return block.data;
}

void CallMemory::free_gap(Block block) {
  auto next = std::lower_bound(gaps_.begin(), gaps_.end(), block.data,
                               [](const Block& b, const char* p) { return b.data < p; });
  if (next != gaps_.end() && block.data + block.bytes == next->data) {
    block.bytes += next->bytes;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin() && (next - 1)->data + (next - 1)->bytes == block.data)
    (next - 1)->bytes += block.bytes;
  else
    gaps_.insert(next, block);
}

bool CallMemory::give(const void* p) noexcept {
  if (!p) return false;
  const std::lock_guard lock(mutex_);
  for (Place& place : places_) {
    if (place.data != p || !place.taken) continue;
    place.taken = false;
    return true;
  }
  for (auto it = taken_.begin(); it != taken_.end(); ++it) {
    if (it->data != p) continue;
    const Block block = *it;
    taken_.erase(it);
    free_gap(block);
    return true;
  }
  return false;
}

bool CallMemory::holds(const void* p) const {
  const auto in = [p](const Block& b) {
    return b.data && std::greater_equal<const void*>()(p, b.data) &&
           std::less<const void*>()(p, b.data + b.bytes);
  };
  const std::lock_guard lock(mutex_);
  return std::any_of(places_.begin(), places_.end(),
                     [&](const Place& place) { return place.taken && in(place); }) ||
         std::any_of(taken_.begin(), taken_.end(), in);
}

size_t CallMemory::taken() const {
  const std::lock_guard lock(mutex_);
  return taken_.size() +
         static_cast<size_t>(std::count_if(places_.begin(), places_.end(),
                                           [](const Place& p) { return p.taken && p.data; }));
}

}  // namespace poot::runtime
