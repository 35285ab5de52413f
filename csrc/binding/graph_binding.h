// Exposes Dim, the graph builder, graphs and signatures to Python.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace poot::binding {

void bind_graph(pybind11::module_& m);

}  // namespace poot::binding
