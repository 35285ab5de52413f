// Arenas of one program, leased per call in flight. Small ones are kept for the next call: each has
// the size that the largest of the entries with small arenas needs, so calls of all sizes share
// them. Large ones go back to the device after each call, since what a program holds between its
// calls is missing for whatever runs then, its own backward graph among it; the host keeps such
// memory mapped for all programs together (HostServices::allocate). Thread-safe; the device
// outlives the pool, the pool its leases.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "runtime/device.h"

namespace poot::runtime {

class ArenaPool {
 public:
  explicit ArenaPool(Device& device) : device_(device) {}
  ~ArenaPool();
  ArenaPool(const ArenaPool&) = delete;
  ArenaPool& operator=(const ArenaPool&) = delete;

  // An entry needs `bytes`: small arenas allocated from now on are as large.
  void reserve(uint64_t bytes);
  uint64_t high_water() const;  // of what was reserved
  uint64_t kept_bytes() const;  // in no lease

  struct Arena {
    Address data = nullptr;
    uint64_t bytes = 0;
  };
  // An arena of at least `bytes`, none for zero. Throws DeviceError.
  Arena take(uint64_t bytes);
  void give(const Arena& arena) noexcept;

  // An arena for one call; goes back to the pool with the lease.
  class Lease {
   public:
    Lease() = default;  // of nothing
    Lease(ArenaPool& pool, uint64_t bytes) : pool_(&pool), arena_(pool.take(bytes)) {}
    ~Lease() {
      if (pool_) pool_->give(arena_);
    }
    Lease(Lease&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), arena_(std::exchange(other.arena_, {})) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(arena_, other.arena_);
      return *this;
    }
    Address data() const { return arena_.data; }
    // The arena stays allocated for good; the lease is of nothing, or of another one.
    void leave() noexcept { arena_ = {}; }
    void leave_for(uint64_t bytes) {
      leave();
      arena_ = pool_->take(bytes);
    }

   private:
    ArenaPool* pool_ = nullptr;
    Arena arena_;
  };

 private:
  Device& device_;
  mutable std::mutex mutex_;
  std::vector<Arena> idle_;
  uint64_t high_water_ = 0;
  uint64_t small_bytes_ = 0;  // of the largest small entry
};

// The arenas of one call: `early` goes back before the entry's late step.
struct CallArenas {
  ArenaPool::Lease early, rest;
};

}  // namespace poot::runtime
