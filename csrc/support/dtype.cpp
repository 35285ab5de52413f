// Names of the element types, as the text forms and messages spell them.
#include "support/dtype.h"

namespace poot {
namespace {

constexpr std::string_view kNames[] = {"bool", "u8",   "i8",  "i16", "i32", "i64",
                                       "f16",  "bf16", "f32", "f64", "c64", "c128"};

}  // namespace

std::string_view name(DType d) {
  return kNames[static_cast<size_t>(d)];
}

std::optional<DType> dtype_from_name(std::string_view s) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == s) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace poot
