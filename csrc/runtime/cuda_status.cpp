#include "runtime/cuda_status.h"

#include <algorithm>
#include <utility>

namespace poot::runtime::cuda {
namespace {

constexpr uint32_t kPageWords = 16384;
constexpr unsigned kPortableAndMapped = 1 | 2;

}  // namespace

StatusPool::~StatusPool() {
  for (uint32_t* page : pages_) driver_.host_free(page);
}

// First fit by size; what is left of a run stays free.
StatusPool::Run StatusPool::take(uint32_t count) {
  std::lock_guard lock(mutex_);
  auto found = free_.lower_bound(count);
  if (found == free_.end()) {
    Run page{nullptr, 0, std::max(count, kPageWords)};
    void* host = nullptr;
    driver_.check(driver_.host_allocate(&host, size_t{page.count} * 4, kPortableAndMapped),
                  "allocating pinned memory for status words");
    page.host = static_cast<uint32_t*>(host);
    pages_.push_back(page.host);
    driver_.check(driver_.host_address(&page.device, host, 0), "mapping status words");
    found = free_.emplace(page.count, page);
  }
  Run run = found->second;
  free_.erase(found);
  if (run.count > count)
    free_.emplace(run.count - count,
                  Run{run.host + count, run.device + 4 * count, run.count - count});
  run.count = count;
  std::fill_n(run.host, count, 0u);
  return run;
}

void StatusPool::give(const Run& run) {
  std::lock_guard lock(mutex_);
  free_.emplace(run.count, run);
}

StatusWords::StatusWords(StatusPool& pool, uint32_t count) {
  if (count == 0) return;
  const StatusPool::Run run = pool.take(count);
  pool_ = &pool;
  words_ = run.host;
  device_ = run.device;
  count_ = count;
}

StatusWords::~StatusWords() {
  if (pool_) pool_->give({const_cast<uint32_t*>(words_), device_, count_});
}

StatusWords::StatusWords(StatusWords&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      words_(other.words_),
      device_(other.device_),
      count_(std::exchange(other.count_, 0)) {}

StatusWords& StatusWords::operator=(StatusWords&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(words_, other.words_);
  std::swap(device_, other.device_);
  std::swap(count_, other.count_);
  return *this;
}

bool StatusWords::take(uint32_t& bits, uint32_t& index) {
  bool found = false;
  for (uint32_t i = 0; i < count_; ++i) {
    if (words_[i] == 0) continue;
    if (!found) {
      bits = words_[i];
      index = i;
      found = true;
    }
    words_[i] = 0;
  }
  return found;
}

}  // namespace poot::runtime::cuda
