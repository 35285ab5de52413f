// Typed literals. A float is kept as the double that its dtype's bits stand for, so rounding
// happens once, here; text is the shortest decimal that reads back to the same bits.
#include <bit>
#include <charconv>
#include <cmath>

#include "ir/scalar_eval.h"

namespace poot::ir {
namespace {

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

Scalar from_bits(DType d, Bits b) {
  if (is_float(d)) return {d, to_double(b, d)};
  return {d, to_int(b, d)};
}

}  // namespace

Scalar Scalar::of(DType dtype, double v) {
  return from_bits(dtype, from_double(v, dtype));
}

Scalar Scalar::of(DType dtype, int64_t v) {
  return from_bits(dtype, from_int(v, dtype));
}

double Scalar::as_double() const {
  if (const double* d = std::get_if<double>(&number)) return *d;
  return static_cast<double>(std::get<int64_t>(number));
}

int64_t Scalar::as_int() const {
  if (const int64_t* i = std::get_if<int64_t>(&number)) return *i;
  return to_int(from_double(std::get<double>(number), DType::F64), DType::F64);
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
    if (!v || to_int(from_int(*v, dtype), dtype) != *v) return std::nullopt;
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
