// Interning of expression nodes by a text key, so that a value that two readers reach by the same
// coordinates is computed once.
#include "codegen/generate/expressions.h"

namespace poot::codegen {

std::string key(const Guard& guard) {
  std::string s;
  for (const GuardTerm& t : guard)
    s += "[" + t.lo.str() + " <= " + t.index.key() + " < " + t.hi.str() + "]";
  return s;
}

NodeId Expressions::add(Node node) {
  std::string k = std::to_string(static_cast<int>(node.kind)) + " " +
                  std::to_string(static_cast<int>(node.dtype)) + " " +
                  std::to_string(static_cast<int>(node.op));
  for (const NodeId a : node.args) k += " n" + std::to_string(a.index);
  k += " i" + std::to_string(node.input) + " " + node.index.key() + key(node.guard);
  if (node.literal) k += node.literal->str();
  if (node.order != ir::ReduceOrder::any) k += name(node.order);
  const auto [it, fresh] =
      interned_.try_emplace(std::move(k), NodeId(static_cast<uint32_t>(nodes_.size())));
  if (fresh) nodes_.push_back(std::move(node));
  return it->second;
}

NodeId Expressions::literal(ir::Scalar s) {
  const DType dtype = s.dtype;
  return add({.kind = NodeKind::Literal, .dtype = dtype, .literal = std::move(s)});
}

NodeId Expressions::pointwise(ir::OpCode op, DType dtype, std::vector<NodeId> args) {
  return add({.kind = NodeKind::Pointwise, .dtype = dtype, .op = op, .args = std::move(args)});
}

NodeId Expressions::cast(NodeId a, DType to) {
  return at(a).dtype == to ? a : pointwise(ir::OpCode::cast, to, {a});
}

}  // namespace poot::codegen
