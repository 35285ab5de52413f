// The rows of library_dispatched.def, looked up by name. An operator outside PyTorch's own spaces
// comes with its kernel and with nothing that could be generated from.
#include "program/dispatched.h"

#include <algorithm>

namespace poot::program {
namespace {

struct Row {
  std::string_view name, reason;
};
constexpr Row kRows[] = {
#define DISPATCHED(name, reason) {"aten." #name, reason},
#define HIGHER_ORDER(name, reason) {"higher_order." #name, reason},
#include "program/library_dispatched.def"
#undef HIGHER_ORDER
#undef DISPATCHED
};
constexpr std::string_view kSpaces[] = {"aten", "prims", "prim", "higher_order", "rngprims"};
constexpr std::string_view kCustom = "a custom operator: its own kernel is the only one there is";

}  // namespace

std::string_view dispatched_reason(std::string_view target) {
  const size_t space = target.find('.');
  if (space == std::string_view::npos) return {};
  const std::string_view name = target.substr(0, target.find('.', space + 1));  // no overload
  for (const Row& row : kRows)
    if (row.name == name) return row.reason;
  const bool custom = std::ranges::find(kSpaces, target.substr(0, space)) == std::end(kSpaces);
  return custom ? kCustom : std::string_view();
}

}  // namespace poot::program
