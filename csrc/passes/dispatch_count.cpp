#include "passes/pass.h"

namespace poot::passes {

uint32_t dispatch_count(const ir::Graph& graph) {
  uint32_t count = 0;
  for (const ir::Eqn& e : graph.eqns())
    if (!ir::is_view(e.info().kind)) ++count;
  return count;
}

}  // namespace poot::passes
