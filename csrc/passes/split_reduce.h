// Reductions with too few results to keep several threads busy, as two kernels: see
// split_reduce.cpp.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "codegen/target.h"
#include "ir/graph.h"

namespace poot::passes {

struct SplitReduction {
  Dim parts;
  // Inputs as the body's. One result a reduction, in its accumulating dtype, which a request with
  // these `parts` computes for every part.
  std::shared_ptr<const ir::Graph> partial;
  // Inputs: the partial results, parts outermost, then what `operands` names among the body's
  // inputs. Results as the body's.
  std::shared_ptr<const ir::Graph> total;
  std::vector<uint32_t> operands;
};

// nullopt where one kernel has enough blocks, or too little to do, or a reduction needs another.
// Depends on the body and on the kind of target alone, so that sums do not change with threads or
// machine.
std::optional<SplitReduction> split_reduction(const ir::Graph& body, const Target& target);

}  // namespace poot::passes
