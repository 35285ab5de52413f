// Attention of few queries, as when tokens are generated one by one: the libraries pack keys and
// values for products of many rows and take ten times as long as reading them does. Here each score
// is a sum along a key, each result a sum across the values, and generated kernels read both as
// they lie:
//
//   %o, %lse = attention %q, %k, %v      q [B, Hk * G, L, D], k and v [B, Hk, S, D]
//   =>
//   s [B, Hk, G, L, S] = sum over D of q [.., 1, D] * k [B, Hk, 1, 1, S, D], times scale, masked
//   p = exp(s - top) / total,  top and total over S;   lse = log(total) + top
//   o [B, Hk, G, L, D] = sum over S of p [.., S, 1] * v [B, Hk, 1, 1, S, D]
//
// Scores and probabilities are f32, as in `attention`. A row without a key that may be looked at
// gives zeros: its top, -inf, is replaced by 0 and its total, 0, by 1.
#include <cmath>

#include "passes/fusion_cost.h"
#include "passes/pass.h"

namespace poot::passes {
namespace {

using ir::Eqn;
using ir::OpCode;
using ir::Operand;
using ir::Scalar;
using ir::ValueId;

constexpr DType kWide = DType::F32;

class Expansion {
 public:
  Expansion(ir::GraphEdit& edit, const Eqn& eqn, std::vector<Eqn>& to)
      : edit_(edit), eqn_(eqn), to_(to) {
    const Shape q = type(0).shape, k = type(1).shape;
    groups_ = Dim(q[1].value() / k[1].value());
    scores_ = {q[0], k[1], groups_, q[2], k[2]};
    depth_ = q[3];
  }

  // Results of the equation in the same order.
  std::pair<ValueId, ValueId> run() {
    const Shape queries = {scores_[0], scores_[1], groups_, scores_[3], 1, depth_};
    const ValueId q = reshape(wide(eqn_.inputs[0]), queries), k = keys(1), v = keys(2);
    ValueId s = sum(emit(OpCode::mul, {q, k}), 5, false);
    s = masked(emit(OpCode::mul, {s, scale()}));
    const ValueId most = reduce(OpCode::reduce_max, s, 4, true);
    const ValueId none = emit(OpCode::eq, {most, number(-INFINITY)});
    const ValueId top = emit(OpCode::select, {none, number(0), most});
    const ValueId powers = emit(OpCode::exp, {emit(OpCode::sub, {s, top})});
    const ValueId total = sum(powers, 4, true);
    const ValueId empty = emit(OpCode::eq, {total, number(0)});
    const ValueId divisor = emit(OpCode::select, {empty, number(1), total});
    Shape each = scores_;
    each.push_back(1);
    const ValueId p = reshape(emit(OpCode::div, {powers, divisor}), each);
    ValueId out = sum(emit(OpCode::mul, {p, v}), 4, false);
    if (type(0).dtype != kWide) out = emit(OpCode::cast, {out}, {type(0).dtype});
    const ValueId lse = emit(OpCode::add, {emit(OpCode::log, {total}), top});
    return {reshape(out, edit_.type(eqn_.outs[0]).shape),
            reshape(lse, edit_.type(eqn_.outs[1]).shape)};
  }

 private:
  ir::TensorType type(size_t input) const {
    return edit_.type(std::get<ValueId>(eqn_.inputs[input]));
  }
  Operand scale() {
    if (const auto given = eqn_.number("scale")) return number(*given);
    const ValueId size = emit(OpCode::cast, {emit(OpCode::size_value, {}, {depth_})}, {DType::F64});
    const ValueId each =
        emit(OpCode::div, {Scalar::of(DType::F64, 1.0), emit(OpCode::sqrt, {size})});
    return emit(OpCode::cast, {each}, {kWide});
  }
  static Operand number(double v) { return Scalar::of(kWide, v); }

  ValueId emit(OpCode op, std::vector<Operand> inputs, std::vector<ir::Attr> attrs = {}) {
    to_.push_back(edit_.make(op, std::move(inputs), std::move(attrs)));
    to_.back().origins = eqn_.origins;
    return to_.back().outs[0];
  }
  ValueId reshape(ValueId v, const Shape& to) { return emit(OpCode::reshape, {v}, {to}); }
  ValueId reduce(OpCode op, ValueId v, int64_t axis, bool keepdim) {
    return emit(op, {v}, {std::vector<int64_t>{axis}, keepdim});
  }
  ValueId sum(ValueId v, int64_t axis, bool keepdim) {
    return reduce(OpCode::reduce_sum, v, axis, keepdim);
  }
  ValueId wide(const Operand& o) {
    const ValueId v = std::get<ValueId>(o);
    return edit_.type(v).dtype == kWide ? v : emit(OpCode::cast, {v}, {kWide});
  }
  ValueId keys(size_t input) {
    return reshape(wide(eqn_.inputs[input]), {scores_[0], scores_[1], 1, 1, scores_[4], depth_});
  }

  ValueId masked(ValueId s) {
    if (eqn_.inputs.size() > 3) s = with_mask(s, std::get<ValueId>(eqn_.inputs[3]));
    if (!eqn_.attr<bool>("causal")) return s;
    const auto places = [&](const Dim& n) {
      return emit(OpCode::iota, {}, {DType::I64, n, Dim(0), Dim(1)});
    };
    const ValueId queries = reshape(places(scores_[3]), {scores_[3], 1});
    const ValueId allowed = emit(OpCode::le, {places(scores_[4]), queries});
    return emit(OpCode::select, {allowed, s, number(-INFINITY)});
  }

  ValueId with_mask(ValueId s, ValueId mask) {
    Shape shape = edit_.type(mask).shape;
    if (shape.size() > 2) {  // heads as pairs
      Dim& heads = shape[shape.size() - 3];
      const bool same = heads.is_const(1);
      if (!same) heads = scores_[1];
      shape.insert(shape.end() - 2, same ? Dim(1) : groups_);
    }
    const ValueId m = reshape(mask, shape);
    if (edit_.type(m).dtype == DType::Bool) return emit(OpCode::select, {m, s, number(-INFINITY)});
    return emit(OpCode::add, {s, wide(m)});
  }

  ir::GraphEdit& edit_;
  const Eqn& eqn_;
  std::vector<Eqn>& to_;
  Dim groups_, depth_;
  Shape scores_;  // [B, Hk, G, L, S]
};

}  // namespace

bool expand_attention(ir::Graph& graph, PassContext& context) {
  std::vector<bool> expands;
  bool any = false;
  for (const Eqn& e : graph.eqns()) {
    expands.push_back(e.op == OpCode::attention && pays_as_kernels(graph, e, context.target));
    any = any || expands.back();
  }
  if (!any) return false;
  ir::GraphEdit edit(graph);
  const std::vector<Eqn> eqns = std::move(edit.eqns());
  std::vector<Eqn> out;
  for (size_t i = 0; i < eqns.size(); ++i) {
    if (!expands[i]) {
      out.push_back(eqns[i]);
      continue;
    }
    const auto [result, lse] = Expansion(edit, eqns[i], out).run();
    edit.replace_uses(eqns[i].outs[0], result);
    edit.replace_uses(eqns[i].outs[1], lse);
  }
  edit.eqns() = std::move(out);
  edit.commit();
  return true;
}

}  // namespace poot::passes
