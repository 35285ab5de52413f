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

struct ArenaLayout {
  std::vector<uint64_t> offsets;  // of each range, 64-byte aligned
  uint64_t bytes = 0;             // size of the whole block
};

// Ranges that overlap in time never overlap in memory.
ArenaLayout pack_arena(std::span<const LiveRange> ranges);

}  // namespace poot::runtime
