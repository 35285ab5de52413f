// Large blocks of host memory, kept when a tensor or a call's arena dies and handed out again. From
// some size on the system takes freed memory back at once, and filling fresh pages costs several
// times what the kernel does; a block that was in use a call ago costs nothing.
//
// A block belongs to whoever took it until it is given back: the pool never touches one that is
// out. What lies idle is bounded: by a cap, oldest blocks going first, and by age. Thread-safe; the
// process's instance stays usable in a forked child and is never destroyed, since tensors may
// outlive everything else.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace poot::runtime {

class BlockPool {
 public:
  struct Options {
    void* (*allocate)(size_t bytes) = nullptr;  // 64-byte aligned; throws if there is none
    void (*free)(void* p) = nullptr;
    uint64_t idle_cap = 0;  // bytes
    std::chrono::milliseconds idle_for{10'000};
  };
  explicit BlockPool(const Options& options) : options_(options) {}
  ~BlockPool();  // frees what is idle; nothing may be out
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Results below this stay with the host's allocator, which keeps them mapped by itself.
  static constexpr size_t kSmallest = size_t{1} << 20;

  // Tensors may live for long: their blocks have at most an eighth more than they need. What goes
  // back with the call takes any idle block.
  enum class For : uint8_t { Tensor, Call };
  // A block of at least `bytes`. Throws what `allocate` throws once nothing idle is left to free.
  void* take(size_t bytes, For use = For::Tensor);
  // Of take(), once.
  void give(void* p) noexcept;
  bool owns(void* p) const;  // whether the block is out
  // Frees the oldest idle blocks until at most `keep` bytes are idle.
  void trim(uint64_t keep = 0) noexcept;

  struct Stats {
    uint64_t live_bytes = 0, idle_bytes = 0;  // out and kept
    uint64_t peak_bytes = 0;                  // most of both together
    uint64_t reused = 0, fresh = 0;           // blocks handed out
  };
  Stats stats() const;

  // Around a fork, so that the child finds the lock free.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Idle {
    void* data;
    uint64_t bytes;
    Clock::time_point since;
  };
  void* take_idle(size_t bytes, For use);
  // Moves blocks to `out` that are too many or too old; freeing them needs no lock.
  void evict(uint64_t keep, Clock::time_point older_than, std::vector<void*>& out);
  void free_all(const std::vector<void*>& blocks) const noexcept;

  const Options options_;
  mutable std::mutex mutex_;
  std::vector<Idle> idle_;  // oldest first
  std::unordered_map<void*, uint64_t> live_;
  Stats stats_;
};

}  // namespace poot::runtime
