// Large products in half precision whose sizes are no multiples of what tensor cores' kernels load:
// the library's kernels for such are several times slower. The product is made of matrices with
// margins instead: rows of 50257 lie 50264 apart, and the call multiplies matrices of 50264.
//
//   margins along rows and columns of the result: whatever is there is multiplied and never read
//   margins along the sum: zeros in both operands
//
// Values that a product reads or makes are placed with margins (plan_facts); what lies otherwise, a
// weight mostly, is copied, once for all products of the graph.
#include <algorithm>
#include <utility>

#include "passes/planner.h"

namespace poot::passes {

using namespace program;
using ir::OpCode;
using ir::Operand;
using ir::ValueId;

namespace {

// The same matrix with its axes changed about.
Window turned(Window w) {
  std::swap(w.shape[0], w.shape[1]);
  std::swap(w.strides[0], w.strides[1]);
  return w;
}

ValueId viewed(const ir::Graph& graph, ValueId v) {
  for (int32_t d = graph.def(v); d >= 0; d = graph.def(v)) {
    const ir::Eqn& eqn = graph.eqns()[static_cast<size_t>(d)];
    if (!ir::is_view(eqn.info().kind) || !ir::is_value(eqn.inputs[0])) break;
    v = std::get<ValueId>(eqn.inputs[0]);
  }
  return v;
}

// Symbolic sizes are left as they are.
bool needs_no_padding(const Dim& d, int64_t unit) {
  return !d.is_const() || d.value() % unit == 0;
}
Dim rounded_up(const Dim& d, int64_t unit) {
  return needs_no_padding(d, unit) ? d : Dim::ceildiv(d, unit) * Dim(unit);
}

}  // namespace

void Planner::pad_buffer(const Place& p, const ir::TensorType& type) {
  const int64_t unit = kRowAlignment / byte_size(type.dtype);
  if (context_.target.isa != Isa::Ptx || unit < 2 || type.shape.size() < 2 ||
      needs_no_padding(type.shape.back(), unit) || p.window.strides != rows_apart(type.shape, unit))
    return;
  const Dim pitch = p.window.strides[type.shape.size() - 2];
  PaddedBuffer padded{numel(Shape(type.shape.begin(), type.shape.end() - 1)), type.shape.back(),
                      pitch};
  writer_.buffer(p.buffer).bytes = padded.rows * pitch * Dim(byte_size(type.dtype));
  padded_.emplace(p.buffer.index, std::move(padded));
}

void Planner::clear(const Place& margin, DType dtype) {
  ir::Builder body("body", graph_.symbols());
  body.output(body.emit(OpCode::full, {ir::Scalar::of(dtype, 0.0)}, {margin.window.shape}));
  generate({RequestKind::Elementwise, "margin", std::make_shared<ir::Graph>(body.finish())}, {},
           {margin});
}

Place Planner::padded_copy(const Place& rows, const Operand& o, const Shape& wide) {
  const DType dtype = graph_.type(o).dtype;
  const ValueId whole = viewed(graph_, std::get<ValueId>(o));
  for (const PaddedCopy& c : padded_copies_) {
    const Window& w = c.from.window;
    if (c.of == whole && c.from.buffer == rows.buffer && w.shape == rows.window.shape &&
        w.strides == rows.window.strides && w.offset == rows.window.offset && c.wide == wide)
      return c.to;
  }
  const Place to = fresh({dtype, rows.window.shape}, {wide[1], Dim(1)}, BufferClass::Arena);
  writer_.buffer(to.buffer).bytes = numel(wide) * Dim(byte_size(dtype));
  padded_.insert_or_assign(to.buffer.index,
                           PaddedBuffer{rows.window.shape[0], rows.window.shape[1], wide[1]});
  copy(rows, to, dtype);
  out_.layout_copies.push_back({value_name(o),
                                "the library multiplies matrices with margins much faster",
                                numel(rows.window.shape) * Dim(byte_size(dtype))});
  buffer_last_[to.buffer.index] = kEnd;
  padded_copies_.push_back({whole, rows, wide, to});
  return to;
}

Place Planner::widened(const Place& matrix, const Operand& o, const Shape& to, bool sums_rows,
                       bool sums_columns) {
  const DType dtype = graph_.type(o).dtype;
  const bool across = !matrix.window.shape[1].is_const(1) && !matrix.window.strides[1].is_const(1);
  Place place{matrix.buffer, across ? turned(matrix.window) : matrix.window};
  Shape wide = to;
  if (across) {
    std::swap(wide[0], wide[1]);
    std::swap(sums_rows, sums_columns);
  }
  const Shape own = place.window.shape;
  const Dim pitch = place.window.strides[0];
  const auto known = padded_.find(place.buffer.index);
  const bool has_margin = known != padded_.end() && place.window.offset.is_const(0) &&
                          known->second.rows == own[0] && known->second.columns == own[1] &&
                          known->second.pitch == wide[1] && pitch == wide[1] && wide[0] == own[0];
  const bool as_it_lies = wide == own && needs_no_padding(pitch, kRowAlignment / byte_size(dtype));
  if (!has_margin && !as_it_lies) place = padded_copy(place, o, wide);
  place.window.shape = wide;
  if (const auto padded = padded_.find(place.buffer.index); padded != padded_.end()) {
    const auto margin = [&](Shape shape, Dim offset) {
      clear({place.buffer, {std::move(shape), {wide[1], Dim(1)}, std::move(offset)}}, dtype);
    };
    if (sums_columns && wide[1] != own[1] && !std::exchange(padded->second.right_is_zero, true))
      margin({own[0], wide[1] - own[1]}, own[1]);
    if (sums_rows && wide[0] != own[0] && !std::exchange(padded->second.below_is_zero, true))
      margin({wide[0] - own[0], wide[1]}, own[0] * wide[1]);
  }
  if (across) place.window = turned(place.window);
  return place;
}

std::optional<Place> Planner::bias_vector() {
  if (context_.target.isa != Isa::Ptx) return std::nullopt;
  const Place p = place_of(eqn_->inputs[0]);
  const bool vector = p.window.shape.size() == 1 && p.window.strides[0].is_const(1) &&
                      p.window.shape[0] == graph_.type(eqn_->outs[0]).shape.back();
  return vector ? std::optional(p) : std::nullopt;
}

Place Planner::product_place(const Accept& accept) {
  const ValueId v = eqn_->outs[0];
  const ir::TensorType& type = graph_.type(v);
  const ValueFacts& f = facts_[v.index];
  const auto apart = preferred_matrix(type, context_.target);
  // What the caller wants in one piece is copied at the end.
  if (apart && f.escapes && f.strides && !same_strides(type.shape, *f.strides, *apart))
    return fresh(type, *apart, BufferClass::Arena);
  return destination(v, apart, accept);
}

void Planner::pad_product(Place& a, Place& b, Place& out, std::optional<Place>& bias,
                          bool may_widen) {
  const Operand &left = eqn_->inputs[eqn_->inputs.size() - 2], &right = eqn_->inputs.back();
  const DType dtype = graph_.type(left).dtype;
  const int64_t unit = kRowAlignment / byte_size(dtype);
  const Dim depth = rounded_up(a.window.shape[1], unit);
  Dim rows = rounded_up(out.window.shape[0], unit), columns = rounded_up(out.window.shape[1], unit);
  Buffer& memory = writer_.buffer(out.buffer);
  const bool ours = memory.cls == BufferClass::Arena || memory.cls == BufferClass::Output;
  if (rows != out.window.shape[0] || columns != out.window.shape[1]) {
    if (!may_widen || !ours || !out.window.offset.is_const(0) ||
        !out.window.strides[1].is_const(1) || out.window.strides[0] != columns)
      return;  // it would be slow with aligned operands as well
    memory.bytes = Dim::max(memory.bytes, rows * columns * Dim(byte_size(dtype)));
  }
  if (bias && columns != bias->window.shape[0]) {
    const Place wide = fresh({dtype, {columns}}, {Dim(1)}, BufferClass::Arena);
    copy(*bias, {wide.buffer, Window::contiguous(bias->window.shape)}, dtype);
    bias = wide;
  }
  a = widened(a, left, {rows, depth}, false, depth != a.window.shape[1]);
  b = widened(b, right, {depth, columns}, depth != b.window.shape[0], false);
  out.window.shape = {rows, columns};
}

}  // namespace poot::passes
