// Reads the variables of env.def; an empty variable counts as unset.
#include "support/env.h"

#include <charconv>
#include <cstdlib>

#include "support/errors.h"

namespace poot::env {
namespace {

struct Row {
  const char *name, *fallback;
};
constexpr Row kRows[] = {
#define ENV(name, fallback, ...) {#name, fallback},
#include "support/env.def"
#undef ENV
};

}  // namespace

std::string get(Var v) {
  const Row& row = kRows[static_cast<size_t>(v)];
  const char* value = std::getenv(row.name);
  return value && *value ? value : row.fallback;
}

bool flag(Var v) {
  const std::string value = get(v);
  return value == "1" || value == "true" || value == "yes";
}

int64_t integer(Var v) {
  const std::string value = get(v);
  int64_t n = 0;
  auto [end, ec] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (ec != std::errc() || end != value.data() + value.size())
    throw InvalidGraph("env-C1", kRows[static_cast<size_t>(v)].name,
                       "'" + value + "' is not a whole number");
  return n;
}

}  // namespace poot::env
