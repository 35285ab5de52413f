// The environment table (env.def): the only place that reads environment variables.
#pragma once

#include <cstdint>
#include <string>

namespace poot::env {

enum class Var {
#define ENV(name, ...) name,
#include "support/env.def"
#undef ENV
};

std::string get(Var v);  // the variable or its default
bool flag(Var v);        // "1", "true", "yes"
int64_t integer(Var v);  // throws InvalidGraph env-C1 naming the variable if it is not a number

}  // namespace poot::env
