// An allocator in front of torch's own for the CPU, which serves what a thread allocates while
// memory is lent to it (runtime/library_loans.h) from there, where it fits, and hands everything
// else on.
#pragma once

namespace poot::binding {

// Before anything is lent; once a process takes effect.
void install_library_memory();

}  // namespace poot::binding
