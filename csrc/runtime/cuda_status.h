// Status words that kernels of a GPU write and the host reads without a copy: pinned memory mapped
// into the device's address space. A launch owns its word for as long as its recording lives.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/cuda_driver.h"

namespace poot::runtime::cuda {

class StatusPool;

// A run of words, zero at first. Given back when it goes.
class StatusWords {
 public:
  StatusWords() = default;
  StatusWords(StatusPool& pool, uint32_t count);
  ~StatusWords();
  StatusWords(StatusWords&& other) noexcept;
  StatusWords& operator=(StatusWords&& other) noexcept;

  DevicePointer address(uint32_t i) const { return device_ + 4 * i; }
  bool any() const {
    uint32_t all = 0;
    for (uint32_t i = 0; i < count_; ++i) all |= words_[i];
    return all != 0;
  }
  // Clears the words; the first that was set is told.
  bool take(uint32_t& bits, uint32_t& index);

 private:
  StatusPool* pool_ = nullptr;
  volatile uint32_t* words_ = nullptr;
  DevicePointer device_ = 0;
  uint32_t count_ = 0;
};

class StatusPool {
 public:
  // The device's context is current whenever words are taken.
  explicit StatusPool(const Driver& driver) : driver_(driver) {}
  ~StatusPool();
  StatusPool(const StatusPool&) = delete;
  StatusPool& operator=(const StatusPool&) = delete;

 private:
  friend class StatusWords;
  struct Run {
    uint32_t* host;
    DevicePointer device;
    uint32_t count;
  };
  Run take(uint32_t count);
  void give(const Run& run);

  const Driver& driver_;
  std::mutex mutex_;
  std::vector<uint32_t*> pages_;
  std::multimap<uint32_t, Run> free_;  // by count
};

}  // namespace poot::runtime::cuda
