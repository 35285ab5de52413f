// A region body as one expression per output element: loads at affine indices, literals, index
// values and pointwise ops over them, and reductions. Views, broadcasts and movement are gone; only
// their index maps remain. Independent of how iteration variables are spread over tiles.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/generate/affine.h"
#include "ir/graph.h"
#include "ir/reduce_order.h"

namespace poot::codegen {

// lo <= index < hi
struct GuardTerm {
  Affine index;
  Dim lo, hi;
};
using Guard = std::vector<GuardTerm>;  // conjunction

enum class NodeKind : uint8_t {
  Load,       // element `index` of body input `input` where `guard` holds, else `literal` or 0
  Index,      // `index` as an integer of `dtype`
  Literal,    // `literal`
  Pointwise,  // `op` of `args`, rounded to `dtype`
  Guard,      // `guard` as a bool
  Reduce,     // `op` (a reduction) of args[0] over all variables of role Reduced
  Dot,  // sum of args[0] * args[1] over all variables of role Reduced, in opmath; from args[2],
        // if there is one
};
struct Node {
  NodeKind kind = NodeKind::Literal;
  DType dtype = DType::F32;
  ir::OpCode op = ir::OpCode::add;
  std::vector<NodeId> args;
  uint32_t input = 0;
  Affine index;
  Guard guard;
  std::optional<ir::Scalar> literal;
  ir::ReduceOrder order = ir::ReduceOrder::any;  // Reduce
};

class Expressions {
 public:
  NodeId add(Node node);  // interned: equal nodes are one
  NodeId literal(ir::Scalar s);
  NodeId pointwise(ir::OpCode op, DType dtype, std::vector<NodeId> args);
  NodeId cast(NodeId a, DType to);  // a itself if it has the dtype
  size_t size() const { return nodes_.size(); }
  const Node& at(NodeId n) const { return nodes_.at(n.index); }
  Node& at(NodeId n) { return nodes_.at(n.index); }

 private:
  std::vector<Node> nodes_;
  std::map<std::string, NodeId> interned_;
};

std::string key(const Guard& guard);

}  // namespace poot::codegen
