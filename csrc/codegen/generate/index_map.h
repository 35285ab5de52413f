// Walks a region body from an element of a result down to the body's inputs, turning views,
// broadcasting and movement into index expressions.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "codegen/generate/expressions.h"
#include "ir/graph.h"

namespace poot::codegen {

using Coordinates = std::vector<Affine>;  // one for each dim of a value

// Coordinates of the same element in a tensor of another shape with as many elements (row-major).
Coordinates reshape_coordinates(Space& space, const Coordinates& from, const Shape& from_shape,
                                const Shape& to_shape);
// Element index of a tensor at coordinates.
Affine element_index(const ir::Layout& layout, const Coordinates& at);

struct Check {
  NodeId condition;  // must hold at every position
  uint32_t code;
};

class IndexMap {
 public:
  // `reduced`: coordinates of the axes that the body's reductions cover, outermost first, and their
  // sizes; empty if it has none. Throws Unsupported (at `at`) for what generators cannot do.
  IndexMap(const ir::Graph& body, std::span<const ir::Layout> inputs, Space& space,
           Expressions& nodes, Coordinates reduced = {}, Shape reduced_shape = {});
  NodeId at(const ir::Operand& operand, const Coordinates& coordinates, const Guard& guard = {});
  // The element of a dim of `size` that an integer expression selects: negative values count from
  // the end if they `wrap`, values out of range are reported by a check and then clamped. May
  // extend the guard so that nothing is read from an empty dim.
  Affine indirect(NodeId index, const Dim& size, Guard& guard, bool wrap, uint32_t code);
  // The index as an i64 expression, wrapped but not clamped, with its check, which sets `code`.
  NodeId checked(NodeId index, const Dim& size, const Guard& guard, bool wrap, uint32_t code);
  const std::vector<Check>& checks() const { return checks_; }

 private:
  NodeId equation(const ir::Eqn& e, ir::ValueId v, const Coordinates& at, const Guard& guard);
  NodeId pointwise(const ir::Eqn& e, DType dtype, const Coordinates& at, const Guard& guard);
  NodeId fold_index(ir::OpCode op, DType dtype, const std::vector<NodeId>& args);
  NodeId view(const ir::Eqn& e, const Coordinates& at, const Guard& guard);
  NodeId source(const ir::Eqn& e, DType dtype, const Coordinates& at, const Guard& guard);
  NodeId concat(const ir::Eqn& e, const Coordinates& at, const Guard& guard);
  NodeId pad(const ir::Eqn& e, const Coordinates& at, const Guard& guard);
  NodeId gather(const ir::Eqn& e, const Coordinates& at, const Guard& guard);
  NodeId contraction(const ir::Eqn& e, DType dtype, const Coordinates& at, const Guard& guard);
  NodeId reduce(const ir::Eqn& e, DType dtype, const Coordinates& at, const Guard& guard);
  Coordinates broadcast_to(const Shape& shape, const Coordinates& at) const;
  NodeId size_node(const Dim& d);
  NodeId guard_node(const Guard& guard);
  // Appends index in [lo, hi) to the guard unless it provably holds.
  void restrict(Guard& guard, const Affine& index, const Dim& lo, const Dim& hi) const;

  const ir::Graph& body_;
  std::span<const ir::Layout> inputs_;
  Space& space_;
  Expressions& nodes_;
  Coordinates reduced_;
  Shape reduced_shape_;
  std::map<std::string, NodeId> memo_;
  std::vector<Check> checks_;
};

}  // namespace poot::codegen
