// The verifier's findings with their places, and the list of its rules.
#pragma once

#include <string_view>

#include "ir/graph.h"

namespace poot::ir {

struct Located {
  enum class Part : uint8_t { Graph, Symbol, Input, Eqn, Output, Group } part = Part::Graph;
  uint32_t index = 0;  // of the symbol, input, …
  Violation violation;
};
std::vector<Located> verify_located(const Graph& graph, Stage stage);

// Rules that hold for all ops, of graphs, edits and their text; the ops' own are in ops.def.
struct Rule {
  std::string_view id, meaning;
};
std::span<const Rule> graph_rules();

}  // namespace poot::ir
