// Softmax and its kin over long rows, read once less:
//
//   m = max x;  s = sum e^(x - m);  … e^(x - m) / s …, … x - m - log s …, … m + log s …
//
// None of the results depends on m, as long as nothing overflows and the greatest term keeps its
// digits. So the row is summed against a guess, the maximum of its first kGuessed elements, while
// the true one is taken beside it; if the two lie too far apart (or are infinite), the row is
// summed again with the true one. A NaN passes by the maximum here: it reaches the sum.
//
// Quotients stay with the guess. Logarithms, which would cancel against it, go back to the true
// maximum: s is multiplied by e^(guess - m); and as the terms' differences from the guess are
// rounded, it may lie less far off.
//
// A sum in eager's order, for eager's bits, wants the true maximum: NaNs alone pass by it.
#include <algorithm>
#include <limits>

#include "codegen/lower/block_lowering.h"
#include "codegen/math/softmax.h"

namespace poot::codegen::lowering {

using ir::OpCode;
using kir::Op;
using kir::Pred;
using math::Part;
using tile::AxisId;
using tile::ValueId;
using KValue = kir::ValueId;

namespace {

constexpr int64_t kGuessed = 1024;
constexpr int64_t kShortest = 2 * kGuessed;  // rows that gain by it
// e^60 times a row's length is finite; a difference of 16 is rounded by less than 10^-6.
constexpr float kApart = 60, kApartOfLogs = 16;

class Parts {
 public:
  Parts(const TileFacts& facts, ValueId maximum, ValueId operand)
      : facts_(facts), operand_(operand) {
    parts_[maximum.index] = Part::Maximum;
  }

  // Whether every value that depends on the maximum is a part, or a result that does not change.
  bool visit(const tile::Block& b) {
    return std::all_of(b.insts.begin(), b.insts.end(), [&](const tile::Inst& inst) {
      if (!inst.results.empty() && !facts_.live(inst.results[0])) return true;
      const std::vector<ValueId> operands = facts_.operands(inst);
      const bool depends = std::any_of(operands.begin(), operands.end(),
                                       [&](ValueId v) { return part(v) != Part::None; });
      return (!depends || accept(inst)) &&
             std::all_of(inst.blocks.begin(), inst.blocks.end(),
                         [&](const tile::Block& inner) { return visit(inner); });
    });
  }
  // Results are quotients, or logarithms, not both.
  bool quotients() const { return quotients_ && !logs_; }
  bool logs() const { return logs_ && !quotients_; }
  const std::vector<ValueId>& terms() const { return terms_; }

 private:
  Part part(ValueId v) const {
    const auto it = parts_.find(v.index);
    return it == parts_.end() ? Part::None : it->second;
  }

  bool accept(const tile::Inst& inst) {
    const ValueId result = inst.results.empty() ? ValueId() : inst.results[0];
    const auto becomes = [&](Part p) {
      parts_[result.index] = p;
      return true;
    };
    if (inst.op == tile::Op::broadcast) return becomes(part(inst.args[0]));
    if (inst.op == tile::Op::reduce)
      return part(inst.args[0]) == Part::Exponential && inst.pointwise == OpCode::reduce_sum &&
             becomes(Part::Sum);
    if (inst.op != tile::Op::pointwise || inst.dtype != DType::F32 || inst.args.size() > 2)
      return false;
    const Part a = part(inst.args[0]), b = inst.args.size() > 1 ? part(inst.args[1]) : Part::None;
    const std::optional<Part> p = math::part_of(inst.pointwise, a, b);
    if (!p) return false;
    logs_ = logs_ || p == Part::LogSum;
    quotients_ = quotients_ || p == Part::Inverse || (p == Part::None && a == Part::Exponential);
    if (p == Part::Shifted) bounded_[result.index] = inst.args[0] == operand_;
    if (p == Part::Exponential) {
      if (!bounded_[inst.args[0].index]) return false;
      terms_.push_back(result);
    }
    return p == Part::None || becomes(*p);
  }

  const TileFacts& facts_;
  const ValueId operand_;
  std::unordered_map<uint32_t, Part> parts_;
  std::unordered_map<uint32_t, bool> bounded_;  // of Shifted: it is at most 0
  std::vector<ValueId> terms_;
  bool quotients_ = false, logs_ = false;
};

}  // namespace

// Marks the maximum of a nest that may be guessed, and moves it to the phase of the sum.
void BlockLowering::mark_guess(std::vector<Root>& roots) {
  if (target_.isa != Isa::X86) return;
  Root* maximum = nullptr;
  for (Root& r : roots) {
    if (!r.column || r.level > 1) continue;
    if (r.level == 1 && !r.reduces_column()) return;
    if (r.level == 1) continue;
    if (maximum != nullptr) return;
    maximum = &r;
  }
  if (maximum == nullptr || !maximum->reduces_column() || maximum->is_dot() ||
      maximum->inst->pointwise != OpCode::reduce_max ||
      facts_.program().type(maximum->value).dtype != DType::F32)
    return;
  bool ordered = false;
  for (const Root& r : roots) {
    if (r.level == 1 && r.column && r.column != maximum->column) return;
    ordered = ordered || order_of(r) != ir::ReduceOrder::any;
  }
  const auto fixed = emit_.static_extent(maximum->column);
  const int64_t most = fixed.value_or(facts_.program().axes.at(maximum->column.index).capacity);
  if (!ordered && most < kShortest) return;
  Parts parts(facts_, maximum->kept_as, maximum->value);
  if (!parts.visit(facts_.program().body)) return;
  maximum->passes_nan = ordered && (parts.quotients() || parts.logs());
  if (ordered) return;
  if (parts.quotients()) maximum->guess = Root::Quotients;
  if (parts.logs()) maximum->guess = Root::Logs;
  if (maximum->guess == Root::None) return;
  maximum->level = 1;
  for (ValueId v : parts.terms()) emit_.note_term(v);
}

void BlockLowering::guessed_phase(AxisId column, const std::vector<const Root*>& roots) {
  kir::KirBuilder& b = emit_.builder();
  const Root& maximum =
      **std::find_if(roots.begin(), roots.end(), [](const Root* r) { return r->guess; });
  std::vector<const Root*> others;
  std::vector<const Root*> sums;
  for (const Root* r : roots) {
    if (r->guess) continue;
    others.push_back(r);
    if (r->reduces_column()) sums.push_back(r);
  }
  // The results of `phase` run against `shift`: the maximum, then the sums.
  const auto against = [&](KValue shift, const std::vector<const Root*>& phase) {
    emit_.push_scope();
    if (shift) emit_.define(maximum.kept_as, {shift, {}});
    column_phase(column, phase);
    std::vector<KValue> out{emit_.exact(maximum.kept_as)};
    if (phase.size() > 1 || phase[0] != &maximum)
      for (const Root* r : sums) out.push_back(emit_.exact(r->kept_as));
    emit_.pop_scope();
    return out;
  };
  first_columns_ = kGuessed;
  const KValue first = against({}, {&maximum})[0];
  first_columns_ = {};
  const KValue lowest = b.f32(-std::numeric_limits<float>::infinity());
  const KValue guess = b.select(b.fcmp(Pred::oeq, first, lowest), b.f32(0), first);
  std::vector<KValue> found = against(guess, roots);
  const bool logs = maximum.guess == Root::Logs;
  const KValue truth = found[0], back = b.emit(Op::fsub, {guess, truth});
  const KValue near =
      b.fcmp(Pred::ole, b.emit(Op::fabs, {back}), b.f32(logs ? kApartOfLogs : kApart));
  found = b.if_else(
      near,
      [&] {
        if (!logs) {
          found[0] = guess;
          return found;
        }
        const KValue factor = math::exp_of_difference(b, back);
        for (size_t i = 1; i < found.size(); ++i) found[i] = b.emit(Op::fmul, {found[i], factor});
        return found;
      },
      [&] { return against(truth, others); });
  const auto define = [&](const Root& r, KValue v) {
    emit_.define(r.kept_as, {v, {}});
    if (r.array) emit_.keep(r.kept_as, *r.array, v);
  };
  define(maximum, found[0]);
  for (size_t i = 0; i < sums.size(); ++i) define(*sums[i], found[i + 1]);
}

}  // namespace poot::codegen::lowering
