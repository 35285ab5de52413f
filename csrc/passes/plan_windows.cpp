// Convolution and pooling. Results that the library allocates get the strides that it chooses
// anyway: a convolution's lies channels-last if the input or the weight does, else contiguous.
//
// Where the weight is much larger than the image (the last stages of a network), reordering it for
// each call costs more than the convolution. There the windows of the image are copied to columns,
// which are few, and one plain product reads the weight as it lies:
//
//   columns [C * kh * kw, N * oh * ow] = windows of pad(x);   y [O, N * oh * ow] = w * columns
//
// The result's memory is [O, N, oh, ow], which its readers see as [N, O, oh, ow].
#include <algorithm>
#include <cmath>

#include "passes/fusion_cost.h"
#include "passes/planner.h"

namespace poot::passes {

using namespace program;
using ir::OpCode;
using ir::Operand;
using ir::ValueId;

namespace {

constexpr int64_t kMostWindow = 16;  // elements of a window that a kernel pools

bool is_channels_last(const Window& w) {
  if (w.shape.size() != 4 && w.shape.size() != 5) return false;
  return !is_contiguous(w) && same_strides(w.shape, w.strides, channels_last_strides(w.shape));
}

void append(std::vector<int64_t>& to, const std::vector<int64_t>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

Place Planner::image(const Operand& o, const Accept& accept) {
  const Place p = operand(o, kNegative, accept);
  const std::optional<Shape> wanted = preferred_image(graph_, *eqn_, context_);
  if (!wanted || same_strides(p.window.shape, p.window.strides, *wanted)) return p;
  return copied(p, graph_.type(o).dtype, *wanted, BufferClass::Arena, value_name(o),
                "the library's kernels are faster in another layout");
}

void Planner::convolution() {
  const ir::TensorType& type = graph_.type(eqn_->outs[0]);
  const bool plain = type.shape.size() == 4 && eqn_->inputs.size() == 2 &&
                     !eqn_->attr<bool>("transposed") && eqn_->attr<int64_t>("groups") == 1 &&
                     (type.dtype == DType::F32 || type.dtype == DType::BF16) &&
                     context_.target.isa == Isa::X86 && !facts_[eqn_->outs[0].index].escapes &&
                     !keeps_packed(graph_, *eqn_, context_) &&
                     !(context_.options.training && type.dtype == DType::F32) &&
                     is_contiguous(place_of(eqn_->inputs[1]).window);
  if (plain && pays_as_product(type.shape, graph_.symbols())) return convolution_as_product();
  convolution_call();
}

Place Planner::padded(const Place& image, const ir::TensorType& type, const Shape& low) {
  if (std::all_of(low.begin(), low.end(), [](const Dim& d) { return d.is_const(0); })) return image;
  ir::Builder body("body", graph_.symbols());
  const ValueId out = body.emit(OpCode::pad, {body.input(type), ir::Scalar::of(type.dtype, 0.0)},
                                {ir::Attr(low), ir::Attr(low)});
  body.output(out);
  const ir::TensorType wide = body.type(out);
  const Place to = fresh(wide, contiguous_strides(wide.shape), BufferClass::Arena);
  generate({RequestKind::Elementwise, "pad", std::make_shared<ir::Graph>(body.finish())}, {image},
           {to});
  return to;
}

void Planner::convolution_as_product() {
  const auto list = [&](std::string_view name) { return eqn_->attr<std::vector<int64_t>>(name); };
  const std::vector<int64_t> stride = list("stride"), dilation = list("dilation"),
                             padding = list("padding");
  const ir::TensorType image_type = graph_.type(eqn_->inputs[0]);
  const Place image = padded(place_of(eqn_->inputs[0]), image_type, {0, 0, padding[0], padding[1]});
  const ValueId v = eqn_->outs[0];
  const ir::TensorType& type = graph_.type(v);
  const Shape& out = type.shape;  // [N, O, oh, ow]
  const Shape kernel = graph_.type(eqn_->inputs[1]).shape;
  const Shape& s = image.window.strides;

  Place windows = image;
  windows.window.shape = {kernel[1], kernel[2], kernel[3], out[0], out[2], out[3]};
  windows.window.strides = {s[1], s[2] * Dim(dilation[0]), s[3] * Dim(dilation[1]),
                            s[0], s[2] * Dim(stride[0]),   s[3] * Dim(stride[1])};
  const Dim depth = kernel[1] * kernel[2] * kernel[3], positions = out[0] * out[2] * out[3];
  Place columns = fresh({type.dtype, windows.window.shape},
                        contiguous_strides(windows.window.shape), BufferClass::Arena);
  copy(windows, columns, type.dtype);
  columns.window = Window::contiguous({depth, positions});
  Place weight = place_of(eqn_->inputs[1]);
  weight.window = {{out[1], depth}, {depth, 1}, weight.window.offset};

  Place to = fresh({type.dtype, {out[1], positions}}, {positions, 1}, BufferClass::Arena);
  library(LibraryOp::mm, {view_of(weight, type.dtype), view_of(columns, type.dtype)},
          {view_of(to, type.dtype)}, {}, {});
  to.window = {out, {out[2] * out[3], positions, out[3], 1}, to.window.offset};
  set_place(v, to);
}

void Planner::convolution_call() {
  auto accept = [&](const Window& w) { return !may_be_negative(w, graph_.symbols()); };
  const bool folded = eqn_->op == OpCode::convolution_folded;
  std::vector<ViewId> inputs;
  bool channels_last = false;
  for (const Operand& o : eqn_->inputs) {
    const Place p = inputs.empty() ? image(o, accept) : operand(o, kNegative, accept);
    if (inputs.size() < 2) channels_last = channels_last || is_channels_last(p.window);
    if (inputs.size() == 2 && folded) inputs.push_back(ViewId());  // the bias
    inputs.push_back(view_of(p, graph_.type(o).dtype));
  }
  if (inputs.size() == 2) inputs.push_back(ViewId());
  const auto& stride = eqn_->attr<std::vector<int64_t>>("stride");
  std::vector<int64_t> ints = {static_cast<int64_t>(stride.size())};
  append(ints, stride);
  append(ints, eqn_->attr<std::vector<int64_t>>("padding"));
  append(ints, eqn_->attr<std::vector<int64_t>>("dilation"));
  const bool packed = folded || (inputs.size() == 3 && keeps_packed(graph_, *eqn_, context_));
  if (!packed) {
    ints.push_back(eqn_->attr<bool>("transposed") ? 1 : 0);
    append(ints, eqn_->attr<std::vector<int64_t>>("output_padding"));
  }
  ints.push_back(eqn_->attr<int64_t>("groups"));
  if (packed) ints.push_back(folded && eqn_->attr<bool>("relu") ? 1 : 0);
  const ValueId v = eqn_->outs[0];
  const ir::TensorType& type = graph_.type(v);
  const Place out =
      owned(v, channels_last ? channels_last_strides(type.shape) : contiguous_strides(type.shape));
  library(packed ? LibraryOp::convolution_packed : LibraryOp::convolution, std::move(inputs),
          {view_of(out, type.dtype)}, std::move(ints), {});
  set_place(v, out);
}

// Whether pooling is a kernel: where nobody asks for the places of the maxima, which the library
// would write at eight bytes each. On a CPU it does so with vectors where channels lie side by
// side, and one number at a time otherwise.
bool Planner::pools_in_kernel(const Window& image) const {
  const auto& kernel = eqn_->attr<std::vector<int64_t>>("kernel");
  const bool slow = context_.target.isa == Isa::Ptx || !is_channels_last(image);
  return slow && !facts_[eqn_->outs[1].index].used && is_float(graph_.type(eqn_->outs[0]).dtype) &&
         kernel[0] * kernel[1] <= kMostWindow;
}

// The larger of a later and an earlier element; of equal ones, zeros of either sign, the earlier. A
// CPU's maximum keeps its second operand then, a GPU's orders zeros by sign.
ValueId Planner::later_maximum(ir::Builder& body, ValueId later, ValueId earlier) const {
  if (context_.target.isa != Isa::Ptx) return body.emit(OpCode::maximum, {later, earlier});
  const ValueId above = body.emit(OpCode::gt, {later, earlier});
  const ValueId nan = body.emit(OpCode::ne, {later, later});
  return body.emit(OpCode::select, {body.emit(OpCode::bit_or, {above, nan}), later, earlier});
}

// The largest of the shifted, strided slices of the padded plane.
void Planner::max_pool_kernel(const Place& in, const Place& out) {
  const auto list = [&](std::string_view name) { return eqn_->attr<std::vector<int64_t>>(name); };
  const std::vector<int64_t> kernel = list("kernel"), stride = list("stride"),
                             padding = list("padding"), dilation = list("dilation");
  const ir::TensorType type = graph_.type(eqn_->inputs[0]);
  const Shape& size = graph_.type(eqn_->outs[0]).shape;
  ir::Builder body("max_pool", graph_.symbols());
  Shape low(4, 0), high(4, 0);
  for (size_t i = 0; i < 2; ++i) {
    low[2 + i] = padding[i];
    const Dim reach = (size[2 + i] - 1) * Dim(stride[i]) + Dim(dilation[i] * (kernel[i] - 1) + 1);
    high[2 + i] = Dim::max(reach - type.shape[2 + i] - Dim(padding[i]), 0);
  }
  const ValueId plane =
      body.emit(OpCode::pad, {body.input(type), ir::Scalar::of(type.dtype, -INFINITY)},
                {ir::Attr(low), ir::Attr(high)});
  const auto shifted = [&](ValueId v, size_t axis, int64_t place) {
    const Dim end = (size[2 + axis] - 1) * Dim(stride[axis]) + Dim(place + 1);
    return body.emit(OpCode::slice, {v},
                     {static_cast<int64_t>(2 + axis), Dim(place), end, stride[axis]});
  };
  ValueId largest;
  for (int64_t y = 0; y < kernel[0]; ++y) {
    for (int64_t x = 0; x < kernel[1]; ++x) {
      const ValueId v = shifted(shifted(plane, 0, y * dilation[0]), 1, x * dilation[1]);
      largest = largest ? later_maximum(body, v, largest) : v;
    }
  }
  body.output(largest);
  const KernelId made =
      generate({RequestKind::Elementwise, "max_pool", std::make_shared<ir::Graph>(body.finish())},
               {in}, {out});
  record(PlanKind::Generated, eqn_->info().name, writer_.kernel_name(made));
}

void Planner::max_pool() {
  const bool in_kernel = pools_in_kernel(place_of(eqn_->inputs[0]).window);
  const Place in =
      in_kernel ? place_of(eqn_->inputs[0]) : image(eqn_->inputs[0], [&](const Window& w) {
        return !may_be_negative(w, graph_.symbols());
      });
  const bool channels_last = is_channels_last(in.window);
  std::vector<ViewId> outs;
  std::vector<Place> places;
  for (const ValueId v : eqn_->outs) {
    if (in_kernel && !places.empty()) break;
    const ir::TensorType& type = graph_.type(v);
    const Shape strides =
        channels_last ? channels_last_strides(type.shape) : contiguous_strides(type.shape);
    const Place out =
        fresh(type, strides, facts_[v.index].escapes ? BufferClass::Output : BufferClass::Arena);
    places.push_back(out);
    outs.push_back(view_of(out, type.dtype));
    set_place(v, out);
  }
  if (in_kernel) return max_pool_kernel(in, places[0]);
  std::vector<int64_t> ints;
  for (const std::string_view a : {"kernel", "stride", "padding", "dilation"})
    append(ints, eqn_->attr<std::vector<int64_t>>(a));
  ints.push_back(eqn_->attr<bool>("ceil") ? 1 : 0);
  library(LibraryOp::max_pool2d, {view_of(in, graph_.type(eqn_->inputs[0]).dtype)}, outs,
          std::move(ints), {});
}

}  // namespace poot::passes
