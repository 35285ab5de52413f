// The rows of ops.def as a table; attribute lists are parsed once, at first use.
#include "ir/op.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "support/errors.h"

namespace poot::ir {
namespace {

struct Row {
  std::string_view name;
  OpKind kind;
  int inputs;
  std::string_view attrs;
  Rounding rounding;
  Effects effects;
  std::string_view constraints, doc;
};
constexpr Row kRows[] = {
#define OP(name, kind, inputs, attrs, infer, rounding, effects, constraints, doc) \
  {#name, OpKind::kind, inputs, attrs, Rounding::rounding, Effects::effects, constraints, doc},
#include "ir/ops.def"
#undef OP
};

constexpr std::string_view kAttrTypes[] = {"int",  "float",  "bool", "dtype", "str",
                                           "ints", "floats", "dim",  "dims"};

AttrInfo parse_attr(std::string_view text) {
  AttrInfo info{};
  if (text.ends_with('?')) {
    info.optional = true;
    text.remove_suffix(1);
  }
  const size_t colon = text.find(':');
  const auto* type = colon == text.npos ? std::end(kAttrTypes)
                                        : std::find(std::begin(kAttrTypes), std::end(kAttrTypes),
                                                    text.substr(colon + 1));
  if (type == std::end(kAttrTypes))
    throw InternalError("ops.def: bad attribute '" + std::string(text) + "'");
  info.name = text.substr(0, colon);
  info.type = static_cast<AttrType>(type - std::begin(kAttrTypes));
  return info;
}

struct Table {
  std::array<std::vector<AttrInfo>, kOpCount> attrs;
  std::array<OpInfo, kOpCount> ops;
  std::array<OpCode, kOpCount> by_name;

  Table() {
    for (int i = 0; i < kOpCount; ++i) {
      const Row& row = kRows[i];
      for (std::string_view rest = row.attrs; !rest.empty();) {
        const size_t space = std::min(rest.find(' '), rest.size());
        if (space > 0) attrs[i].push_back(parse_attr(rest.substr(0, space)));
        rest.remove_prefix(std::min(space + 1, rest.size()));
      }
      ops[i] = {static_cast<OpCode>(i), row.name,    row.kind,        row.inputs, attrs[i],
                row.rounding,           row.effects, row.constraints, row.doc};
      by_name[i] = static_cast<OpCode>(i);
    }
    std::sort(by_name.begin(), by_name.end(), [this](OpCode a, OpCode b) {
      return ops[static_cast<int>(a)].name < ops[static_cast<int>(b)].name;
    });
  }
};

const Table& table() {
  static const Table t;
  return t;
}

}  // namespace

std::string_view name(AttrType t) {
  return kAttrTypes[static_cast<size_t>(t)];
}

size_t OpInfo::attr_index(std::string_view attr) const {
  for (size_t i = 0; i < attrs.size(); ++i)
    if (attrs[i].name == attr) return i;
  throw InternalError("op " + std::string(name) + " has no attribute " + std::string(attr));
}

const OpInfo& op_info(OpCode op) {
  return table().ops.at(static_cast<size_t>(op));
}

std::optional<OpCode> op_from_name(std::string_view name) {
  const Table& t = table();
  auto it = std::lower_bound(
      t.by_name.begin(), t.by_name.end(), name,
      [&t](OpCode op, std::string_view s) { return t.ops[static_cast<int>(op)].name < s; });
  if (it == t.by_name.end() || t.ops[static_cast<int>(*it)].name != name) return std::nullopt;
  return *it;
}

}  // namespace poot::ir
