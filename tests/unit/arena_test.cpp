// Packing of transients: nothing that lives together lies together, loans end in time.
#include "runtime/arena.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

#include "runtime/arena_gaps.h"

namespace poot::runtime {
namespace {

constexpr uint64_t kKiB = 1024;

void expect_apart(const std::vector<LiveRange>& ranges, const std::vector<Loan>& loans,
                  const ArenaLayout& layout) {
  for (size_t i = 0; i < ranges.size(); ++i) {
    const LiveRange& a = ranges[i];
    if (a.bytes == 0) continue;
    const uint64_t end = layout.offsets[i] + a.bytes;
    EXPECT_EQ(layout.offsets[i] % 64, 0u);
    if (layout.loans[i] == kNoLoan) {
      EXPECT_LE(end, layout.bytes);
    } else {
      EXPECT_LE(end, loans[layout.loans[i]].bytes);
      EXPECT_LT(a.last, loans[layout.loans[i]].until);
    }
    for (size_t j = 0; j < i; ++j) {
      const LiveRange& b = ranges[j];
      if (b.bytes == 0 || layout.loans[i] != layout.loans[j]) continue;
      const bool together = a.first <= b.last && b.first <= a.last;
      const bool overlap =
          layout.offsets[j] < end && layout.offsets[i] < layout.offsets[j] + b.bytes;
      EXPECT_FALSE(together && overlap) << i << " and " << j;
    }
  }
}

TEST(Arena, ALateResultHoldsTheTransientsBeforeIt) {
  std::vector<LiveRange> ranges;
  for (uint32_t layer = 0; layer < 8; ++layer) ranges.push_back({300 * kKiB, layer, layer + 1});
  const std::vector<Loan> logits = {{4096 * kKiB, 9}};
  const ArenaLayout layout = pack_arena(ranges, logits);
  EXPECT_EQ(layout.bytes, 0u);
  expect_apart(ranges, logits, layout);
  // The last transient is read by the launch that writes the result: it must lie elsewhere.
  const std::vector<Loan> early = {{4096 * kKiB, 8}};
  const ArenaLayout beside = pack_arena(ranges, early);
  EXPECT_EQ(beside.loans.back(), kNoLoan);
  EXPECT_EQ(beside.bytes, 300 * kKiB);
  EXPECT_EQ(pack_arena(ranges).bytes, 600 * kKiB);
}

// Each byte of a launch belongs to a range that lives, or to a gap, or is too little to be one.
void expect_gaps(const std::vector<LiveRange>& ranges, const std::vector<Loan>& loans,
                 const ArenaLayout& layout, uint64_t least) {
  std::vector<uint32_t> launches(30);
  std::iota(launches.begin(), launches.end(), 0u);
  const auto gaps = arena_gaps(layout, ranges, loans, launches, least);
  for (const uint32_t launch : launches) {
    std::map<uint32_t, std::vector<int>> bytes;  // by loan: how often each is used
    bytes[kNoLoan].resize(layout.bytes);
    for (uint32_t l = 0; l < loans.size(); ++l)
      if (loans[l].until > launch) bytes[l].resize(loans[l].bytes);
    for (size_t r = 0; r < ranges.size(); ++r) {
      if (ranges[r].first > launch || ranges[r].last < launch) continue;
      for (uint64_t b = 0; b < ranges[r].bytes; ++b)
        ++bytes.at(layout.loans[r])[layout.offsets[r] + b];
    }
    for (const ArenaGap& g : gaps[launch]) {
      EXPECT_EQ(g.offset % 64, 0u);
      EXPECT_GE(g.bytes, least);
      for (uint64_t b = 0; b < g.bytes; ++b) ++bytes.at(g.loan).at(g.offset + b);
    }
    for (const auto& [loan, used] : bytes) {
      uint64_t free = 0;
      for (const int n : used) {
        EXPECT_LE(n, 1) << "launch " << launch;
        free = n ? 0 : free + 1;
        ASSERT_LT(free, least + 64) << "launch " << launch << ": a gap was missed";
      }
    }
  }
}

TEST(Arena, RandomRangesNeverMeet) {
  std::mt19937 random(7);
  auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (int round = 0; round < 200; ++round) {
    std::vector<LiveRange> ranges(1 + below(40));
    for (LiveRange& r : ranges) {
      r.first = below(20);
      r.last = r.first + below(6);
      r.bytes = below(8) == 0 ? 0 : below(5000);
    }
    std::vector<Loan> loans(below(4));
    for (Loan& l : loans) l = {below(20000), below(26)};
    const ArenaLayout layout = pack_arena(ranges, loans);
    expect_apart(ranges, loans, layout);
    if (round < 40) expect_gaps(ranges, loans, layout, 1 + below(500));
  }
}

}  // namespace
}  // namespace poot::runtime
