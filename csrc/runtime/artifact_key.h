// The name of a compiled kernel in the caches. Pinned interface: golden file
// tests/program/artifact_key.golden. Whatever can change the machine code enters the key; facts
// that only schedules read do not, since they show in the KIR text.
#pragma once

#include <string_view>

#include "codegen/target.h"
#include "support/hash.h"

namespace poot::runtime {

// `build_id` is the worker's, which stands for the code generator and its version.
Hash128 artifact_key(std::string_view kir, const Target& target, int opt_level,
                     std::string_view build_id);

}  // namespace poot::runtime
