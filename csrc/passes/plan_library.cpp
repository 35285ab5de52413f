// Contractions as library products. Operands are strided windows, so transposes cost nothing where
// one of the last two axes has stride 1, as BLAS asks; leading axes are merged into one batch axis,
// or, where the right operand is the same for every batch, into the rows of one plain product. What
// no window expresses is copied, and the copy is reported.
#include <cmath>

#include "passes/planner.h"

namespace poot::passes {

using namespace program;
using ir::OpCode;
using ir::Operand;
using ir::ValueId;

namespace {

bool is_unit(const Window& w, size_t axis) {
  return w.shape[axis].is_const(1) || w.strides[axis].is_const(1);
}
bool repeats(const Window& w, size_t axis) {
  return !w.shape[axis].is_const(1) && w.strides[axis].is_const(0);
}

// One of the last two axes has stride 1 and the other does not repeat.
bool blas_accepts(const Window& w) {
  const size_t r = w.shape.size() - 2, c = r + 1;
  return (is_unit(w, c) && !repeats(w, r)) || (is_unit(w, r) && !repeats(w, c));
}

bool leading_is_one(const Shape& shape) {
  for (size_t i = 0; i + 2 < shape.size(); ++i) {
    if (!shape[i].is_const(1)) return false;
  }
  return true;
}

// The same matrix for every batch.
bool same_for_all(const Window& w) {
  for (size_t i = 0; i + 2 < w.shape.size(); ++i) {
    if (!w.shape[i].is_const(1) && !w.strides[i].is_const(0)) return false;
  }
  return true;
}

Dim product(const Shape& shape, size_t count) {
  return numel(Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(count)));
}

std::optional<Window> reshaped(const Window& w, const Shape& to) {
  auto strides = reshape_strides(w, to);
  if (!strides) return std::nullopt;
  return Window{to, std::move(*strides), w.offset};
}

// How the operands' shapes are seen by the call: plain (rank 2) or batched (rank 3).
enum class Form { Plain, Rows, Batched };

Shape seen_shape(const Shape& shape, Form form, bool is_right) {
  const size_t n = shape.size();
  switch (form) {
    case Form::Plain:
      return {shape[n - 2], shape[n - 1]};
    case Form::Rows:
      if (is_right) return {shape[n - 2], shape[n - 1]};
      return {product(shape, n - 1), shape[n - 1]};
    case Form::Batched:
      return {product(shape, n - 2), shape[n - 2], shape[n - 1]};
  }
  return {};
}

// The operand as the call sees it.
std::optional<Window> seen(const Window& w, Form form, bool is_right) {
  const Shape to = seen_shape(w.shape, form, is_right);
  if (form == Form::Rows && is_right) {
    const size_t n = w.shape.size();
    return Window{to, {w.strides[n - 2], w.strides[n - 1]}, w.offset};
  }
  return reshaped(w, to);
}

}  // namespace

void Planner::library(LibraryOp op, std::vector<ViewId> inputs, std::vector<ViewId> outs,
                      std::vector<int64_t> ints, std::vector<double> floats) {
  for (const ViewId v : outs) {
    const Buffer& b = writer_.buffer(writer_.program().views[v.index].buffer);
    if (b.cls == BufferClass::Input)
      std::get<ArgTensor>(writer_.program().args[b.index]).mutated = true;
  }
  record(PlanKind::Library, eqn_->info().name, std::string(library_info(op).name));
  writer_.launch(
      LibraryLaunch{op, std::move(inputs), std::move(outs), std::move(ints), std::move(floats)},
      eqn_->origins);
}

void Planner::contraction() {
  const bool has_bias = eqn_->op == OpCode::addmm;
  const Operand& left = eqn_->inputs[has_bias ? 1 : 0];
  const Operand& right = eqn_->inputs[has_bias ? 2 : 1];
  const ir::TensorType& type = graph_.type(eqn_->outs[0]);
  const Window a = place_of(left).window, b = place_of(right).window;
  Form form = Form::Batched;
  if (leading_is_one(a.shape) && leading_is_one(b.shape)) {
    form = Form::Plain;
  } else if (same_for_all(b)) {
    const auto rows = seen(a, Form::Rows, false);
    if (rows && blas_accepts(*rows)) form = Form::Rows;
  }

  auto usable = [&](bool is_right) {
    return [=](const Window& w) {
      const auto s = seen(w, form, is_right);
      return s && blas_accepts(*s);
    };
  };
  auto reason = [&](const Window& w, bool is_right) {
    return seen(w, form, is_right) ? std::string_view("no axis of the matrix has stride 1")
                                   : std::string_view("the batch axes are not one axis in memory");
  };
  Place pa = operand(left, reason(a, false), usable(false));
  Place pb = operand(right, reason(b, true), usable(true));
  pa.window = *seen(pa.window, form, false);
  pb.window = *seen(pb.window, form, true);

  const bool packed = form != Form::Batched && packed_weight(graph_, *eqn_, context_) &&
                      writer_.buffer(pb.buffer).cls == BufferClass::Input;  // not a copy
  const bool pads = form != Form::Batched && pays_to_pad(graph_, *eqn_, context_.target);
  const Place out = packed ? owned(eqn_->outs[0], contiguous_strides(type.shape))
                    : pads ? product_place(usable(false))
                           : destination(eqn_->outs[0], {}, usable(false));
  Place po = out;
  po.window = *seen(out.window, form, false);

  std::vector<ViewId> inputs;
  std::vector<double> floats;
  std::optional<Place> vector;
  if (has_bias) {
    floats = {eqn_->attr<double>("beta"), eqn_->attr<double>("alpha")};
    vector =
        form != Form::Batched && floats == std::vector{1.0, 1.0} ? bias_vector() : std::nullopt;
  }
  if (pads) pad_product(pa, pb, po, vector, !has_bias || vector);
  if (vector) {
    inputs.push_back(view_of(*vector, type.dtype));
  } else if (has_bias && packed) {
    inputs.push_back(view_of(
        operand(eqn_->inputs[0], kNegative, [](const Window& w) { return is_contiguous(w); }),
        type.dtype));
  } else if (has_bias) {
    Place bias = place_of(eqn_->inputs[0]);
    bias.window = expand(bias.window, type.shape);
    if (const auto s = seen(bias.window, form, false)) {
      bias.window = *s;
    } else {
      bias = copied(bias, type.dtype, contiguous_strides(type.shape), BufferClass::Arena,
                    value_name(eqn_->inputs[0]), "the broadcast bias is no view of merged axes");
      bias.window = *seen(bias.window, form, false);
    }
    inputs.push_back(view_of(bias, type.dtype));
  }
  inputs.push_back(view_of(pa, type.dtype));
  inputs.push_back(view_of(pb, type.dtype));
  if (packed) {
    library(LibraryOp::linear_packed, std::move(inputs), {view_of(po, type.dtype)},
            {pa.window.shape[0].hint(graph_.symbols())}, {});
    return set_place(eqn_->outs[0], out);
  }
  const bool batched = form == Form::Batched;
  const LibraryOp op = has_bias ? (batched ? LibraryOp::baddbmm : LibraryOp::addmm)
                                : (batched ? LibraryOp::bmm : LibraryOp::mm);
  library(op, std::move(inputs), {view_of(po, type.dtype)}, {}, std::move(floats));
  set_place(eqn_->outs[0], out);
}

}  // namespace poot::passes
