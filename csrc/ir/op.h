// Facts about ops, read from ops.def.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace poot::ir {

enum class OpCode : uint16_t {
#define OP(name, ...) name,
#include "ir/ops.def"
#undef OP
};
inline constexpr int kOpCount = 0
#define OP(...) +1
#include "ir/ops.def"
#undef OP
    ;

enum class OpKind : uint8_t {
  Unary,
  Binary,
  Compare,
  Ternary,
  Cast,
  Source,
  View,
  Movement,
  Update,
  Reduce,
  Scan,
  Contraction,
  Structured,
  Opaque,
  Region
};
enum class Rounding : uint8_t { Exact, Opmath, Accumulate, Library, Body };
enum class Effects : uint8_t { Pure, Update, Ordered };
enum class AttrType : uint8_t { Int, Float, Bool, DType, Str, Ints, Floats, Dim, Dims };

std::string_view name(AttrType t);  // "ints"

struct AttrInfo {
  std::string_view name;
  AttrType type;
  bool optional;
};

struct OpInfo {
  OpCode code;
  std::string_view name;
  OpKind kind;
  int inputs;  // see ops.def
  std::span<const AttrInfo> attrs;
  Rounding rounding;
  Effects effects;
  std::string_view constraints;  // comma separated
  std::string_view doc;
  int min_inputs() const { return inputs >= 0 ? inputs : -inputs - 1; }
  bool accepts(int n) const { return inputs >= 0 ? n == inputs : n >= min_inputs(); }
  size_t attr_index(std::string_view name) const;  // throws InternalError if there is none
};

const OpInfo& op_info(OpCode op);
std::optional<OpCode> op_from_name(std::string_view name);

constexpr bool is_pointwise(OpKind k) {
  return k <= OpKind::Cast;
}
constexpr bool is_view(OpKind k) {
  return k == OpKind::View;
}

}  // namespace poot::ir
