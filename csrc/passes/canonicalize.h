// Shared by the rules of canonicalize: the sweep's state, and one entry a family of rules.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "passes/pass.h"

namespace poot::passes {

// What a rule did to one equation: nothing, changed it in place (same results, same types), or
// found a value that its only result equals bit for bit.
struct Rewrite {
  bool changed = false;
  std::optional<ir::ValueId> same_as;
  static Rewrite none() { return {}; }
  static Rewrite in_place() { return {true, std::nullopt}; }
  static Rewrite value(ir::ValueId v) { return {true, v}; }
};

// The forward sweep: equations already rewritten, and what each value now is.
class CanonicalSweep {
 public:
  CanonicalSweep(const ir::Graph& graph, ir::GraphEdit& edit, PassContext& context)
      : graph(graph), edit(edit), context(context) {}

  const Shape& shape(const ir::Operand& o) const;
  DType dtype(const ir::Operand& o) const;
  // The rewritten equation that defines an operand; null for literals and graph inputs. Valid until
  // the next equation is emitted.
  const ir::Eqn* def(const ir::Operand& o) const;
  // The number that an operand holds at every position, if it is a literal or a `full` of one.
  std::optional<ir::Scalar> constant(const ir::Operand& o) const;
  void emit(ir::Eqn eqn);
  // A candidate that changes rounding, the sign of zero or the order of additions.
  void decline(const ir::Eqn& eqn, std::string reason);

  const ir::Graph& graph;  // before the edit
  ir::GraphEdit& edit;
  PassContext& context;
  std::vector<ir::Eqn> done;

 private:
  std::vector<int32_t> defined_by_;  // by ValueId: index in `done` plus 1
};

Rewrite fold_constants(CanonicalSweep& sweep, ir::Eqn& eqn);       // canonicalize_constants.cpp
Rewrite simplify_operands(CanonicalSweep& sweep, ir::Eqn& eqn);    // canonicalize_constants.cpp
Rewrite simplify_arithmetic(CanonicalSweep& sweep, ir::Eqn& eqn);  // canonicalize_arithmetic.cpp
Rewrite simplify_cast(CanonicalSweep& sweep, ir::Eqn& eqn);        // canonicalize_arithmetic.cpp
Rewrite simplify_view(CanonicalSweep& sweep, ir::Eqn& eqn);        // canonicalize_views.cpp
Rewrite simplify_lookup(CanonicalSweep& sweep, ir::Eqn& eqn);      // canonicalize_lookups.cpp

}  // namespace poot::passes
