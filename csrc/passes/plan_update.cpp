// Updates of a base. In place, the cost follows the update; else the base is copied first, and the
// copy is reported. In place is right when the base's memory is ours to overwrite (a transient, a
// donated argument, or the very argument whose next state this is), nothing reads the old contents
// afterwards, and no other operand lies in the same memory.
#include <algorithm>

#include "passes/planner.h"

namespace poot::passes {

using namespace program;
using ir::OpCode;
using ir::Operand;
using ir::ValueId;

bool Planner::may_update(const Place& base, ValueId result) const {
  const Buffer& b = writer_.buffer(base.buffer);
  const ValueFacts& f = facts_[result.index];
  bool ours = b.cls == BufferClass::Arena || b.cls == BufferClass::Owned;
  if (b.cls == BufferClass::Input) {
    const bool next_state = f.state && places_[f.state.index].buffer == base.buffer;
    ours = next_state || (donated_[b.index] && !f.escapes);
  }
  if (!ours || !dead_after_now(base.buffer) || is_broadcast(base.window)) return false;
  return std::none_of(eqn_->inputs.begin() + 1, eqn_->inputs.end(), [&](const Operand& o) {
    return ir::is_value(o) && places_[std::get<ValueId>(o).index].buffer == base.buffer;
  });
}

void Planner::update() {
  const ValueId result = eqn_->outs[0];
  const ir::TensorType& type = graph_.type(result);
  Place base = place_of(eqn_->inputs[0]);
  if (!ir::is_value(eqn_->inputs[0]) || !may_update(base, result)) {
    const Place to = destination(result);
    copy(base, to, type.dtype);
    out_.layout_copies.push_back({value_name(eqn_->inputs[0]),
                                  "the base of " + std::string(eqn_->info().name) +
                                      " is read again or is not ours to overwrite",
                                  numel(type.shape) * Dim(byte_size(type.dtype))});
    base = to;
  }
  if (eqn_->op == OpCode::update_slice) {
    Place window = base;
    window.window = slice_window(base.window, eqn_->attr<int64_t>("axis"), eqn_->attr<Dim>("start"),
                                 eqn_->attr<Dim>("end"), eqn_->attr<int64_t>("step"));
    Place source = place_of(eqn_->inputs[1]);
    source.window = expand(source.window, window.window.shape);
    copy(source, window, type.dtype);
    record(PlanKind::Generated, eqn_->info().name, "copy");
  } else {
    ir::Builder body("body", graph_.symbols());
    std::vector<Place> inputs;
    std::vector<Operand> operands;
    for (size_t i = 0; i < eqn_->inputs.size(); ++i) {
      const Operand& o = eqn_->inputs[i];
      inputs.push_back(i == 0 ? base : place_of(o));
      operands.push_back(body.input(graph_.type(o)));
    }
    for (const ValueId v : body.emit_multi(eqn_->op, std::move(operands), eqn_->attrs))
      body.output(v);
    KernelRequest request{RequestKind::Scatter, std::string(eqn_->info().name),
                          std::make_shared<ir::Graph>(body.finish())};
    const KernelId kernel = generate(std::move(request), inputs, {base});
    record(PlanKind::Generated, eqn_->info().name, writer_.kernel_name(kernel));
  }
  set_place(result, base);
}

}  // namespace poot::passes
