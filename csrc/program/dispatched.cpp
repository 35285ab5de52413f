// The rows of library_dispatched.def, looked up by name.
#include "program/dispatched.h"

namespace poot::program {
namespace {

struct Row {
  std::string_view name, reason;
};
constexpr Row kRows[] = {
#define DISPATCHED(name, reason) {#name, reason},
#include "program/library_dispatched.def"
#undef DISPATCHED
};
constexpr std::string_view kSpace = "aten.";

}  // namespace

std::string_view dispatched_reason(std::string_view target) {
  if (!target.starts_with(kSpace)) return {};
  target.remove_prefix(kSpace.size());
  const std::string_view name = target.substr(0, target.find('.'));
  for (const Row& row : kRows)
    if (row.name == name) return row.reason;
  return {};
}

}  // namespace poot::program
