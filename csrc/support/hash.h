// 128-bit content hash (for artifact keys and deduplication) and FNV mixing (for hash tables).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace poot {

struct Hash128 {
  uint64_t lo = 0, hi = 0;
  friend bool operator==(const Hash128& a, const Hash128& b) {
    return a.lo == b.lo && a.hi == b.hi;
  }
  friend bool operator<(const Hash128& a, const Hash128& b) {
    return a.hi != b.hi ? a.hi < b.hi : a.lo < b.lo;
  }
  std::string hex() const;  // 32 digits
};

// Stable across processes, builds and platforms.
Hash128 content_hash(std::string_view bytes);

inline size_t hash_mix(size_t seed, size_t value) {
  return (seed ^ (value + 0x9E3779B97F4A7C15ull + (seed << 6) + (seed >> 2)));
}

}  // namespace poot

template <>
struct std::hash<poot::Hash128> {
  size_t operator()(const poot::Hash128& h) const noexcept { return h.lo; }
};
