// Whole compiles on disk, beside their kernels: what passes, planning and generation made of one
// graph. A later process that meets the same graph runs none of them.
//
// The key holds all that decides the outcome: the graph's text with its origins, the signature, the
// target, the options and a content hash of this compiler's sources. A record holds the program and
// what the report tells of it; kernels lie in the store under their own keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/compile.h"
#include "support/hash.h"

namespace poot::compiler {

Hash128 program_key(const ir::Graph& graph, const passes::Signature& signature,
                    const Target& target, const passes::Options& options);

// Program and report as bytes; images and times stay behind.
std::string pack(const Compiled& compiled);
Compiled unpack(std::string_view bytes);  // throws InvalidGraph for a foreign record

// The compile under `key` with its kernels fetched, or nothing where the store has no good record
// or a kernel fails to compile anew.
std::optional<Compiled> find_program(const Hash128& key, const Target& target);
// Kept only if every kernel of it compiled.
void keep_program(const Hash128& key, const Compiled& compiled);

}  // namespace poot::compiler
