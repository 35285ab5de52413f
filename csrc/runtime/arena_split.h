// Where a call gives part of its transients back before it takes memory for late results. A
// language model's logits outweigh all the layers before them, and need not live beside their
// arena.
#pragma once

#include "runtime/arena.h"

namespace poot::runtime {

// A result that is written from launch `first` on, and lives to the end of the call.
struct FreshResult {
  uint64_t bytes = 0;
  uint32_t first = 0;
};

inline constexpr uint32_t kNoSplit = ~uint32_t{0};

// The launch before which transients that are dead go back and results not yet written get their
// memory; kNoSplit where that saves little.
uint32_t split_launch(std::span<const LiveRange> ranges, std::span<const FreshResult> results);

}  // namespace poot::runtime
