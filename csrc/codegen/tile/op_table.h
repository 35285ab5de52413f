// Facts about tile ops, read from tile.def.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "codegen/tile/tile.h"

namespace poot::tile {

enum class ResultKind : uint8_t { scalar, tile, none, carried, scanned };

struct OpFacts {
  std::string_view name;
  int operands;
  ResultKind result;
  std::string_view attrs;
};

inline constexpr OpFacts kOps[] = {
#define TILE(name, operands, result, attrs, doc) {#name, operands, ResultKind::result, attrs},
#include "codegen/tile/tile.def"
#undef TILE
};

inline const OpFacts& facts(Op op) {
  return kOps[static_cast<size_t>(op)];
}
inline std::optional<Op> op_from_name(std::string_view name) {
  for (size_t i = 0; i < std::size(kOps); i++)
    if (kOps[i].name == name) return static_cast<Op>(i);
  return std::nullopt;
}
// Whether `attr` is among the op's attributes ("mask" also finds "mask?").
inline bool has_attr(Op op, std::string_view attr) {
  std::string_view rest = facts(op).attrs;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    std::string_view item = rest.substr(0, comma);
    if (item.ends_with('?')) item.remove_suffix(1);
    if (item == attr) return true;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace poot::tile
