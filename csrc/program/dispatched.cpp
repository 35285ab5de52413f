// The rows of library_dispatched.def, looked up by name.
#include "program/dispatched.h"

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

}  // namespace

std::string_view dispatched_reason(std::string_view target) {
  const size_t space = target.find('.');
  if (space == std::string_view::npos) return {};
  const std::string_view name = target.substr(0, target.find('.', space + 1));  // no overload
  for (const Row& row : kRows)
    if (row.name == name) return row.reason;
  return {};
}

}  // namespace poot::program
