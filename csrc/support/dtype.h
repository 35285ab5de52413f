// Element types. `bool` is stored as one byte, 0 or 1. Complex types pass through opaque calls
// only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace poot {

enum class DType : uint8_t { Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64, C64, C128 };

constexpr int64_t byte_size(DType d) {
  constexpr int64_t table[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return table[static_cast<int>(d)];
}
constexpr bool is_float(DType d) {
  return d >= DType::F16 && d <= DType::F64;
}
constexpr bool is_complex(DType d) {
  return d >= DType::C64;
}
constexpr bool is_int(DType d) {
  return d >= DType::U8 && d <= DType::I64;
}  // not bool
constexpr bool is_signed(DType d) {
  return d != DType::Bool && d != DType::U8;
}
// The type that ATen computes in before it rounds: f32 for f16 and bf16, else the type itself.
constexpr DType opmath(DType d) {
  return d == DType::F16 || d == DType::BF16 ? DType::F32 : d;
}
std::string_view name(DType d);                            // "f32"
std::optional<DType> dtype_from_name(std::string_view s);  // inverse

}  // namespace poot
