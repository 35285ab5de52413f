// Best-fit linear scan: ranges enter in order of their first launch; what died before gives its
// block back, neighbours merge, and the smallest block that fits is taken, or the arena grows.
// Near-linear in the number of ranges, and within a few percent of optimal for layered models,
// whose buffers have few distinct sizes. Where it leaves holes (more than a sixteenth of what lives
// at the worst moment), the ranges are placed anew, the largest first, each in the smallest gap
// between those that live together with it; the smaller of the two blocks is taken.
//
// Loans are filled first, the largest first, each by the same scan over the ranges that end in
// time: a language model's logits hold all the layers before them, and the arena next to nothing.

#include "runtime/arena.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

namespace poot::runtime {
namespace {

constexpr uint64_t kNowhere = ~uint64_t{0};
constexpr size_t kFewRanges = 2048;

class FreeBlocks {
 public:
  explicit FreeBlocks(uint64_t limit) : limit_(limit) {}

  // Offset of a block of `bytes`; grows towards the limit if no free block fits, else kNowhere.
  uint64_t take(uint64_t bytes) {
    auto best = blocks_.end();
    for (auto it = blocks_.begin(); it != blocks_.end(); ++it)
      if (it->second >= bytes && (best == blocks_.end() || it->second < best->second)) best = it;
    if (best == blocks_.end()) return grow(bytes);
    const auto [offset, size] = *best;
    blocks_.erase(best);
    if (size > bytes) blocks_.emplace(offset + bytes, size - bytes);
    return offset;
  }

  void give(uint64_t offset, uint64_t bytes) {
    auto next = blocks_.lower_bound(offset);
    if (next != blocks_.end() && offset + bytes == next->first) {
      bytes += next->second;
      next = blocks_.erase(next);
    }
    if (next != blocks_.begin()) {
      auto prev = std::prev(next);
      if (prev->first + prev->second == offset) {
        prev->second += bytes;
        return;
      }
    }
    blocks_.emplace(offset, bytes);
  }

  uint64_t end() const { return end_; }

 private:
  // A free block at the end is extended rather than left behind.
  uint64_t grow(uint64_t bytes) {
    uint64_t offset = end_;
    if (!blocks_.empty()) {
      auto last = std::prev(blocks_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        if (bytes > limit_ - offset) return kNowhere;
        blocks_.erase(last);
      }
    }
    if (bytes > limit_ - offset) return kNowhere;
    end_ = offset + bytes;
    return offset;
  }

  std::map<uint64_t, uint64_t> blocks_;  // offset -> size
  const uint64_t limit_;
  uint64_t end_ = 0;
};

// Places those of `order` (by first launch) that fit below `limit` and end before `until`; returns
// the others. `bytes` becomes how much is used.
std::vector<uint32_t> scan(std::span<const LiveRange> ranges, const std::vector<uint32_t>& order,
                           uint64_t limit, uint32_t until, uint32_t loan, ArenaLayout& layout,
                           uint64_t& bytes) {
  FreeBlocks blocks(limit);
  std::multimap<uint32_t, uint32_t> live;  // last launch -> range
  std::vector<uint32_t> left;
  for (uint32_t r : order) {
    while (!live.empty() && live.begin()->first < ranges[r].first) {
      const uint32_t dead = live.begin()->second;
      blocks.give(layout.offsets[dead], padded_arena_bytes(ranges[dead].bytes));
      live.erase(live.begin());
    }
    const uint64_t offset =
        ranges[r].last < until ? blocks.take(padded_arena_bytes(ranges[r].bytes)) : kNowhere;
    if (offset == kNowhere) {
      left.push_back(r);
      continue;
    }
    layout.offsets[r] = offset;
    layout.loans[r] = loan;
    live.emplace(ranges[r].last, r);
  }
  bytes = blocks.end();
  return left;
}

// Bytes that live at the worst launch: no layout takes less.
uint64_t most_at_once(std::span<const LiveRange> ranges, const std::vector<uint32_t>& order) {
  std::map<uint32_t, int64_t> change;
  for (const uint32_t r : order) {
    change[ranges[r].first] += static_cast<int64_t>(padded_arena_bytes(ranges[r].bytes));
    change[ranges[r].last + 1] -= static_cast<int64_t>(padded_arena_bytes(ranges[r].bytes));
  }
  int64_t live = 0, most = 0;
  for (const auto& [launch, bytes] : change) most = std::max(most, live += bytes);
  return static_cast<uint64_t>(most);
}

// Offset of the smallest gap of `bytes` between `taken` (offset, end), or behind all of them.
uint64_t smallest_gap(std::vector<std::pair<uint64_t, uint64_t>> taken, uint64_t bytes) {
  std::sort(taken.begin(), taken.end());
  uint64_t end = 0, best = kNowhere, best_gap = kNowhere;
  for (const auto& [from, to] : taken) {
    if (from >= end + bytes && from - end < best_gap) {
      best = end;
      best_gap = from - end;
    }
    end = std::max(end, to);
  }
  return best == kNowhere ? end : best;
}

// Places `order` anew if that takes less than layout.bytes. Quadratic, so for few ranges.
void place_largest_first(std::span<const LiveRange> ranges, std::vector<uint32_t> order,
                         ArenaLayout& layout) {
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return ranges[a].bytes > ranges[b].bytes; });
  std::vector<uint64_t> offsets(ranges.size());
  std::vector<std::pair<uint64_t, uint64_t>> taken;
  uint64_t bytes = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const LiveRange& r = ranges[order[i]];
    taken.clear();
    for (size_t j = 0; j < i; ++j) {
      const LiveRange& other = ranges[order[j]];
      if (other.first > r.last || r.first > other.last) continue;
      const uint64_t at = offsets[order[j]];
      taken.emplace_back(at, at + padded_arena_bytes(other.bytes));
    }
    offsets[order[i]] = smallest_gap(taken, padded_arena_bytes(r.bytes));
    bytes = std::max(bytes, offsets[order[i]] + padded_arena_bytes(r.bytes));
    if (bytes >= layout.bytes) return;
  }
  for (const uint32_t r : order) layout.offsets[r] = offsets[r];
  layout.bytes = bytes;
}

}  // namespace

ArenaLayout pack_arena(std::span<const LiveRange> ranges, std::span<const Loan> loans) {
  ArenaLayout layout;
  layout.offsets.resize(ranges.size());
  layout.loans.assign(ranges.size(), kNoLoan);
  std::vector<uint32_t> order;
  for (uint32_t r = 0; r < ranges.size(); ++r)
    if (ranges[r].bytes != 0) order.push_back(r);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return ranges[a].first < ranges[b].first; });
  std::vector<uint32_t> lenders(loans.size());
  std::iota(lenders.begin(), lenders.end(), 0u);
  std::stable_sort(lenders.begin(), lenders.end(),
                   [&](uint32_t a, uint32_t b) { return loans[a].bytes > loans[b].bytes; });
  uint64_t ignored;
  for (uint32_t l : lenders)
    order = scan(ranges, order, loans[l].bytes, loans[l].until, l, layout, ignored);
  scan(ranges, order, kNowhere, UINT32_MAX, kNoLoan, layout, layout.bytes);
  const uint64_t least = most_at_once(ranges, order);
  if (order.size() <= kFewRanges && layout.bytes > least + least / 16)
    place_largest_first(ranges, std::move(order), layout);
  return layout;
}

}  // namespace poot::runtime
