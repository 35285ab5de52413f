// Edits. The draft is a copy whose value table only grows; replacements are recorded and applied in
// one walk at commit, through chains (a -> b, b -> c: a -> c) with path compression, so an edit
// costs the size of the graph however many replacements it makes. Commit then renumbers values
// (inputs first, then results in order), leaving out what nothing defines, drops groups without
// equations, and verifies. Nothing is deleted for being unused: that is dce's work.
#include "ir/graph.h"

namespace poot::ir {
namespace {

class Replacements {
 public:
  Replacements(const Graph& draft, const std::vector<std::pair<ValueId, ValueId>>& pairs)
      : to_(draft.value_count()) {
    for (size_t i = 0; i < to_.size(); ++i) to_[i] = ValueId(static_cast<uint32_t>(i));
    for (auto [from, to] : pairs) {
      const ValueId a = resolve(from), b = resolve(to);
      if (a == b) throw InvalidGraph("edit-C2", "replace_uses", "the replacements form a cycle");
      to_[a.index] = b;
    }
  }

  ValueId resolve(ValueId v) {
    if (v.index >= to_.size()) return v;
    ValueId root = v;
    while (to_[root.index] != root) root = to_[root.index];
    while (to_[v.index] != root) v = std::exchange(to_[v.index], root);
    return root;
  }

 private:
  std::vector<ValueId> to_;
};

template <class F>
void for_each_use(std::vector<Eqn>& eqns, std::vector<GraphOutput>& outputs,
                  std::vector<Group>& groups, F f) {
  auto visit = [&](Operand& o) {
    if (ValueId* v = std::get_if<ValueId>(&o)) *v = f(*v);
  };
  for (Eqn& e : eqns)
    for (Operand& o : e.inputs) visit(o);
  for (GraphOutput& o : outputs) o.value = f(o.value);
  for (Group& g : groups) {
    for (Operand& o : g.inputs) visit(o);
    for (ValueId& v : g.results) v = f(v);
  }
}

void check_unchanged(const Graph& before, const Graph& after) {
  bool inputs = before.inputs().size() == after.inputs().size();
  for (size_t i = 0; inputs && i < before.inputs().size(); ++i)
    inputs = before.type(before.inputs()[i]) == after.type(after.inputs()[i]);
  if (!inputs) throw InvalidGraph("edit-C1", "inputs", "an edit may not change the inputs");
  if (before.outputs().size() != after.outputs().size())
    throw InvalidGraph("edit-C1", "outputs", "an edit may not change the number of outputs");
  for (size_t i = 0; i < before.outputs().size(); ++i) {
    const GraphOutput &a = before.outputs()[i], &b = after.outputs()[i];
    if (a.kind != b.kind || b.value.index >= after.value_count() ||
        before.type(a.value) != after.type(b.value))
      throw InvalidGraph(
          "edit-C1", "output " + std::to_string(i),
          "an edit may not change an output's kind or type " + before.type(a.value).str());
  }
}

}  // namespace

GraphEdit::GraphEdit(Graph& graph) : target_(graph), draft_(graph) {}

ValueId GraphEdit::new_value(TensorType type) {
  const ValueId v(static_cast<uint32_t>(draft_.values_.size()));
  draft_.values_.push_back({std::move(type), Storage::Device, Anonymous{}, std::nullopt, {}});
  draft_.defs_.push_back(-1);
  return v;
}

Eqn GraphEdit::make(OpCode op, std::vector<Operand> inputs, std::vector<Attr> attrs,
                    std::shared_ptr<const Graph> body) {
  static const std::string kWhere = "a new equation";
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (const Operand& o : inputs) types.push_back(draft_.type(o));
  if (attrs.size() < op_info(op).attrs.size()) attrs.resize(op_info(op).attrs.size());
  auto results = infer(op, types, attrs, body.get(), kWhere);
  Eqn e{op, std::move(inputs), std::move(attrs), {}, std::move(body), {}, {}};
  for (TensorType& t : results) e.outs.push_back(new_value(std::move(t)));
  return e;
}

void GraphEdit::replace_uses(ValueId from, ValueId to) {
  if (type(from) != type(to))
    throw InvalidGraph("edit-C2", "replace_uses",
                       type(from).str() + " cannot stand for " + type(to).str());
  replaced_.emplace_back(from, to);
}

void GraphEdit::commit() {
  Graph next = std::move(draft_);
  Replacements replacements(next, replaced_);
  for_each_use(next.eqns_, next.outputs_, next.groups_,
               [&](ValueId v) { return replacements.resolve(v); });

  // Numbers in definition order; what nothing defines gets none.
  std::vector<ValueId> number(next.value_count());
  std::vector<ValueMeta> values;
  std::vector<int32_t> defs;
  auto define = [&](ValueId& v, int32_t eqn) {
    if (v.index >= number.size() || number[v.index])
      throw InvalidGraph("ssa-C1", "equation " + std::to_string(eqn), "a value is defined twice");
    number[v.index] = ValueId(static_cast<uint32_t>(values.size()));
    values.push_back(std::move(next.values_[v.index]));
    defs.push_back(eqn);
    v = number[v.index];
  };
  for (ValueId& v : next.inputs_) define(v, -1);
  std::vector<GroupId> group(next.groups_.size());
  uint32_t groups = 0;
  for (size_t i = 0; i < next.eqns_.size(); ++i) {
    Eqn& e = next.eqns_[i];
    for (ValueId& v : e.outs) define(v, static_cast<int32_t>(i));
    if (e.group && e.group.index < group.size()) group[e.group.index] = GroupId(0);
  }
  for (size_t i = 0; i < group.size(); ++i)
    if (group[i]) {
      group[i] = GroupId(groups);
      if (groups != i) next.groups_[groups] = std::move(next.groups_[i]);
      ++groups;
    }
  next.groups_.resize(groups);

  // A use of a value that nothing defines: past the table in an equation, so that the verifier
  // names it; absent in a group, whose operand or result is gone.
  const ValueId undefined(ValueId::kNone);
  for_each_use(next.eqns_, next.outputs_, next.groups_,
               [&](ValueId v) { return v.index < number.size() ? number[v.index] : undefined; });
  for (Eqn& e : next.eqns_)
    if (e.group && e.group.index < group.size()) e.group = group[e.group.index];
  for (GraphOutput& o : next.outputs_)
    if (o.state_input) o.state_input = number.at(o.state_input.index);
  next.values_ = std::move(values);
  next.defs_ = std::move(defs);

  check_unchanged(target_, next);
  verify_or_throw(next, Stage::Planned);
  target_ = std::move(next);
}

}  // namespace poot::ir
