// Names and table rows of KIR: everything that is read from kir.def or from an enumeration.
#include "codegen/kir/kir.h"

#include <array>

namespace poot::kir {
namespace {

constexpr std::array<std::string_view, 9> kElemNames = {"i1",  "i8",   "i16", "i32", "i64",
                                                        "f16", "bf16", "f32", "f64"};
constexpr std::array<std::string_view, 22> kPredNames = {
    "eq",  "ne",  "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge", "oeq",
    "one", "olt", "ole", "ogt", "oge", "ord", "uno", "une", "ueq", "ult", "ule"};

constexpr std::string_view text_name(std::string_view s) {
  return s.ends_with('_') ? s.substr(0, s.size() - 1) : s;
}

constexpr OpInfo kOps[] = {
#define KIR(name, operands, result, attrs, targets, semantics) \
  {Op::name, text_name(#name), operands, #result, attrs, targets},
#include "codegen/kir/kir.def"
#undef KIR
};

bool names(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace

int64_t bit_width(Elem e) {
  constexpr int64_t kWidths[] = {1, 8, 16, 32, 64, 16, 16, 32, 64};
  return kWidths[static_cast<int>(e)];
}

std::string_view name(Elem e) {
  return kElemNames[static_cast<size_t>(e)];
}

std::optional<Elem> elem_from_name(std::string_view s) {
  for (size_t i = 0; i < kElemNames.size(); ++i)
    if (kElemNames[i] == s) return static_cast<Elem>(i);
  return std::nullopt;
}

std::string Type::str() const {
  std::string s(name(elem));
  return lanes == 1 ? s : s + "x" + std::to_string(lanes);
}

bool OpInfo::has(std::string_view attr) const {
  return names(attrs, attr);
}

bool OpInfo::supports(Isa isa) const {
  return targets == "all" || names(targets, isa == Isa::X86 ? "x86" : "ptx");
}

const OpInfo& op_info(Op op) {
  return kOps[static_cast<size_t>(op)];
}

std::optional<Op> op_from_name(std::string_view s) {
  for (const OpInfo& info : kOps)
    if (info.name == s) return info.op;
  return std::nullopt;
}

std::string_view name(Pred p) {
  if (p == Pred::fugt) return "ugt";
  if (p == Pred::fuge) return "uge";
  return kPredNames[static_cast<size_t>(p)];
}

std::optional<Pred> pred_from_name(std::string_view s, bool of_float) {
  const int first = of_float ? static_cast<int>(Pred::oeq) : 0;
  const int last = static_cast<int>(of_float ? Pred::fuge : Pred::uge);
  for (int i = first; i <= last; ++i)
    if (name(static_cast<Pred>(i)) == s) return static_cast<Pred>(i);
  return std::nullopt;
}

}  // namespace poot::kir
