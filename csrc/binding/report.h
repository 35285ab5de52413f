// The compile report as Python dicts and lists; report_schema.json describes the result.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include "compiler/compile.h"

namespace poot::binding {

pybind11::dict report_dict(const compiler::Compiled& compiled);
// Of a graph that was not compiled: the same keys, everything empty.
pybind11::dict empty_report();

}  // namespace poot::binding
