// Typed indices into flat arrays. A bare integer does not convert to one.
#pragma once

#include <cstdint>
#include <functional>

namespace poot {

template <class Tag>
struct Id {
  static constexpr uint32_t kNone = ~uint32_t{0};
  uint32_t index = kNone;

  constexpr Id() = default;
  constexpr explicit Id(uint32_t i) : index(i) {}
  constexpr explicit operator bool() const { return index != kNone; }
  friend constexpr bool operator==(Id a, Id b) { return a.index == b.index; }
  friend constexpr bool operator!=(Id a, Id b) { return a.index != b.index; }
  friend constexpr bool operator<(Id a, Id b) { return a.index < b.index; }
};

}  // namespace poot

template <class Tag>
struct std::hash<poot::Id<Tag>> {
  size_t operator()(poot::Id<Tag> id) const noexcept { return id.index * 0x9E3779B97F4A7C15ull; }
};
