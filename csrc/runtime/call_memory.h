// Memory that one library call may allocate from: places for its results, each for one allocation
// of just that size, and gaps for whatever else it needs. A result that must own its memory has a
// place of none: one allocation of its size is left to the host's allocator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace poot::runtime {

// take() is for the calling thread alone; what it gave comes back from any thread.
class CallMemory {
 public:
  CallMemory() = default;
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  // Begins anew without any memory. Everything was given back.
  void open();
  // 64-byte aligned, disjoint.
  void add_place(void* data, uint64_t bytes);
  void add_gap(void* data, uint64_t bytes);
  // Nothing is taken from now on.
  void close();

  // 64-byte aligned; null where nothing fits, or for no bytes. Throws std::bad_alloc.
  void* take(size_t bytes);
  // False: not from here.
  bool give(const void* p) noexcept;
  // Whether the address lies in something taken.
  bool holds(const void* p) const;
  size_t taken() const;

  // Around a fork: other threads wait to take and give.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  // Keeps the owner of lent memory for as long as this lives.
  void keep(std::shared_ptr<void> owner) { kept_.push_back(std::move(owner)); }

  CallMemory* outer = nullptr;  // for the host: what the same thread allocated from before

 private:
  struct Block {
    char* data;
    uint64_t bytes;
  };
  struct Place : Block {
    bool taken;
  };
  void* take_gap(uint64_t bytes);
  void free_gap(Block block);

  bool open_ = false;
  mutable std::mutex mutex_;
  std::vector<Place> places_;
  std::vector<Block> gaps_;   // by address
  std::vector<Block> taken_;  // of gaps
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace poot::runtime
