// Equivalent spellings become one. A forward sweep applies the families of rules to each equation
// until none changes it; operands are resolved first, so a rule sees its operands' final form.
// Every rule keeps all bits (NaN payloads apart): what would change rounding, the sign of zero or
// the order of additions is refused, and recorded.
//
//   %1 = cast %x {to=f32}; %2 = mul %1, f32 1.0; %3 = cast %2 {to=f16}   =>   %x   (x: f16)
//
// Left alone: equations of a provenance group (recognition needs them intact), and a result that is
// a graph output if what it equals is an input or another output (the caller gets its own tensor).
#include "passes/canonicalize.h"

#include "passes/value_label.h"

namespace poot::passes {

namespace {

constexpr int kMaxRounds = 8;  // rules shrink an equation; a chain of rewrites is short

Rewrite apply_rules(CanonicalSweep& sweep, ir::Eqn& eqn) {
  for (const auto rule : {simplify_view, simplify_lookup, simplify_cast, fold_constants,
                          simplify_operands, simplify_arithmetic}) {
    const Rewrite r = rule(sweep, eqn);
    if (r.changed) return r;
  }
  return Rewrite::none();
}

}  // namespace

const Shape& CanonicalSweep::shape(const ir::Operand& o) const {
  static const Shape kScalar;
  return ir::is_value(o) ? edit.type(std::get<ir::ValueId>(o)).shape : kScalar;
}

DType CanonicalSweep::dtype(const ir::Operand& o) const {
  return ir::is_value(o) ? edit.type(std::get<ir::ValueId>(o)).dtype
                         : std::get<ir::Scalar>(o).dtype;
}

const ir::Eqn* CanonicalSweep::def(const ir::Operand& o) const {
  if (!ir::is_value(o)) return nullptr;
  const uint32_t v = std::get<ir::ValueId>(o).index;
  return v < defined_by_.size() && defined_by_[v] > 0
             ? &done[static_cast<size_t>(defined_by_[v]) - 1]
             : nullptr;
}

std::optional<ir::Scalar> CanonicalSweep::constant(const ir::Operand& o) const {
  if (!ir::is_value(o)) return std::get<ir::Scalar>(o);
  const ir::Eqn* d = def(o);
  if (d && d->op == ir::OpCode::full && !ir::is_value(d->inputs[0]))
    return std::get<ir::Scalar>(d->inputs[0]);
  return std::nullopt;
}

void CanonicalSweep::emit(ir::Eqn eqn) {
  for (const ir::ValueId out : eqn.outs) {
    if (out.index >= defined_by_.size()) defined_by_.resize(out.index + 1, 0);
    defined_by_[out.index] = static_cast<int32_t>(done.size()) + 1;
  }
  done.push_back(std::move(eqn));
}

void CanonicalSweep::decline(const ir::Eqn& eqn, std::string reason) {
  context.numerical_declines.push_back(
      {"canonicalize", value_label(graph, eqn), std::move(reason)});
}

bool canonicalize(ir::Graph& graph, PassContext& context) {
  std::vector<bool> is_output(graph.value_count(), false);
  for (const ir::GraphOutput& out : graph.outputs()) is_output[out.value.index] = true;
  std::vector<ir::ValueId> now(graph.value_count());
  for (uint32_t v = 0; v < now.size(); ++v) now[v] = ir::ValueId(v);

  ir::GraphEdit edit(graph);
  CanonicalSweep sweep(graph, edit, context);
  bool changed = false;
  const std::vector<ir::Eqn> original = std::move(edit.eqns());
  for (const ir::Eqn& source : original) {
    ir::Eqn eqn = source;
    for (ir::Operand& o : eqn.inputs)
      if (ir::is_value(o)) o = now[std::get<ir::ValueId>(o).index];
    Rewrite r = Rewrite::in_place();
    for (int round = 0; round < kMaxRounds && r.changed && !r.same_as && !eqn.group; ++round) {
      r = apply_rules(sweep, eqn);
      changed = changed || r.changed;
    }
    if (r.same_as) {
      const ir::ValueId own = eqn.outs[0], same = *r.same_as;
      now[own.index] = same;
      const bool callers = is_output[own.index] && (graph.is_input(same) || is_output[same.index]);
      if (!callers) {
        edit.replace_uses(own, same);
        is_output[same.index] = is_output[same.index] || is_output[own.index];
        continue;
      }
    }
    sweep.emit(std::move(eqn));
  }
  if (!changed) return false;
  edit.eqns() = std::move(sweep.done);
  edit.commit();
  return true;
}

}  // namespace poot::passes
