// One element a row of a computed tensor: the lookup moves to what the tensor is computed from, so
// that the tensor itself need not be. The loss of a classifier reads one log-probability a row:
//
//   %2 = sub %x, %lse : f32[256,32000]             %1 = take %x, %i {axis=1} : f32[256,1]
//   %3 = take %2, %i {axis=1} : f32[256,1]    =>   %3 = sub %1, %lse : f32[256,1]
//
// Bits stay: each picked element goes through the same steps. It is computed again where the tensor
// is needed for something else too, which is little beside reading it back.
#include <map>

#include "passes/canonicalize.h"

namespace poot::passes {
namespace {

using ir::OpCode;
using ir::Operand;
using ir::ValueId;

constexpr int64_t kFewest = 16;  // elements of the axis that make it worth the while
constexpr int kDeepest = 8;      // steps that are taken back

class Picking {
 public:
  Picking(CanonicalSweep& sweep, const ir::Eqn& take)
      : sweep_(sweep),
        take_(take),
        source_(sweep.shape(take.inputs[0])),
        axis_(static_cast<size_t>(take.attr<int64_t>("axis"))) {}

  // One index a row, of the very rows of the source.
  bool picks_one() const {
    const Shape& index = sweep_.shape(take_.inputs[1]);
    if (index.size() != source_.size() || source_[axis_].hint(sweep_.graph.symbols()) < kFewest)
      return false;
    for (size_t i = 0; i < index.size(); ++i)
      if (i == axis_ ? !index[i].is_const(1) : index[i] != source_[i]) return false;
    return true;
  }

  bool passes(const ir::Eqn& by) const {
    if (!ir::is_pointwise(by.info().kind) || by.group || by.outs.size() != 1) return false;
    for (const Operand& o : by.inputs)
      if (ir::is_value(o) && sweep_.shape(o) != source_ && !same_along_axis(o)) return false;
    return true;
  }

  // The picked element of each row of an operand.
  Operand picked(const Operand& o, int depth) {
    if (!ir::is_value(o) || same_along_axis(o)) return o;
    const auto v = std::get<ValueId>(o);
    if (const auto it = known_.find(v.index); it != known_.end()) return it->second;
    ir::Eqn made;
    const ir::Eqn* by = sweep_.def(o);
    if (by && depth < kDeepest && passes(*by)) {
      const ir::Eqn step = *by;  // emitting moves what `by` points to
      made = sweep_.edit.make(step.op, picked_operands(step, depth + 1), step.attrs);
      made.origins = step.origins;
    } else {
      made = sweep_.edit.make(OpCode::take, {o, take_.inputs[1]}, take_.attrs);
      made.origins = take_.origins;
    }
    const Operand out(made.outs[0]);
    sweep_.emit(std::move(made));
    known_.emplace(v.index, out);
    return out;
  }

  std::vector<Operand> picked_operands(const ir::Eqn& step, int depth) {
    std::vector<Operand> out;
    for (const Operand& o : step.inputs) out.push_back(picked(o, depth));
    return out;
  }

 private:
  bool same_along_axis(const Operand& o) const {
    const Shape& own = sweep_.shape(o);
    const size_t missing = source_.size() - own.size();
    return axis_ < missing || own[axis_ - missing].is_const(1);
  }

  CanonicalSweep& sweep_;
  const ir::Eqn take_;
  const Shape source_;
  const size_t axis_;
  std::map<uint32_t, Operand> known_;
};

}  // namespace

Rewrite simplify_lookup(CanonicalSweep& sweep, ir::Eqn& eqn) {
  if (eqn.op != OpCode::take || !ir::is_value(eqn.inputs[1])) return Rewrite::none();
  const ir::Eqn* by = sweep.def(eqn.inputs[0]);
  Picking picking(sweep, eqn);
  if (!by || !picking.picks_one() || !picking.passes(*by)) return Rewrite::none();
  const ir::Eqn step = *by;
  eqn.inputs = picking.picked_operands(step, 1);
  eqn.op = step.op;
  eqn.attrs = step.attrs;
  return Rewrite::in_place();
}

}  // namespace poot::passes
