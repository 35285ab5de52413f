// One sweep over the launches with the ranges that live, by where they lie.

#include "runtime/arena_gaps.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace poot::runtime {
namespace {

using Lying = std::set<std::pair<uint64_t, uint32_t>>;  // offset, range

// Between the ranges that lie in `bytes`.
void add_gaps(const Lying& lying, std::span<const LiveRange> ranges, uint32_t loan, uint64_t bytes,
              uint64_t least, std::vector<ArenaGap>& out) {
  uint64_t end = 0;
  const auto add = [&](uint64_t until) {
    if (until >= end + least && until > end) out.push_back({loan, end, until - end});
  };
  for (const auto& [offset, r] : lying) {
    add(offset);
    end = std::min(bytes, offset + padded_arena_bytes(ranges[r].bytes));
  }
  add(bytes);
}

}  // namespace

std::vector<std::vector<ArenaGap>> arena_gaps(const ArenaLayout& layout,
                                              std::span<const LiveRange> ranges,
                                              std::span<const Loan> loans,
                                              std::span<const uint32_t> launches, uint64_t least) {
  std::vector<uint32_t> order;
  for (uint32_t r = 0; r < ranges.size(); ++r)
    if (ranges[r].bytes != 0) order.push_back(r);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return ranges[a].first < ranges[b].first; });
  std::map<uint32_t, Lying> lying;         // by loan
  std::multimap<uint32_t, uint32_t> live;  // last launch -> range
  std::vector<std::vector<ArenaGap>> out;
  auto next = order.begin();
  for (const uint32_t launch : launches) {
    for (; next != order.end() && ranges[*next].first <= launch; ++next) {
      lying[layout.loans[*next]].emplace(layout.offsets[*next], *next);
      live.emplace(ranges[*next].last, *next);
    }
    while (!live.empty() && live.begin()->first < launch) {
      const uint32_t dead = live.begin()->second;
      lying[layout.loans[dead]].erase({layout.offsets[dead], dead});
      live.erase(live.begin());
    }
    std::vector<ArenaGap>& gaps = out.emplace_back();
    add_gaps(lying[kNoLoan], ranges, kNoLoan, layout.bytes, least, gaps);
    for (uint32_t l = 0; l < loans.size(); ++l)
      if (loans[l].until > launch) add_gaps(lying[l], ranges, l, loans[l].bytes, least, gaps);
  }
  return out;
}

}  // namespace poot::runtime
