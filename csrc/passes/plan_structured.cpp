// Structured operations, and attention as a library call. Results that the library allocates get
// the strides that it chooses anyway, so that the host need not copy: attention's result is dense
// with its axes in the order of the query's, its log-sum-exp [B, H, L] dense as [B, L, H].
#include "passes/planner.h"
#include "support/errors.h"

namespace poot::passes {

using namespace program;
using ir::OpCode;
using ir::Operand;
using ir::ValueId;

Place Planner::owned(ValueId v, Shape strides) {
  return fresh(graph_.type(v), strides, BufferClass::Owned);
}

void Planner::structured() {
  switch (eqn_->op) {
    case OpCode::convolution:
      return convolution();
    case OpCode::convolution_folded:
      return convolution_call();
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
  const std::optional<double> scale = eqn_->number("scale");
  library(LibraryOp::sdpa, std::move(inputs), std::move(outs), {eqn_->attr<bool>("causal") ? 1 : 0},
          scale ? std::vector{*scale} : std::vector<double>());
}

}  // namespace poot::passes
