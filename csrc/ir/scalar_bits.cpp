// Conversions between bits of a dtype, double and int64: the one place that knows how each dtype is
// stored. A narrow float is made from f32 (as c10::Half and c10::BFloat16 are), so f64 -> bf16
// rounds to f32 first, as ATen does.
#include <bit>
#include <cmath>
#include <limits>

#include "ir/scalar_eval.h"

namespace poot::ir {
namespace {

// Nearest even on the 13 bits that f16 lacks; subnormals by letting the FPU align the significand.
uint16_t half_from_float(float f) {
  const uint32_t x = std::bit_cast<uint32_t>(f);
  const auto sign = static_cast<uint16_t>((x >> 16) & 0x8000u);
  const uint32_t a = x & 0x7FFFFFFFu;
  if (a > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u);
  if (a >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7C00u);  // 2^16 and more
  if (a < 0x38800000u) {                                               // below 2^-14
    const float shifted = std::bit_cast<float>(a) + 0.5f;  // ulp of 0.5 is f16's subnormal step
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000u));
  }
  const uint32_t rounded = a + 0xFFFu + ((a >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

float float_from_half(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1Fu, fraction = h & 0x3FFu;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | (fraction << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

uint16_t bfloat_from_float(float f) {
  const uint32_t x = std::bit_cast<uint32_t>(f);
  if (std::isnan(f)) return 0x7FC0;
  return static_cast<uint16_t>((x + 0x7FFFu + ((x >> 16) & 1u)) >> 16);
}

int64_t saturate(double v) {
  if (std::isnan(v)) return 0;
  if (v >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (v <= -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(v);
}

[[noreturn]] void refuse(DType d) {
  throw InternalError("no scalar arithmetic for " + std::string(name(d)));
}

}  // namespace

double to_double(Bits b, DType d) {
  switch (d) {
    case DType::F16:
      return float_from_half(static_cast<uint16_t>(b));
    case DType::BF16:
      return std::bit_cast<float>(static_cast<uint32_t>(b & 0xFFFFu) << 16);
    case DType::F32:
      return std::bit_cast<float>(static_cast<uint32_t>(b));
    case DType::F64:
      return std::bit_cast<double>(b);
    default:
      return static_cast<double>(to_int(b, d));
  }
}

int64_t to_int(Bits b, DType d) {
  switch (d) {
    case DType::Bool:
      return (b & 0xFFu) != 0;
    case DType::U8:
      return static_cast<uint8_t>(b);
    case DType::I8:
      return static_cast<int8_t>(b);
    case DType::I16:
      return static_cast<int16_t>(b);
    case DType::I32:
      return static_cast<int32_t>(b);
    case DType::I64:
      return static_cast<int64_t>(b);
    case DType::C64:
    case DType::C128:
      refuse(d);
    default:
      return saturate(to_double(b, d));
  }
}

Bits from_double(double v, DType d) {
  switch (d) {
    case DType::F16:
      return half_from_float(static_cast<float>(v));
    case DType::BF16:
      return bfloat_from_float(static_cast<float>(v));
    case DType::F32:
      return std::bit_cast<uint32_t>(static_cast<float>(v));
    case DType::F64:
      return std::bit_cast<uint64_t>(v);
    case DType::Bool:
      return v != 0;
    default:
      return from_int(saturate(v), d);
  }
}

Bits from_int(int64_t v, DType d) {
  switch (d) {
    case DType::Bool:
      return v != 0;
    case DType::U8:
    case DType::I8:
      return static_cast<uint8_t>(v);
    case DType::I16:
      return static_cast<uint16_t>(v);
    case DType::I32:
      return static_cast<uint32_t>(v);
    case DType::I64:
      return static_cast<uint64_t>(v);
    case DType::F64:
      return std::bit_cast<uint64_t>(static_cast<double>(v));
    case DType::C64:
    case DType::C128:
      refuse(d);
    default: {
      // One rounding to f32, not two by way of f64.
      const float f = static_cast<float>(v);
      return from_double(f, d);
    }
  }
}

Bits bits_of(const Scalar& s) {
  if (is_float(s.dtype)) return from_double(s.as_double(), s.dtype);
  return from_int(s.as_int(), s.dtype);
}

}  // namespace poot::ir
