// Windows and views. The reshape rule is torch's computeStride made symbolic: axes that follow each
// other in memory form chunks, and each chunk must be filled exactly by consecutive new axes. Sizes
// are compared as expressions, so [s0, 8] -> [8*s0] is a view, and what cannot be proved is not.
#include "passes/layout.h"

#include <algorithm>
#include <numeric>

namespace poot::passes {

std::optional<Shape> reshape_strides(const Window& w, const Shape& to) {
  const Dim count = numel(w.shape);
  if (count.is_const(0)) return contiguous_strides(to);
  if (count != numel(to)) {  // equal in a way that the symbols do not tell: see reshape's `proven`
    if (w.strides != contiguous_strides(w.shape)) return std::nullopt;
    return contiguous_strides(to);
  }
  struct Chunk {
    Dim size, stride;  // elements; stride of its innermost axis
  };
  std::vector<Chunk> chunks;  // innermost first
  for (size_t i = w.shape.size(); i-- > 0;) {
    if (w.shape[i].is_const(1)) continue;
    if (!chunks.empty() && w.strides[i] == chunks.back().size * chunks.back().stride) {
      chunks.back().size *= w.shape[i];
    } else {
      chunks.push_back({w.shape[i], w.strides[i]});
    }
  }
  Shape strides(to.size(), Dim(1));
  size_t at = to.size();
  for (const Chunk& chunk : chunks) {
    Dim filled = 1;
    while (filled != chunk.size) {
      if (at == 0) return std::nullopt;
      --at;
      strides[at] = filled * chunk.stride;
      filled *= to[at];
    }
  }
  const Dim outer = at < to.size() ? strides[at] * to[at] : Dim(1);
  while (at-- > 0) {
    if (!to[at].is_const(1)) return std::nullopt;
    strides[at] = outer;
  }
  return strides;
}

Window expand(const Window& w, const Shape& to) {
  Window out{to, Shape(to.size(), Dim(0)), w.offset};
  const size_t missing = to.size() - w.shape.size();
  for (size_t i = 0; i < w.shape.size(); ++i) {
    if (w.shape[i] == to[missing + i]) out.strides[missing + i] = w.strides[i];
  }
  return out;
}

Window slice_window(const Window& w, int64_t axis, const Dim& start, const Dim& end, int64_t step) {
  Window out = w;
  out.offset += start * w.strides[axis];
  out.strides[axis] *= Dim(step);
  out.shape[axis] = Dim::ceildiv(end - start, step);
  return out;
}

std::optional<Window> view_window(const ir::Eqn& eqn, const Window& operand, const Shape& result) {
  switch (eqn.op) {
    case ir::OpCode::broadcast:
      return expand(operand, result);
    case ir::OpCode::reshape: {
      auto strides = reshape_strides(operand, result);
      if (!strides) return std::nullopt;
      return Window{result, std::move(*strides), operand.offset};
    }
    case ir::OpCode::transpose: {
      Window out{result, {}, operand.offset};
      for (const int64_t axis : eqn.attr<std::vector<int64_t>>("perm"))
        out.strides.push_back(operand.strides[axis]);
      return out;
    }
    case ir::OpCode::slice: {
      Window out = slice_window(operand, eqn.attr<int64_t>("axis"), eqn.attr<Dim>("start"),
                                eqn.attr<Dim>("end"), eqn.attr<int64_t>("step"));
      out.shape = result;
      return out;
    }
    case ir::OpCode::flip: {
      Window out = operand;
      for (const int64_t axis : eqn.attr<std::vector<int64_t>>("axes")) {
        out.offset += (operand.shape[axis] - Dim(1)) * operand.strides[axis];
        out.strides[axis] = Dim(-1) * operand.strides[axis];
      }
      return out;
    }
    default:
      return std::nullopt;
  }
}

std::optional<Window> window_of(const ir::Graph& graph, ir::ValueId v) {
  const Shape& shape = graph.type(v).shape;
  if (const int32_t d = graph.def(v); d >= 0) {
    const ir::Eqn& view = graph.eqns()[static_cast<uint32_t>(d)];
    if (ir::is_view(view.info().kind) && ir::is_value(view.inputs[0])) {
      const auto from = window_of(graph, std::get<ir::ValueId>(view.inputs[0]));
      return from ? view_window(view, *from, shape) : std::nullopt;
    }
  }
  Window w = Window::contiguous(shape);
  if (graph.value(v).layout) w.strides = graph.value(v).layout->strides;
  return w;
}

bool same_strides(const Shape& shape, const Shape& a, const Shape& b) {
  if (a.size() != shape.size() || b.size() != shape.size()) return false;
  if (numel(shape).is_const(0)) return true;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!shape[i].is_const(1) && a[i] != b[i]) return false;
  }
  return true;
}

bool is_broadcast(const Window& w) {
  for (size_t i = 0; i < w.shape.size(); ++i) {
    if (!w.shape[i].is_const(1) && w.strides[i].is_const(0)) return true;
  }
  return false;
}

bool may_be_negative(const Window& w, const SymbolTable& symbols) {
  return std::any_of(w.strides.begin(), w.strides.end(),
                     [&](const Dim& s) { return s.range(symbols).lo < 0; });
}

Dim extent(const Window& w) {
  if (numel(w.shape).is_const(0)) return 0;
  Dim last = 1;
  for (size_t i = 0; i < w.shape.size(); ++i) {
    if (!w.shape[i].is_const(1)) last += (w.shape[i] - Dim(1)) * w.strides[i];
  }
  return last;
}

Shape dense_strides_like(const Shape& shape, const Shape& like, const SymbolTable& symbols) {
  std::vector<size_t> order(shape.size());  // outermost first
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return like[a].hint(symbols) > like[b].hint(symbols);
  });
  Shape strides(shape.size());
  Dim stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= shape[order[i]];
  }
  return strides;
}

Shape rows_apart(const Shape& shape, int64_t unit) {
  Shape strides = contiguous_strides(shape);
  if (shape.size() < 2) return strides;
  Dim stride = Dim::ceildiv(shape.back(), unit) * Dim(unit);
  for (size_t i = shape.size() - 1; i-- > 0; stride *= shape[i]) strides[i] = stride;
  return strides;
}

Shape channels_last_strides(const Shape& shape) {
  Shape strides(shape.size());
  strides[1] = 1;
  Dim stride = shape[1];
  for (size_t i = shape.size(); i-- > 2;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  strides[0] = stride;
  return strides;
}

}  // namespace poot::passes
