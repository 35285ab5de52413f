// Type inference: one function a row of ops.def, in files by family (infer_pointwise, infer_shape,
// infer_reduce, infer_structured, infer_region). Each checks its op's constraints, in their order,
// and throws InvalidGraph with the id of the first that fails.
//
// Operand and attribute counts and attribute types are checked before the function is called
// (eqn-C1, eqn-C2). A symbolic size is refused only where the violation is certain.
#pragma once

#include <optional>
#include <string>

#include "ir/graph.h"

namespace poot::ir {

using TypeList = std::vector<TensorType>;

struct InferCall {
  OpCode op;
  const OpInfo& info;
  std::span<const TensorType> in;
  std::span<const Attr> attrs;
  const Graph* body;
  const std::string& where;

  [[noreturn]] void fail(std::string_view constraint, const std::string& detail) const;
  template <class T>
  const T& attr(std::string_view name) const {
    return std::get<T>(attrs[info.attr_index(name)]);
  }
  bool flag(std::string_view name) const {  // an optional bool; false where absent
    const bool* set = std::get_if<bool>(&attrs[info.attr_index(name)]);
    return set && *set;
  }
  size_t rank(size_t operand = 0) const { return in[operand].shape.size(); }
  // The attribute `axis`, checked against `rank`.
  size_t axis(size_t rank, std::string_view constraint) const;
};

// Numpy's rule, with two symbolic dims equal only as expressions; nullopt if they do not broadcast.
std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b);
bool broadcasts_to(const Shape& from, const Shape& to);
// True if `values` are distinct and in 0 .. rank-1.
bool are_axes(std::span<const int64_t> values, size_t rank);
std::string list_text(std::span<const int64_t> values);  // "[0, 1]"

#define OP(name, kind, inputs, attrs, infer, ...) TypeList infer(const InferCall& call);
#include "ir/ops.def"
#undef OP

}  // namespace poot::ir
