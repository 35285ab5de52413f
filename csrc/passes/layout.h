// Strided windows: which views of a window are again windows, and which need their data moved.
// Pure functions of shapes and strides; "equal" means provably equal for every binding of the
// symbols, so an answer of "no" costs a copy and never a wrong result.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace poot::passes {

// Strides and offset in elements; strides may be 0 (broadcast) or negative (flip).
struct Window {
  Shape shape, strides;
  Dim offset;
  static Window contiguous(const Shape& shape) { return {shape, contiguous_strides(shape), 0}; }
};

// The strides of `to` over the memory of `w`, same elements in row-major order: torch's view rule.
std::optional<Shape> reshape_strides(const Window& w, const Shape& to);
// `w` broadcast to `to` (numpy's rule).
Window expand(const Window& w, const Shape& to);
// The window that a View equation's result is, if it is one.
std::optional<Window> view_window(const ir::Eqn& eqn, const Window& operand, const Shape& result);
// Where a value lies, as far as views of an argument or of a computed (dense) value tell.
std::optional<Window> window_of(const ir::Graph& graph, ir::ValueId v);
// The slice of an update_slice or slice equation.
Window slice_window(const Window& w, int64_t axis, const Dim& start, const Dim& end, int64_t step);

// Equal strides, but for axes of size 1, whose stride addresses nothing.
bool same_strides(const Shape& shape, const Shape& a, const Shape& b);
inline bool is_contiguous(const Window& w) {
  return same_strides(w.shape, w.strides, contiguous_strides(w.shape));
}
// Whether each position of the window is its own element, as far as constant strides tell.
bool is_broadcast(const Window& w);
// Whether a stride may be negative, which the host's tensors cannot express.
bool may_be_negative(const Window& w, const SymbolTable& symbols);
// Elements from the window's first to its last, inclusive (non-negative strides).
Dim extent(const Window& w);
// Dense strides of `shape` whose axes lie in memory in the order that `like` (same rank) gives, as
// torch's empty_like: symbolic strides are ordered by their hints.
Shape dense_strides_like(const Shape& shape, const Shape& like, const SymbolTable& symbols);
// Strides of contiguous rows, each at a multiple of `unit` elements.
Shape rows_apart(const Shape& shape, int64_t unit);
// Strides of torch's channels_last and channels_last_3d; `shape` has rank 4 or 5.
Shape channels_last_strides(const Shape& shape);

}  // namespace poot::passes
