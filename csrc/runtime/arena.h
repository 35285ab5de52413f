// Packs transient buffers with known live ranges into one block of memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace poot::runtime {

struct LiveRange {
  uint64_t bytes = 0;
  uint32_t first = 0, last = 0;  // launch numbers, inclusive
};

// Memory beside the block that nobody uses before launch `until`: a result that is written late.
struct Loan {
  uint64_t bytes = 0;
  uint32_t until = 0;
};
inline constexpr uint32_t kNoLoan = ~uint32_t{0};

// What a range of `bytes` takes.
constexpr uint64_t padded_arena_bytes(uint64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

struct ArenaLayout {
  std::vector<uint64_t> offsets;  // of each range, 64-byte aligned
  std::vector<uint32_t> loans;    // that the range lies in, or kNoLoan: in the block
  uint64_t bytes = 0;             // size of the whole block
};

// Ranges that overlap in time never overlap in memory; one in a loan ends before the loan does.
ArenaLayout pack_arena(std::span<const LiveRange> ranges, std::span<const Loan> loans = {});

}  // namespace poot::runtime
