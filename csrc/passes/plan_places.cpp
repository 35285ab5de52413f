// Where values lie. A buffer may hold several values one after another (in-place updates, reuse of
// a dying operand); `buffer_last_` is the last equation that reads any of them, so a buffer whose
// last reader is the current equation may be overwritten by it. Views of a value count as reads of
// it at the place of the view, and as readers of its buffer once they are placed.
#include <algorithm>

#include "ir/scalar_eval.h"
#include "passes/planner.h"

namespace poot::passes {

using namespace program;
using ir::Operand;
using ir::ValueId;

bool Planner::dead_after_now(BufferId b) const {
  return buffer_last_[b.index] <= now_ && now_ != kEnd;
}

bool Planner::read_now(BufferId b) const {
  return std::any_of(eqn_->inputs.begin(), eqn_->inputs.end(), [&](const Operand& o) {
    return ir::is_value(o) && places_[std::get<ValueId>(o).index].buffer == b;
  });
}

void Planner::set_place(ValueId v, Place p) {
  buffer_last_.resize(writer_.program().buffers.size(), 0);
  uint32_t& last = buffer_last_[p.buffer.index];
  last = std::max(last, facts_[v.index].last_use);
  places_[v.index] = std::move(p);
}

Place Planner::place_of(const Operand& o) {
  if (ir::is_value(o)) return places_[std::get<ValueId>(o).index];
  const ir::Scalar& s = std::get<ir::Scalar>(o);
  const ir::Bits bits = ir::bits_of(s);
  std::string bytes;
  for (int64_t i = 0; i < byte_size(s.dtype); ++i)
    bytes += static_cast<char>((bits >> (8 * i)) & 0xff);
  const BufferId b = writer_.constant(s.dtype, std::move(bytes));
  buffer_last_.resize(writer_.program().buffers.size(), kEnd);
  return {b, {{}, {}, 0}};
}

Place Planner::fresh(const ir::TensorType& type, const Shape& strides, BufferClass cls) {
  Place p{{}, {type.shape, strides, 0}};
  Buffer b{cls, 0, type.dtype};
  b.bytes = extent(p.window) * Dim(byte_size(type.dtype));
  if (b.bytes.range(graph_.symbols()).lo < 0) b.bytes = Dim::max(b.bytes, 0);
  p.buffer = writer_.add_buffer(std::move(b));
  buffer_last_.resize(writer_.program().buffers.size(), 0);
  if (cls == BufferClass::Arena || cls == BufferClass::Output) pad_buffer(p, type);
  return p;
}

Place Planner::destination(ValueId v, const std::optional<Shape>& preferred, const Accept& accept) {
  const ValueFacts& f = facts_[v.index];
  const ir::TensorType& type = graph_.type(v);
  if (f.state) {
    const Place& state = places_[f.state.index];
    const bool free = dead_after_now(state.buffer) && !read_now(state.buffer);
    if (free && !is_broadcast(state.window) && (!accept || accept(state.window))) return state;
  }
  Window w = Window::contiguous(type.shape);
  if (preferred && !f.strides && !f.escapes) w.strides = *preferred;
  if (f.strides && (!accept || accept({type.shape, *f.strides, 0}))) w.strides = *f.strides;
  return fresh(type, w.strides, f.escapes ? BufferClass::Output : BufferClass::Arena);
}

ViewId Planner::view_of(const Place& p, DType dtype) {
  return writer_.view({p.buffer, dtype, p.window.shape, p.window.strides, p.window.offset});
}

std::string Planner::value_name(const Operand& o) const {
  if (!ir::is_value(o)) return std::get<ir::Scalar>(o).str();
  return names_[std::get<ValueId>(o).index];
}

Place Planner::operand(const Operand& o, std::string_view reason, const Accept& accept) {
  const Place p = place_of(o);
  if (accept(p.window)) return p;
  if (!ir::is_value(o))
    return copied(p, graph_.type(o).dtype, {}, BufferClass::Arena, value_name(o), reason);
  const ValueId v = std::get<ValueId>(o);
  if (const auto it = copies_.find(v.index); it != copies_.end()) {
    buffer_last_[it->second.buffer.index] = kEnd;
    return it->second;
  }
  const ir::TensorType& type = graph_.type(v);
  const Place c = copied(p, type.dtype, contiguous_strides(p.window.shape), BufferClass::Arena,
                         value_name(o), reason);
  buffer_last_[c.buffer.index] = kEnd;
  copies_.emplace(v.index, c);
  return c;
}

Place Planner::restrided(const Place& from, const ir::TensorType& type, const Shape& strides,
                         BufferClass cls, const std::string& value, std::string_view reason) {
  Place stored = from;
  for (size_t i = 0; i < strides.size(); ++i) {
    if (strides[i].is_const(0)) stored.window.shape[i] = 1;
  }
  Place to = copied(stored, type.dtype, strides, cls, value, reason);
  to.window.shape = type.shape;
  return to;
}

Place Planner::copied(const Place& from, DType dtype, const Shape& strides, BufferClass cls,
                      const std::string& value, std::string_view reason) {
  const ir::TensorType type{dtype, from.window.shape};
  const Place to = fresh(type, strides, cls);
  copy(from, to, dtype);
  out_.layout_copies.push_back(
      {value, std::string(reason), numel(type.shape) * Dim(byte_size(dtype))});
  return to;
}

}  // namespace poot::passes
