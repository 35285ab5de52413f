// What a library call may take: places by size, gaps by fit; everything comes back.
#include "runtime/call_memory.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

namespace poot::runtime {
namespace {

class CallMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override { memory_.open(); }
  alignas(64) char block_[1 << 16];
  CallMemory memory_;
};

TEST_F(CallMemoryTest, AResultGoesToItsPlace) {
  memory_.add_place(block_, 1000);
  memory_.add_gap(block_ + 4096, 4096);
  void* scratch = memory_.take(999);
  void* result = memory_.take(1000);
  EXPECT_EQ(result, block_);
  EXPECT_EQ(scratch, block_ + 4096);
  EXPECT_EQ(memory_.take(1000), block_ + 4096 + 1024) << "a place is for one";
  EXPECT_TRUE(memory_.give(result));
  EXPECT_EQ(memory_.take(1000), block_) << "and free again when it comes back";
  EXPECT_EQ(memory_.taken(), 3u);
}

TEST_F(CallMemoryTest, AResultWithoutAPlaceIsLeftToTheHost) {
  memory_.add_gap(block_, 4096);
  memory_.add_place(nullptr, 1000);
  EXPECT_EQ(memory_.take(1000), nullptr);
  EXPECT_EQ(memory_.taken(), 0u);
  EXPECT_EQ(memory_.take(1000), block_);
  EXPECT_FALSE(memory_.give(nullptr));
}

TEST_F(CallMemoryTest, TheSmallestGapThatFitsIsTaken) {
  memory_.add_gap(block_, 4096);
  memory_.add_gap(block_ + 8192, 1000);
  EXPECT_EQ(memory_.take(0), nullptr);
  EXPECT_EQ(memory_.take(5000), nullptr);
  EXPECT_EQ(memory_.take(990), block_ + 8192) << "though whole lines of it would not fit";
  EXPECT_EQ(memory_.take(990), block_);
  EXPECT_EQ(memory_.take(10), block_ + 1024);
}

TEST_F(CallMemoryTest, NothingIsTakenOnceItIsClosed) {
  memory_.add_gap(block_, 4096);
  void* p = memory_.take(4096);
  memory_.close();
  EXPECT_TRUE(memory_.holds(p));
  EXPECT_TRUE(memory_.holds(block_ + 4095));
  EXPECT_FALSE(memory_.holds(block_ + 4096));
  std::thread([&] { EXPECT_TRUE(memory_.give(p)); }).join();
  EXPECT_FALSE(memory_.give(p));
  EXPECT_FALSE(memory_.holds(p));
  EXPECT_EQ(memory_.take(64), nullptr);
  EXPECT_EQ(memory_.taken(), 0u);
}

TEST_F(CallMemoryTest, BlocksNeverMeetAndGapsMergeAgain) {
  std::mt19937 random(3);
  auto below = [&](uint32_t n) { return random() % n; };
  memory_.add_gap(block_, sizeof block_ / 2);
  memory_.add_gap(block_ + sizeof block_ / 2 + 64, sizeof block_ / 2 - 64);
  std::vector<std::pair<char*, size_t>> out;
  for (int step = 0; step < 2000; ++step) {
    if (!out.empty() && below(2) == 0) {
      const size_t i = below(static_cast<uint32_t>(out.size()));
      EXPECT_TRUE(memory_.give(out[i].first));
      out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    const size_t bytes = 1 + below(6000);
    char* p = static_cast<char*>(memory_.take(bytes));
    if (!p) continue;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u);
    EXPECT_GE(p, block_);
    EXPECT_LE(p + bytes, block_ + sizeof block_);
    for (const auto& [other, size] : out) EXPECT_TRUE(p + bytes <= other || other + size <= p);
    out.emplace_back(p, bytes);
  }
  for (const auto& [p, bytes] : out) EXPECT_TRUE(memory_.give(p));
  EXPECT_EQ(memory_.taken(), 0u);
  EXPECT_NE(memory_.take(sizeof block_ / 2), nullptr);
}

}  // namespace
}  // namespace poot::runtime
