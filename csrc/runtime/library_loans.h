// Loans of memory to library calls, for hosts whose libraries allocate through a hook: what the
// calling thread may take between lend() and settle(), and whose a block is that comes back, from
// any thread. A child of a fork may give back what its parent took.
#pragma once

#include <memory>

#include "runtime/call_memory.h"

namespace poot::runtime::loans {

// As HostServices::lend and settle; a thread's loans nest.
void lend(const std::shared_ptr<CallMemory>& memory);
bool settle(const std::shared_ptr<CallMemory>& memory) noexcept;

// From the innermost loan of this thread; null where nothing was lent, or nothing fits.
void* take(size_t bytes);
// False: of no loan.
bool give(const void* p) noexcept;
// Those under way, and those of which something has not come back.
size_t count();

// While it lives, this thread takes nothing: for what outlives the call.
class OwnMemory {
 public:
  OwnMemory();
  ~OwnMemory();
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

 private:
  CallMemory* lent_;
};

}  // namespace poot::runtime::loans
