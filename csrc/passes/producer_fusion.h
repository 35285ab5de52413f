// How a region takes in what it reads: the part that fuse_pointwise and fuse_reduce share. Both
// sweep from the last equation to the first, so all readers of a value are placed before it is.
#pragma once

#include <string>

#include "passes/evaluation_maps.h"
#include "passes/partition.h"

namespace poot::passes {

class ProducerFusion {
 public:
  ProducerFusion(ir::Graph& graph, PassContext& context, std::string_view pass)
      : graph(graph), context(context), partition(graph), table(partition), pass_(pass) {}

  // Pointwise, source, view or movement, of types that kernels compute with.
  bool fusible(uint32_t e) const;
  const ir::TensorType& type(uint32_t e) const { return graph.type(partition.eqn(e).outs[0]); }

  RegionIndex open(uint32_t e, const Shape& space);
  // Empty if e joined r (as a result too, if it leaves), else the reason why not.
  std::string join(RegionIndex r, uint32_t e, bool leaves);
  // Evaluates e in r too, which reads it.
  void copy(RegionIndex r, uint32_t e);
  // Evaluates a view or literal in every reader; true if no other reader is left.
  bool copy_to_readers(uint32_t e);
  // Evaluates e in each reader instead of storing it, if that moves no more bytes and costs less.
  bool copy_to_all(uint32_t e);
  bool merge(RegionIndex a, RegionIndex b);
  void decline(uint32_t e, std::string reason);

  ir::Graph& graph;
  PassContext& context;
  Partition partition;
  EvaluationTable table;

 private:
  bool read_at_random(RegionIndex r, uint32_t e) const;
  double bytes(const ir::Operand& o) const;
  std::string pass_;
};

}  // namespace poot::passes
