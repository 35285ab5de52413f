// Lends memory to library calls: an allocator in front of torch's own for the CPU, which serves
// what a thread allocates between lend_to_libraries() and settle_with_libraries() from what was
// lent, where it fits, and hands everything else on.
#pragma once

#include <memory>

#include "runtime/call_memory.h"

namespace poot::binding {

// Before anything is lent; once a process takes effect.
void install_library_memory();
// As HostServices::lend and settle, which a call nests by thread.
void lend_to_libraries(const std::shared_ptr<runtime::CallMemory>& memory);
bool settle_with_libraries(const std::shared_ptr<runtime::CallMemory>& memory) noexcept;

// While it lives, this thread allocates nothing from what was lent: for what outlives the call.
class OwnMemory {
 public:
  OwnMemory();
  ~OwnMemory();
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

 private:
  runtime::CallMemory* lent_;
};

}  // namespace poot::binding
