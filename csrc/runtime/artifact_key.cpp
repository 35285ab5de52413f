// Every field is written with its size or at a fixed width, so that no two lists of fields give the
// same bytes.
#include "runtime/artifact_key.h"

#include "program/kernel_abi.h"
#include "support/bytes.h"

namespace poot::runtime {

Hash128 artifact_key(std::string_view kir, const Target& target, int opt_level,
                     std::string_view build_id) {
  ByteWriter w;
  w.put_string(build_id);
  w.put(program::kKernelAbiVersion);
  w.put(static_cast<uint8_t>(target.isa));
  w.put_string(target.cpu);
  w.put_string(target.features);
  w.put(target.vector_bytes);
  w.put(opt_level);
  w.put_string(kir);
  return content_hash(w.bytes());
}

}  // namespace poot::runtime
