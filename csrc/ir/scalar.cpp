// Typed literals. A float is kept as the double that its dtype's bits stand for, so rounding
// happens once, here; text is the shortest decimal that reads back to the same bits.
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "ir/graph.h"

namespace poot::ir {
namespace {

// Nearest value with `digits` significant bits and exponents down to `min_exponent` (of the unit
// in the last place of a subnormal), ties to even, infinity past `largest`.
double round_to(double v, int digits, int min_exponent, double largest) {
  if (!std::isfinite(v) || v == 0) return v;
  const int unit = std::max(std::ilogb(v) - digits + 1, min_exponent);
  const double r = std::ldexp(std::nearbyint(std::ldexp(v, -unit)), unit);
  return std::abs(r) > largest ? std::copysign(std::numeric_limits<double>::infinity(), v) : r;
}

double round_float(DType d, double v) {
  switch (d) {
    case DType::F16:
      return round_to(v, 11, -24, 65504.0);
    case DType::BF16:
      return round_to(v, 8, -133, 0x1.FEp127);
    case DType::F32:
      return static_cast<float>(v);
    default:
      return v;
  }
}

int64_t wrap(DType d, int64_t v) {
  switch (d) {
    case DType::Bool:
      return v != 0;
    case DType::U8:
      return static_cast<uint8_t>(v);
    case DType::I8:
      return static_cast<int8_t>(v);
    case DType::I16:
      return static_cast<int16_t>(v);
    case DType::I32:
      return static_cast<int32_t>(v);
    default:
      return v;
  }
}

int64_t truncate(double v) {
  if (std::isnan(v)) return 0;
  if (v >= 0x1p63) return INT64_MAX;
  if (v <= -0x1p63) return INT64_MIN;
  return static_cast<int64_t>(v);
}

template <class T>
std::string shortest(T v) {
  char buffer[40];
  auto [end, ec] = std::to_chars(buffer, buffer + sizeof buffer, v);
  return {buffer, end};
}

template <class T>
std::optional<T> read(std::string_view s) {
  T v{};
  auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (ec != std::errc() || end != s.data() + s.size()) return std::nullopt;
  return v;
}

}  // namespace

Scalar Scalar::of(DType dtype, double v) {
  if (is_float(dtype)) return {dtype, round_float(dtype, v)};
  if (dtype == DType::Bool) return {dtype, static_cast<int64_t>(v != 0)};
  return {dtype, wrap(dtype, truncate(v))};
}

Scalar Scalar::of(DType dtype, int64_t v) {
  if (dtype == DType::F32) return {dtype, static_cast<double>(static_cast<float>(v))};
  if (is_float(dtype)) return {dtype, round_float(dtype, static_cast<double>(v))};
  return {dtype, wrap(dtype, v)};
}

double Scalar::as_double() const {
  if (const double* d = std::get_if<double>(&number)) return *d;
  return static_cast<double>(std::get<int64_t>(number));
}

int64_t Scalar::as_int() const {
  if (const int64_t* i = std::get_if<int64_t>(&number)) return *i;
  return truncate(std::get<double>(number));
}

bool operator==(const Scalar& a, const Scalar& b) {
  if (a.dtype != b.dtype || a.number.index() != b.number.index()) return false;
  const double* x = std::get_if<double>(&a.number);
  if (!x) return std::get<int64_t>(a.number) == std::get<int64_t>(b.number);
  const double y = std::get<double>(b.number);
  if (std::isnan(*x) || std::isnan(y)) return std::isnan(*x) && std::isnan(y);
  return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(y);
}

std::string Scalar::str() const {
  std::string s(name(dtype));
  s += ' ';
  const double* v = std::get_if<double>(&number);
  if (!v) return s + std::to_string(std::get<int64_t>(number));
  if (std::isnan(*v)) return s + "nan";
  return s + (dtype == DType::F64 ? shortest(*v) : shortest(static_cast<float>(*v)));
}

std::optional<Scalar> Scalar::parse(DType dtype, std::string_view number) {
  if (is_complex(dtype)) return std::nullopt;
  if (!is_float(dtype)) {
    auto v = read<int64_t>(number);
    if (!v || wrap(dtype, *v) != *v) return std::nullopt;
    return Scalar{dtype, *v};
  }
  if (dtype == DType::F64) {
    auto v = read<double>(number);
    return v ? std::optional(Scalar{dtype, *v}) : std::nullopt;
  }
  auto v = read<float>(number);
  return v ? std::optional(Scalar::of(dtype, static_cast<double>(*v))) : std::nullopt;
}

}  // namespace poot::ir
