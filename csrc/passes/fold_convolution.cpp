// Option freeze: what follows a convolution channel by channel goes into it. The library computes
// with weights that are multiplied by the scale when they are packed, which happens once, and adds
// the shift, a residual and the cut at zero where it writes its result:
//
//   %0 = convolution %x, %w                  %4 = convolution_folded %x, %w, %scale, %shift, %r
//   %1 = mul %0, %scale      [1,C,1,1]            {relu=true}
//   %2 = add %1, %shift      [1,C,1,1]  =>
//   %3 = add %2, %r
//   %4 = maximum %3, 0                       (or one fma for %1 and %2)
//
// Scale and shift must be computed from weights alone, and nothing else may read what lies between.
// The results differ from the unfolded graph's by roundings, so this is no rewrite of canonicalize:
// with packed weights the user has said that the library may choose. bf16 chains are in f32 between
// two casts; residual and cut follow the last.
#include <algorithm>

#include "ir/scalar_eval.h"
#include "passes/pass.h"
#include "passes/plan_facts.h"

namespace poot::passes {
namespace {

using ir::Eqn;
using ir::OpCode;
using ir::Operand;
using ir::ValueId;

struct Chain {
  Operand scale, shift;
  std::optional<Operand> residual;
  bool relu = false;
  uint32_t last = 0;  // equation that the folded one replaces
};

class Fold {
 public:
  Fold(const ir::Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), users_(graph.value_count()) {
    for (uint32_t e = 0; e < graph.eqns().size(); ++e)
      for (const Operand& o : eqn(e).inputs)
        if (ir::is_value(o)) users_[std::get<ValueId>(o).index].push_back(e);
    for (const ir::GraphOutput& out : graph.outputs()) users_[out.value.index].push_back(kOutput);
    weights_.assign(graph.value_count(), false);
    for (const ValueId v : graph.inputs())
      weights_[v.index] = std::holds_alternative<ir::WeightRef>(graph.value(v).identity);
    for (const Eqn& e : graph.eqns()) {
      const bool pure = ir::is_pointwise(e.info().kind) || ir::is_view(e.info().kind);
      const bool all = std::ranges::all_of(e.inputs, [&](const Operand& o) { return weight(o); });
      for (const ValueId out : e.outs) weights_[out.index] = pure && all;
    }
  }

  // `alone`: without a residual and what follows it.
  std::optional<Chain> chain(const Eqn& conv, bool alone) const {
    if (!keeps_packed(graph_, conv, context_) || conv.inputs.size() != 2) return std::nullopt;
    Chain c;
    ValueId at = conv.outs[0];
    const DType dtype = graph_.type(at).dtype, wide = opmath(dtype);
    const bool casts = dtype != wide;
    if (casts && !step(at, OpCode::cast, wide)) return std::nullopt;
    if (!scale_and_shift(at, c)) return std::nullopt;
    if (casts && !step(at, OpCode::cast, dtype)) return std::nullopt;
    if (!alone) c.residual = residual(at);
    c.relu = relu(at);
    c.last = static_cast<uint32_t>(graph_.def(at));
    return c;
  }

 private:
  static constexpr uint32_t kOutput = ~0u;
  const Eqn& eqn(uint32_t e) const { return graph_.eqns()[e]; }
  bool weight(const Operand& o) const {
    return !ir::is_value(o) || weights_[std::get<ValueId>(o).index];
  }

  // The only reader of a value, if it is an equation of this kind.
  const Eqn* reader(ValueId v, OpCode op) const {
    const auto& users = users_[v.index];
    if (users.size() != 1 || users[0] == kOutput || eqn(users[0]).op != op) return nullptr;
    return &eqn(users[0]);
  }

  bool step(ValueId& at, OpCode op, DType to) const {
    const Eqn* e = reader(at, op);
    if (!e || graph_.type(e->outs[0]).dtype != to) return false;
    at = e->outs[0];
    return true;
  }

  // The other operand, where the value goes on in its own shape; `at` moves on.
  std::optional<Operand> other(ValueId& at, OpCode op, auto&& accepts) const {
    const Eqn* e = reader(at, op);
    if (!e || graph_.type(e->outs[0]) != graph_.type(at)) return std::nullopt;
    const Operand& o = e->inputs[e->inputs[0] == Operand(at) ? 1 : 0];
    if (!accepts(o)) return std::nullopt;
    at = e->outs[0];
    return o;
  }

  // Whether the operand is computed from weights and holds a number for each channel of `v`.
  bool by_channel(const Operand& o, ValueId v) const {
    if (!ir::is_value(o) || !weight(o)) return false;
    const Dim& channels = graph_.type(v).shape[1];
    const Shape own = graph_.type(o).shape;
    return own.size() >= 3 && own[own.size() - 3] == channels && numel(own) == channels;
  }

  // A scale and a shift by channel, in one rounding (fma) or in two; `at` moves on.
  bool scale_and_shift(ValueId& at, Chain& c) const {
    if (const Eqn* e = reader(at, OpCode::fma)) {
      const Operand &scale = e->inputs[e->inputs[0] == Operand(at) ? 1 : 0], &shift = e->inputs[2];
      if (graph_.type(e->outs[0]) != graph_.type(at) || !by_channel(scale, at) ||
          !by_channel(shift, at))
        return false;
      c.scale = scale;
      c.shift = shift;
      at = e->outs[0];
      return true;
    }
    const auto accepts = [&](const Operand& o) { return by_channel(o, at); };
    const auto scale = other(at, OpCode::mul, accepts);
    const auto shift = scale ? other(at, OpCode::add, accepts) : std::nullopt;
    if (!shift) return false;
    c.scale = *scale;
    c.shift = *shift;
    return true;
  }

  std::optional<Operand> residual(ValueId& at) const {
    const ir::TensorType type = graph_.type(at);
    const ValueId own = at;
    return other(at, OpCode::add, [&](const Operand& o) {
      return ir::is_value(o) && o != Operand(own) && graph_.type(o) == type;
    });
  }

  bool relu(ValueId& at) const {
    return other(at, OpCode::maximum,
                 [&](const Operand& o) {
                   const auto* s = std::get_if<ir::Scalar>(&o);
                   return s != nullptr &&
                          ir::to_double(ir::bits_of(*s), graph_.type(at).dtype) == 0;
                 })
        .has_value();
  }

  const ir::Graph& graph_;
  const PassContext& context_;
  std::vector<std::vector<uint32_t>> users_;
  std::vector<bool> weights_;  // computed from weights alone
};

}  // namespace

bool fold_convolution(ir::Graph& graph, PassContext& context) {
  if (!context.options.freeze) return false;
  const Fold fold(graph, context);
  std::vector<std::optional<Chain>> ends(graph.eqns().size());
  std::vector<uint32_t> starts(graph.eqns().size());
  bool any = false;
  for (uint32_t e = 0; e < graph.eqns().size(); ++e)
    if (auto c = fold.chain(graph.eqns()[e], false)) {
      // The sum of two convolutions is folded into the first.
      if (ends[c->last]) c = fold.chain(graph.eqns()[e], true);
      any = true;
      starts[c->last] = e;
      ends[c->last] = std::move(c);
    }
  if (!any) return false;
  ir::GraphEdit edit(graph);
  std::vector<Eqn> out;
  for (uint32_t e = 0; e < ends.size(); ++e) {
    const Eqn last = edit.eqns()[e];
    if (!ends[e]) {
      out.push_back(last);
      continue;
    }
    const Chain& c = *ends[e];
    const Eqn conv = edit.eqns()[starts[e]];
    const Dim channels = graph.type(conv.outs[0]).shape[1];
    std::vector<Operand> inputs(conv.inputs.begin(), conv.inputs.end());
    for (const Operand& vector : {c.scale, c.shift}) {
      out.push_back(edit.make(OpCode::reshape, {vector}, {Shape{channels}}));
      inputs.push_back(out.back().outs[0]);
    }
    if (c.residual) inputs.push_back(*c.residual);
    const auto& ints = [&](std::string_view n) { return conv.attr<std::vector<int64_t>>(n); };
    Eqn folded = edit.make(
        OpCode::convolution_folded, std::move(inputs),
        {ints("stride"), ints("padding"), ints("dilation"), conv.attr<int64_t>("groups"), c.relu});
    folded.origins = conv.origins;
    edit.replace_uses(last.outs[0], folded.outs[0]);
    context.fusions.push_back({"fold_convolution", "convolution_packed", 0});
    out.push_back(std::move(folded));
    out.push_back(last);
  }
  edit.eqns() = std::move(out);
  edit.commit();
  return true;
}

}  // namespace poot::passes
