// The rows of library.def as a table indexed by LibraryOp.
#include "program/library.h"

#include "support/errors.h"

namespace poot::program {

namespace {
constexpr LibraryInfo kLibrary[] = {
#define LIB(name, out_variant, ints, floats, reason) {#name, out_variant, ints, floats, reason},
#include "program/library.def"
#undef LIB
};
}  // namespace

const LibraryInfo& library_info(LibraryOp op) {
  const auto i = static_cast<size_t>(op);
  if (i >= std::size(kLibrary)) throw InternalError("no such library op: " + std::to_string(i));
  return kLibrary[i];
}

}  // namespace poot::program
