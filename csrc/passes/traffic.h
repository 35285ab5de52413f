// How many bytes a kernel must move: what a profile compares its time with.
#pragma once

#include "passes/request.h"

namespace poot::passes {

// Bytes that the request's kernel must read and write, each once: whole inputs, but for those of
// which only slices or looked-up rows are read, and its outputs.
Dim traffic(const KernelRequest& request);

}  // namespace poot::passes
