// The closed list of library operations that a plan may name (library.def).
#pragma once

#include <cstdint>
#include <string_view>

namespace poot::program {

enum class LibraryOp : uint8_t {
#define LIB(name, ...) name,
#include "program/library.def"
#undef LIB
};

inline constexpr int kLibraryOpCount = 0
#define LIB(...) +1
#include "program/library.def"
#undef LIB
    ;

struct LibraryInfo {
  std::string_view name;
  bool out_variant;
  std::string_view ints, floats, reason;
};
const LibraryInfo& library_info(LibraryOp op);

}  // namespace poot::program
