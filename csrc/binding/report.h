// The compile report as Python dicts and lists; report_schema.json describes the result.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include "compiler/compile.h"

namespace poot::binding {

pybind11::dict report_dict(const compiler::Compiled& compiled);

}  // namespace poot::binding
