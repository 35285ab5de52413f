// Types of sources, views, movement and updates: dtypes pass through, sizes are computed as
// expressions.
#include <algorithm>

#include "ir/infer.h"

namespace poot::ir {
namespace {

bool negative(const Dim& d) {
  return d.is_const() && d.value() < 0;
}

bool is_index(DType d) {
  return d == DType::I32 || d == DType::I64;
}

Shape target_shape(const InferCall& call, std::string_view constraint) {
  const auto& shape = call.attr<std::vector<Dim>>("shape");
  if (std::any_of(shape.begin(), shape.end(), negative))
    call.fail(constraint, "negative size in " + str(shape));
  return shape;
}

Dim slice_size(const Dim& start, const Dim& end, int64_t step) {
  return step == 1 ? end - start : Dim::ceildiv(end - start, Dim(step));
}

// Shape of operand 0 sliced by the attributes axis, start, end and step.
Shape sliced(const InferCall& call, std::string_view axis_rule, std::string_view bounds_rule) {
  const size_t axis = call.axis(call.rank(), axis_rule);
  const auto &start = call.attr<Dim>("start"), &end = call.attr<Dim>("end");
  const int64_t step = call.attr<int64_t>("step");
  if (step < 1) call.fail(axis_rule, "step " + std::to_string(step) + " is not positive");
  Shape shape = call.in[0].shape;
  if (negative(start) || negative(end - start) || negative(shape[axis] - end))
    call.fail(bounds_rule, "0 <= " + start.str() + " <= " + end.str() + " <= " + shape[axis].str() +
                               " does not hold");
  shape[axis] = slice_size(start, end, step);
  return shape;
}

// How an update combines what is there with the source: absent, or one of these.
void check_step(const InferCall& call, std::string_view constraint) {
  const std::string* fn = std::get_if<std::string>(&call.attrs[call.info.attr_index("fn")]);
  for (const std::string_view step : {"add", "mul", "maximum", "minimum"})
    if (!fn || *fn == step) return;
  call.fail(constraint, "no step of an update is called " + *fn);
}

}  // namespace

TypeList infer_full(const InferCall& call) {
  if (call.rank() != 0) call.fail("full-C1", "the operand " + call.in[0].str() + " is not 0-d");
  return {{call.in[0].dtype, target_shape(call, "full-C1")}};
}

TypeList infer_iota(const InferCall& call) {
  const DType dtype = call.attr<DType>("dtype");
  const Dim& size = call.attr<Dim>("size");
  if (!is_int(dtype) || negative(size))
    call.fail("iota-C1", "needs an integer dtype and a size that is not negative, got " +
                             std::string(name(dtype)) + " and " + size.str());
  return {{dtype, {size}}};
}

TypeList infer_size_value(const InferCall&) {
  return {{DType::I64, {}}};
}

TypeList infer_broadcast(const InferCall& call) {
  Shape shape = target_shape(call, "broadcast-C1");
  if (!broadcasts_to(call.in[0].shape, shape))
    call.fail("broadcast-C1", str(call.in[0].shape) + " does not broadcast to " + str(shape));
  return {{call.in[0].dtype, std::move(shape)}};
}

TypeList infer_reshape(const InferCall& call) {
  Shape shape = target_shape(call, "reshape-C1");
  const Dim count = numel(shape), given = numel(call.in[0].shape);
  const bool differs = count != given;
  if (differs && (!call.flag("proven") || (count - given).is_const()))
    call.fail("reshape-C1",
              str(call.in[0].shape) + " and " + str(shape) + " have different numbers of elements");
  return {{call.in[0].dtype, std::move(shape)}};
}

TypeList infer_transpose(const InferCall& call) {
  const auto& perm = call.attr<std::vector<int64_t>>("perm");
  if (perm.size() != call.rank())
    call.fail("transpose-C1",
              "perm " + list_text(perm) + " for " + std::to_string(call.rank()) + " axes");
  if (!are_axes(perm, call.rank()))
    call.fail("transpose-C2", "perm " + list_text(perm) + " is not a permutation of 0.." +
                                  std::to_string(perm.size() - 1));
  Shape shape;
  for (int64_t p : perm) shape.push_back(call.in[0].shape[p]);
  return {{call.in[0].dtype, std::move(shape)}};
}

TypeList infer_slice(const InferCall& call) {
  return {{call.in[0].dtype, sliced(call, "slice-C1", "slice-C2")}};
}

TypeList infer_flip(const InferCall& call) {
  const auto& axes = call.attr<std::vector<int64_t>>("axes");
  if (!are_axes(axes, call.rank()))
    call.fail("flip-C1", "axes " + list_text(axes) + " of a value with " +
                             std::to_string(call.rank()) + " axes");
  return {call.in[0]};
}

TypeList infer_concat(const InferCall& call) {
  TensorType out = call.in[0];
  for (const TensorType& t : call.in)
    if (t.dtype != out.dtype || t.shape.size() != out.shape.size())
      call.fail("concat-C1",
                "operands " + out.str() + " and " + t.str() + " differ in dtype or number of axes");
  const size_t axis = call.axis(call.rank(), "concat-C1");
  for (const TensorType& t : call.in.subspan(1)) {
    for (size_t i = 0; i < t.shape.size(); ++i)
      if (i != axis && t.shape[i] != out.shape[i])
        call.fail("concat-C2", "operands " + call.in[0].str() + " and " + t.str() +
                                   " differ beside axis " + std::to_string(axis));
    out.shape[axis] += t.shape[axis];
  }
  return {out};
}

TypeList infer_pad(const InferCall& call) {
  TensorType out = call.in[0];
  if (call.rank(1) != 0 || call.in[1].dtype != out.dtype)
    call.fail("pad-C1",
              "the filler " + call.in[1].str() + " is not a 0-d " + std::string(name(out.dtype)));
  const auto &low = call.attr<std::vector<Dim>>("low"), &high = call.attr<std::vector<Dim>>("high");
  if (low.size() != out.shape.size() || high.size() != out.shape.size() ||
      std::any_of(low.begin(), low.end(), negative) ||
      std::any_of(high.begin(), high.end(), negative))
    call.fail("pad-C2", "low " + str(low) + " and high " + str(high) + " for " + out.str());
  for (size_t i = 0; i < low.size(); ++i) out.shape[i] += low[i] + high[i];
  return {out};
}

TypeList infer_gather(const InferCall& call) {
  const size_t axis = call.axis(call.rank(), "gather-C1");
  if (!is_index(call.in[1].dtype))
    call.fail("gather-C2", "the index " + call.in[1].str() + " is neither i32 nor i64");
  const Shape &src = call.in[0].shape, &index = call.in[1].shape;
  Shape shape(src.begin(), src.begin() + axis);
  shape.insert(shape.end(), index.begin(), index.end());
  shape.insert(shape.end(), src.begin() + axis + 1, src.end());
  return {{call.in[0].dtype, std::move(shape)}};
}

TypeList infer_take(const InferCall& call) {
  const size_t axis = call.axis(call.rank(), "take-C1");
  const Shape &src = call.in[0].shape, &index = call.in[1].shape;
  bool fits = src.size() == index.size();
  for (size_t i = 0; fits && i < src.size(); ++i) fits = i == axis || !negative(src[i] - index[i]);
  if (!fits)
    call.fail("take-C1", "index shape " + str(index) + " does not fit " + str(src) +
                             " beside axis " + std::to_string(axis));
  if (!is_index(call.in[1].dtype))
    call.fail("take-C2", "the index " + call.in[1].str() + " is neither i32 nor i64");
  return {{call.in[0].dtype, index}};
}

TypeList infer_scatter_update(const InferCall& call) {
  const size_t axis = call.axis(call.rank(), "scatter_update-C1");
  const TensorType &base = call.in[0], &slots = call.in[1], &src = call.in[2];
  if (slots.shape.size() != 1 || !is_index(slots.dtype))
    call.fail("scatter_update-C1", "slots " + slots.str() + " are not a 1-d i32 or i64");
  Shape rows = base.shape;
  rows[axis] = slots.shape[0];
  if (src.dtype != base.dtype || src.shape != rows)
    call.fail("scatter_update-C2",
              "the source is " + src.str() + " instead of " + TensorType{base.dtype, rows}.str());
  check_step(call, "scatter_update-C3");
  return {base};
}

TypeList infer_scatter(const InferCall& call) {
  const TensorType &base = call.in[0], &idx = call.in[1], &src = call.in[2];
  const size_t axis = call.axis(call.rank(), "scatter-C1");
  if (!is_index(idx.dtype) || idx.shape != src.shape || src.dtype != base.dtype)
    call.fail("scatter-C1", "the source " + src.str() + " and its places " + idx.str() +
                                " do not fit the base " + base.str());
  for (size_t i = 0; i < base.shape.size(); ++i)
    if (src.shape.size() != base.shape.size() ||
        (i != axis && src.shape[i].is_const() && base.shape[i].is_const() &&
         src.shape[i].value() > base.shape[i].value()))
      call.fail("scatter-C2", "the source " + src.str() + " exceeds the base " + base.str());
  check_step(call, "scatter-C3");
  return {base};
}

TypeList infer_update_slice(const InferCall& call) {
  const TensorType window{call.in[0].dtype, sliced(call, "update_slice-C1", "update_slice-C1")};
  if (call.in[1] != window)
    call.fail("update_slice-C1",
              "the update is " + call.in[1].str() + " instead of " + window.str());
  return {call.in[0]};
}

}  // namespace poot::ir
