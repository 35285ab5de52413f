// Writable access to a graph's tables, for the parser and the edit only. Whoever uses it verifies
// the graph before handing it on.
#pragma once

#include "ir/graph.h"

namespace poot::ir {

struct GraphTables {
  static std::string& name(Graph& g) { return g.name_; }
  static SymbolTable& symbols(Graph& g) { return g.symbols_; }
  static std::vector<ValueMeta>& values(Graph& g) { return g.values_; }
  static std::vector<int32_t>& defs(Graph& g) { return g.defs_; }
  static std::vector<ValueId>& inputs(Graph& g) { return g.inputs_; }
  static std::vector<Eqn>& eqns(Graph& g) { return g.eqns_; }
  static std::vector<GraphOutput>& outputs(Graph& g) { return g.outputs_; }
  static std::vector<Origin>& origins(Graph& g) { return g.origins_; }
  static std::vector<Group>& groups(Graph& g) { return g.groups_; }
};

}  // namespace poot::ir
