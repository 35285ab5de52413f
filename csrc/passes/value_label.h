// How reports name the value that an equation defines: "%12 (gelu_3)", by number and FX node.
#pragma once

#include <string>

#include "ir/graph.h"

namespace poot::passes {

inline std::string value_label(const ir::Graph& graph, const ir::Eqn& eqn) {
  std::string label = "%" + std::to_string(eqn.outs.empty() ? 0 : eqn.outs[0].index);
  if (!eqn.origins.empty()) label += " (" + graph.origins()[eqn.origins[0]].node + ")";
  return label;
}

}  // namespace poot::passes
