// Without a split a call needs its arena and all results at once. With one before launch t it needs
//
//   before t: the arena of what dies before t, the arena of the rest, results written before t
//   from t:   the arena of the rest, all results
//
// and the larger of the two. Only launches at which a large result begins are worth trying; few are
// tried, since each needs two layouts.
#include "runtime/arena_split.h"

#include <algorithm>
#include <vector>

namespace poot::runtime {
namespace {

constexpr uint64_t kLarge = 1 << 20;
constexpr size_t kMostTried = 4;
constexpr uint64_t kWorth = 8;  // at least this part of all memory is saved

uint64_t packed_bytes(std::span<const LiveRange> ranges, uint32_t split, bool early) {
  std::vector<LiveRange> some;
  for (const LiveRange& r : ranges)
    if ((r.last < split) == early) some.push_back(r);
  return pack_arena(some).bytes;
}

// The large results' launches, those of the largest first, but for the first launch of all.
std::vector<uint32_t> candidates(std::vector<FreshResult> results) {
  std::stable_sort(results.begin(), results.end(),
                   [](const FreshResult& a, const FreshResult& b) { return a.bytes > b.bytes; });
  std::vector<uint32_t> launches;
  for (const FreshResult& r : results) {
    const bool known = std::find(launches.begin(), launches.end(), r.first) != launches.end();
    if (r.bytes < kLarge || launches.size() == kMostTried) break;
    if (!known && r.first > 0) launches.push_back(r.first);
  }
  return launches;
}

}  // namespace

uint32_t split_launch(std::span<const LiveRange> ranges, std::span<const FreshResult> results) {
  const std::vector<uint32_t> tried = candidates({results.begin(), results.end()});
  if (tried.empty()) return kNoSplit;
  uint64_t all = 0;
  for (const FreshResult& r : results) all += r.bytes;
  const uint64_t whole = pack_arena(ranges).bytes + all;
  uint64_t least = whole - whole / kWorth;
  uint32_t best = kNoSplit;
  for (const uint32_t t : tried) {
    uint64_t written = 0;
    for (const FreshResult& r : results) written += r.first < t ? r.bytes : 0;
    const uint64_t rest = packed_bytes(ranges, t, false);
    const uint64_t peak = std::max(packed_bytes(ranges, t, true) + rest + written, rest + all);
    if (peak >= least) continue;
    least = peak;
    best = t;
  }
  return best;
}

}  // namespace poot::runtime
