// torch's own OpenMP team, entered through function pointers. A second team that spins on the same
// cores costs up to 22 times; so the libgomp that torch has loaded is the one that is used.
#pragma once

#include <cstdint>

#include "runtime/host_services.h"

namespace poot::binding {

// Splits [0, n) into one contiguous range a thread and runs them on the team; on the calling thread
// where no libgomp is loaded, the team has one thread, or the caller is inside a parallel region.
void run_on_team(uint32_t n, runtime::RangeFn fn, void* ctx);

}  // namespace poot::binding
