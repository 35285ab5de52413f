// What a layout leaves free while one launch runs.
#pragma once

#include "runtime/arena.h"

namespace poot::runtime {

struct ArenaGap {
  uint32_t loan = kNoLoan;  // it lies there, or in the block
  uint64_t offset = 0;      // 64-byte aligned
  uint64_t bytes = 0;
};

// For each of `launches` (ascending) the gaps of at least `least` bytes, in the block and in loans
// that have not ended.
std::vector<std::vector<ArenaGap>> arena_gaps(const ArenaLayout& layout,
                                              std::span<const LiveRange> ranges,
                                              std::span<const Loan> loans,
                                              std::span<const uint32_t> launches, uint64_t least);

}  // namespace poot::runtime
