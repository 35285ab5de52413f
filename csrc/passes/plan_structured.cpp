// Convolution, pooling and attention as library calls. Results that the library allocates get the
// strides that it chooses anyway, so that the host need not copy:
//   convolution  channels_last if the input or the weight lies so, else contiguous
//   sdpa         out: dense, axes in the order of the query's; log-sum-exp [B, H, L]: dense as
//                [B, L, H]
#include <algorithm>

#include "passes/planner.h"
#include "support/errors.h"

namespace poot::passes {

using namespace program;
using ir::OpCode;
using ir::Operand;
using ir::ValueId;

namespace {

bool is_channels_last(const Window& w) {
  if (w.shape.size() != 4 && w.shape.size() != 5) return false;
  return !is_contiguous(w) && same_strides(w.shape, w.strides, channels_last_strides(w.shape));
}

void append(std::vector<int64_t>& to, const std::vector<int64_t>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

constexpr std::string_view kNegative = "the host has no negative strides";

}  // namespace

Place Planner::owned(ValueId v, Shape strides) {
  return fresh(graph_.type(v), strides, BufferClass::Owned);
}

void Planner::structured() {
  switch (eqn_->op) {
    case OpCode::convolution:
      return convolution();
    case OpCode::max_pool:
      return max_pool();
    case OpCode::attention:
      return attention();
    default:
      break;
  }
  throw Unsupported(std::string(eqn_->info().name) + " " + value_name(eqn_->outs[0]),
                    "no library call or generator");
}

Place Planner::image(const Operand& o, const Accept& accept) {
  const Place p = operand(o, kNegative, accept);
  const std::optional<Shape> wanted = preferred_image(graph_, *eqn_);
  if (!wanted || same_strides(p.window.shape, p.window.strides, *wanted)) return p;
  return copied(p, graph_.type(o).dtype, *wanted, BufferClass::Arena, value_name(o),
                "the library's narrow kernels are faster in another layout");
}

void Planner::convolution() {
  auto accept = [&](const Window& w) { return !may_be_negative(w, graph_.symbols()); };
  std::vector<ViewId> inputs;
  bool channels_last = false;
  for (const Operand& o : eqn_->inputs) {
    const Place p = inputs.empty() ? image(o, accept) : operand(o, kNegative, accept);
    if (inputs.size() < 2) channels_last = channels_last || is_channels_last(p.window);
    inputs.push_back(view_of(p, graph_.type(o).dtype));
  }
  if (inputs.size() == 2) inputs.push_back(ViewId());
  const auto& stride = eqn_->attr<std::vector<int64_t>>("stride");
  std::vector<int64_t> ints = {static_cast<int64_t>(stride.size())};
  append(ints, stride);
  append(ints, eqn_->attr<std::vector<int64_t>>("padding"));
  append(ints, eqn_->attr<std::vector<int64_t>>("dilation"));
  ints.push_back(eqn_->attr<bool>("transposed") ? 1 : 0);
  append(ints, eqn_->attr<std::vector<int64_t>>("output_padding"));
  ints.push_back(eqn_->attr<int64_t>("groups"));
  const ValueId v = eqn_->outs[0];
  const ir::TensorType& type = graph_.type(v);
  const Place out =
      owned(v, channels_last ? channels_last_strides(type.shape) : contiguous_strides(type.shape));
  library(LibraryOp::convolution, std::move(inputs), {view_of(out, type.dtype)}, std::move(ints),
          {});
  set_place(v, out);
}

void Planner::max_pool() {
  const Place in = image(eqn_->inputs[0],
                         [&](const Window& w) { return !may_be_negative(w, graph_.symbols()); });
  const bool channels_last = is_channels_last(in.window);
  std::vector<ViewId> outs;
  for (const ValueId v : eqn_->outs) {
    const ir::TensorType& type = graph_.type(v);
    const Shape strides =
        channels_last ? channels_last_strides(type.shape) : contiguous_strides(type.shape);
    const Place out =
        fresh(type, strides, facts_[v.index].escapes ? BufferClass::Output : BufferClass::Arena);
    outs.push_back(view_of(out, type.dtype));
    set_place(v, out);
  }
  std::vector<int64_t> ints;
  for (const std::string_view a : {"kernel", "stride", "padding", "dilation"})
    append(ints, eqn_->attr<std::vector<int64_t>>(a));
  ints.push_back(eqn_->attr<bool>("ceil") ? 1 : 0);
  library(LibraryOp::max_pool2d, {view_of(in, graph_.type(eqn_->inputs[0]).dtype)}, outs,
          std::move(ints), {});
}

void Planner::attention() {
  auto accept = [&](const Window& w) {
    return !may_be_negative(w, graph_.symbols()) &&
           (w.shape.back().is_const(1) || w.strides.back().is_const(1));
  };
  std::vector<ViewId> inputs;
  Shape query_strides;
  const DType dtype = graph_.type(eqn_->inputs[0]).dtype;
  for (size_t i = 0; i < 3; ++i) {
    const Place p = operand(eqn_->inputs[i], "the head axis has not stride 1", accept);
    if (i == 0) query_strides = p.window.strides;
    inputs.push_back(view_of(p, dtype));
  }
  const ir::TensorType& out_type = graph_.type(eqn_->outs[0]);
  if (eqn_->inputs.size() > 3) {  // the host adds masks; a bool mask becomes 0 and -inf first
    const Operand& o = eqn_->inputs[3];
    const ir::TensorType mask = graph_.type(o);
    Place p = place_of(o);
    if (mask.dtype == DType::Bool) {
      const Place filled =
          fresh({dtype, mask.shape}, contiguous_strides(mask.shape), BufferClass::Arena);
      fill_mask(p, filled, mask, dtype);
      p = filled;
    } else {
      p = operand(o, kNegative,
                  [&](const Window& w) { return !may_be_negative(w, graph_.symbols()); });
    }
    const Shape& q = out_type.shape;
    const Dim keys = graph_.type(eqn_->inputs[1]).shape[2];
    p.window = expand(p.window, {q[0], q[1], q[2], keys});
    inputs.push_back(view_of(p, mask.dtype == DType::Bool ? dtype : mask.dtype));
  }
  std::vector<ViewId> outs;
  const Place out =
      owned(eqn_->outs[0], dense_strides_like(out_type.shape, query_strides, graph_.symbols()));
  outs.push_back(view_of(out, out_type.dtype));
  set_place(eqn_->outs[0], out);
  const ir::TensorType& lse = graph_.type(eqn_->outs[1]);
  const Place sums = owned(eqn_->outs[1], {lse.shape[1] * lse.shape[2], Dim(1), lse.shape[1]});
  outs.push_back(view_of(sums, lse.dtype));
  set_place(eqn_->outs[1], sums);
  library(LibraryOp::sdpa, std::move(inputs), std::move(outs), {eqn_->attr<bool>("causal") ? 1 : 0},
          {eqn_->attr<double>("scale")});
}

}  // namespace poot::passes
