// Blocks are never shared while out, come back, and stay within the bounds.
#include "runtime/block_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

namespace poot::runtime {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

std::atomic<int64_t> allocated{0};  // blocks that the system gave and did not get back
std::atomic<int> failures{0};       // allocations to refuse

void* allocate(size_t bytes) {
  if (failures > 0) {
    --failures;
    throw std::bad_alloc();
  }
  void* p = std::aligned_alloc(64, bytes);
  ++allocated;
  return p;
}

void release(void* p) {
  --allocated;
  std::free(p);
}

BlockPool::Options options(uint64_t cap) {
  return {allocate, release, cap};
}

TEST(BlockPool, HandsOutWhatCameBack) {
  BlockPool pool(options(64 * kMiB));
  void* a = pool.take(3 * kMiB);
  void* b = pool.take(3 * kMiB);
  EXPECT_NE(a, b);
  pool.give(a);
  EXPECT_EQ(pool.take(3 * kMiB - 100), a);
  EXPECT_EQ(pool.stats().reused, 1u);
  EXPECT_EQ(pool.stats().fresh, 2u);
  EXPECT_EQ(pool.stats().live_bytes, 6 * kMiB);
  pool.give(a);
  pool.give(b);
  EXPECT_EQ(pool.stats().live_bytes, 0u);
  EXPECT_EQ(pool.stats().idle_bytes, 6 * kMiB);
  EXPECT_EQ(pool.take(3 * kMiB), b);  // the newest: its pages may be in the caches
  pool.give(b);
}

TEST(BlockPool, ABlockServesNearlyItsOwnSizeOnly) {
  BlockPool pool(options(64 * kMiB));
  void* a = pool.take(8 * kMiB);
  pool.give(a);
  void* smaller = pool.take(4 * kMiB);
  void* larger = pool.take(9 * kMiB);
  EXPECT_NE(smaller, a);
  EXPECT_NE(larger, a);
  EXPECT_EQ(pool.take(8 * kMiB - kMiB / 2), a);
  for (void* p : {a, smaller, larger}) pool.give(p);
}

TEST(BlockPool, ACallTakesAnyIdleBlockThatIsLargeEnough) {
  BlockPool pool(options(64 * kMiB));
  void* a = pool.take(8 * kMiB);
  void* b = pool.take(6 * kMiB);
  pool.give(a);
  pool.give(b);
  EXPECT_FALSE(pool.owns(b));
  EXPECT_EQ(pool.take(2 * kMiB, BlockPool::For::Call), b);  // the smallest
  EXPECT_TRUE(pool.owns(b));
  EXPECT_EQ(pool.take(2 * kMiB, BlockPool::For::Call), a);
  for (void* p : {a, b}) pool.give(p);
}

TEST(BlockPool, WhatLiesIdleIsBounded) {
  const int64_t before = allocated;
  {
    BlockPool pool(options(4 * kMiB));
    std::vector<void*> out;
    for (int i = 0; i < 8; ++i) out.push_back(pool.take(kMiB));
    for (void* p : out) pool.give(p);
    EXPECT_EQ(pool.stats().idle_bytes, 4 * kMiB);
    EXPECT_EQ(allocated - before, 4);
    EXPECT_EQ(pool.take(kMiB), out.back());  // the oldest went
    pool.give(out.back());
    void* large = pool.take(5 * kMiB);
    pool.give(large);  // alone above the cap
    EXPECT_EQ(pool.stats().idle_bytes, 0u);
    EXPECT_EQ(pool.stats().peak_bytes, 9 * kMiB);
  }
  EXPECT_EQ(allocated, before);
}

TEST(BlockPool, IdleBlocksAge) {
  BlockPool::Options o = options(64 * kMiB);
  o.idle_for = std::chrono::milliseconds(20);
  BlockPool pool(o);
  pool.give(pool.take(2 * kMiB));
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  pool.give(pool.take(kMiB));
  EXPECT_EQ(pool.stats().idle_bytes, kMiB);
}

TEST(BlockPool, TrimsOnRequestAndBeforeGivingUp) {
  BlockPool pool(options(64 * kMiB));
  pool.give(pool.take(2 * kMiB));
  pool.trim(2 * kMiB);
  EXPECT_EQ(pool.stats().idle_bytes, 2 * kMiB);
  pool.trim();
  EXPECT_EQ(pool.stats().idle_bytes, 0u);

  pool.give(pool.take(2 * kMiB));
  failures = 1;
  void* p = pool.take(8 * kMiB);
  EXPECT_EQ(pool.stats().idle_bytes, 0u);
  pool.give(p);
  failures = 2;
  EXPECT_THROW(pool.take(16 * kMiB), std::bad_alloc);
  EXPECT_EQ(pool.stats().live_bytes, 0u);
}

// Each thread fills its blocks with its own mark and finds it whole before it gives them back.
TEST(BlockPool, ThreadsNeverShareABlock) {
  constexpr int kThreads = 4, kRounds = 300;
  const int64_t before = allocated;
  {
    BlockPool pool(options(6 * kMiB));
    std::atomic<int> wrong{0};
    auto work = [&](int self) {
      unsigned seed = static_cast<unsigned>(self);
      std::vector<std::pair<char*, size_t>> held;
      for (int i = 0; i < kRounds; ++i) {
        const size_t bytes = kMiB + static_cast<size_t>(rand_r(&seed) % 3) * kMiB / 16;
        auto* p = static_cast<char*>(pool.take(bytes));
        for (size_t at = 0; at < bytes; at += 65536) p[at] = static_cast<char>(self);
        held.push_back({p, bytes});
        if (held.size() < 3) continue;
        const auto [q, n] = held[rand_r(&seed) % held.size()];
        for (size_t at = 0; at < n; at += 65536) wrong += q[at] != static_cast<char>(self);
        held.erase(std::find(held.begin(), held.end(), std::pair{q, n}));
        pool.give(q);
      }
      for (const auto& [q, n] : held) pool.give(q);
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) threads.emplace_back(work, t + 1);
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(pool.stats().live_bytes, 0u);
    EXPECT_LE(pool.stats().idle_bytes, 6 * kMiB);
    EXPECT_EQ(pool.stats().reused + pool.stats().fresh, uint64_t{kThreads} * kRounds);
    EXPECT_GT(pool.stats().reused, 0u);
  }
  EXPECT_EQ(allocated, before);
}

TEST(BlockPool, AForkedChildGoesOn) {
  BlockPool pool(options(64 * kMiB));
  void* mine = pool.take(kMiB);
  std::memset(mine, 7, kMiB);
  pool.give(pool.take(2 * kMiB));
  pool.lock();
  const pid_t child = ::fork();
  pool.unlock();
  if (child == 0) {
    void* p = pool.take(2 * kMiB);
    std::memset(p, 1, 2 * kMiB);
    const bool whole = static_cast<char*>(mine)[kMiB - 1] == 7 && pool.stats().reused == 1;
    pool.give(p);
    pool.give(mine);
    ::_exit(whole ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(pool.stats().live_bytes, kMiB);
  pool.give(mine);
}

}  // namespace
}  // namespace poot::runtime
