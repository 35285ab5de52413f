// Where the transients and the results of an entry lie. Three ways:
//
//   lent   on the host: transients and what library calls return in results that are not written
//          yet, then in one arena; library calls may use what is free meanwhile
//   own    on the host, where it saves much: each large transient and result has memory of its own
//          from the launch that writes it first, and large arguments go back after their last use.
//          A backward graph takes what the forward graph saved, and gives gradients of that size:
//          neither the saved tensors nor the gradients need live during the whole call.
//   split  where recordings hold addresses, so that transients cannot lie in results, which move
//          from call to call: one arena or, around late results, two (arena_split.h)
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/arena_split.h"
#include "runtime/entry.h"

namespace poot::runtime {

struct Placement {
  // The launch before which the early arena goes back and late results get memory, or kNoSplit.
  uint32_t split = kNoSplit;
  // By library call of the program: memory that is free while it runs. Empty where none is lent.
  std::vector<std::vector<BoundGap>> gaps;
};

// Fills in where the entry's buffers lie and what its arenas need, from sizes that are bound.
// `donated`: arguments, by position, whose memory is free once the callee gives them up.
Placement place_buffers(Entry& entry, const program::Program& program, bool host_memory,
                        const std::vector<bool>& donated);

}  // namespace poot::runtime
