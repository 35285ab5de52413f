// Attention comes back as one equation. The importer expands a scaled-dot-product call to matmul,
// scale, mask, softmax, matmul under a provenance group that remembers the call's operands,
// attributes and results. If the group is intact (every equation still there, nothing between them
// read from outside), the chain and the `attention` equation compute the same values by definition
// of the group, and the chain goes: no score matrix is ever stored. A group that has been touched
// keeps its primitive equations, and the first check that failed is recorded.
//
// Keys and values that a model repeats for the query heads that share them (broadcast over a new
// axis, then merged with the heads) are read without the repetition: attention groups query heads
// over fewer key heads by itself, and nothing is copied.
#include <algorithm>

#include "passes/pass.h"
#include "passes/value_label.h"

namespace poot::passes {
namespace {

using ir::ValueId;

// Index of the equation in whose place the attention equation goes, or the reason why not.
struct Verdict {
  uint32_t place = 0;
  std::string refusal;
};

Verdict judge(const ir::Graph& graph, const ir::Group& group, ir::GroupId id,
              const std::vector<uint32_t>& members, const std::vector<std::vector<uint32_t>>& users,
              const std::vector<bool>& is_output) {
  if (members.size() != group.size)
    return {0, "the chain has " + std::to_string(members.size()) + " of its " +
                   std::to_string(group.size) + " equations"};
  const auto is_result = [&](ValueId v) {
    return std::find(group.results.begin(), group.results.end(), v) != group.results.end();
  };
  for (const uint32_t m : members)
    for (const ValueId out : graph.eqns()[m].outs) {
      if (is_result(out)) continue;
      if (is_output[out.index])
        return {0, "%" + std::to_string(out.index) + " inside the chain is a graph output"};
      for (const uint32_t u : users[out.index])
        if (graph.eqns()[u].group != id)
          return {0, "%" + std::to_string(out.index) + " inside the chain is read outside it"};
    }
  uint32_t place = ~0u;
  for (const ValueId r : group.results) {
    const int32_t d = graph.def(r);
    if (d < 0 || graph.eqns()[d].group != id) return {0, "a result is no longer computed by it"};
    place = std::min(place, static_cast<uint32_t>(d));
  }
  if (group.results.empty()) return {0, "the chain has no result"};
  for (const ir::Operand& o : group.inputs)
    if (ir::is_value(o) && graph.def(std::get<ValueId>(o)) >= static_cast<int32_t>(place))
      return {0, "an operand is defined after the result"};
  return {place, ""};
}

// x [B, Hk, S, D], if the operand is x repeated for groups of heads:
// reshape(broadcast(reshape x to [B, Hk, 1, S, D]) to [B, Hk, G, S, D]) to [B, Hk * G, S, D].
std::optional<ir::Operand> without_repeats(const ir::Graph& graph, const ir::Operand& o) {
  const auto made_by = [&](const ir::Operand& v, ir::OpCode op) -> const ir::Eqn* {
    const int32_t d = ir::is_value(v) ? graph.def(std::get<ValueId>(v)) : -1;
    return d >= 0 && graph.eqns()[d].op == op ? &graph.eqns()[d] : nullptr;
  };
  const ir::Eqn* merge = made_by(o, ir::OpCode::reshape);
  const ir::Eqn* repeat = merge ? made_by(merge->inputs[0], ir::OpCode::broadcast) : nullptr;
  const ir::Eqn* insert = repeat ? made_by(repeat->inputs[0], ir::OpCode::reshape) : nullptr;
  if (!insert) return std::nullopt;
  const Shape x = graph.type(insert->inputs[0]).shape, wide = graph.type(merge->inputs[0]).shape;
  const Shape inserted = graph.type(repeat->inputs[0]).shape, merged = graph.type(o).shape;
  if (x.size() != 4 || wide.size() != 5 || merged.size() != 4) return std::nullopt;
  const bool repeats = inserted == Shape{x[0], x[1], 1, x[2], x[3]} &&
                       wide == Shape{x[0], x[1], wide[2], x[2], x[3]} &&
                       merged == Shape{x[0], x[1] * wide[2], x[2], x[3]};
  return repeats ? std::optional(insert->inputs[0]) : std::nullopt;
}

// Operands of a group without the repetition of keys and values.
std::vector<ir::Operand> attention_operands(const ir::Graph& graph, const ir::Group& group) {
  std::vector<ir::Operand> operands = group.inputs;
  if (operands.size() < 3) return operands;
  const auto k = without_repeats(graph, operands[1]), v = without_repeats(graph, operands[2]);
  if (k && v && graph.type(*k).shape[1] == graph.type(*v).shape[1]) {
    operands[1] = *k;
    operands[2] = *v;
  }
  return operands;
}

// The attention equation for a group, or nothing if the op refuses the group's types.
std::optional<ir::Eqn> make_attention(ir::GraphEdit& edit, const ir::Graph& graph,
                                      const ir::Group& group, std::string& refusal) {
  try {
    ir::Eqn made = edit.make(ir::OpCode::attention, attention_operands(graph, group), group.attrs);
    for (size_t i = 0; i < group.results.size(); ++i)
      if (i >= made.outs.size() || edit.type(made.outs[i]) != graph.type(group.results[i])) {
        refusal = "a result's type is not attention's";
        return std::nullopt;
      }
    return made;
  } catch (const InvalidGraph& e) {
    refusal = e.what();
    return std::nullopt;
  }
}

}  // namespace

bool recognize_attention(ir::Graph& graph, PassContext& context) {
  const auto eqns = graph.eqns();
  std::vector<std::vector<uint32_t>> members(graph.groups().size()), users(graph.value_count());
  for (uint32_t e = 0; e < eqns.size(); ++e) {
    if (eqns[e].group) members[eqns[e].group.index].push_back(e);
    for (const ir::Operand& o : eqns[e].inputs)
      if (ir::is_value(o)) users[std::get<ValueId>(o).index].push_back(e);
  }
  std::vector<bool> is_output(graph.value_count(), false);
  for (const ir::GraphOutput& out : graph.outputs()) is_output[out.value.index] = true;

  ir::GraphEdit edit(graph);
  std::vector<bool> gone(eqns.size(), false);
  std::vector<std::optional<ir::Eqn>> at(eqns.size());
  bool changed = false;
  for (uint32_t g = 0; g < graph.groups().size(); ++g) {
    const ir::Group& group = graph.groups()[g];
    if (group.kind != ir::op_info(ir::OpCode::attention).name || members[g].empty()) continue;
    Verdict verdict = judge(graph, group, ir::GroupId(g), members[g], users, is_output);
    std::optional<ir::Eqn> made;
    if (verdict.refusal.empty()) made = make_attention(edit, graph, group, verdict.refusal);
    if (!made) {
      context.declines.push_back(
          {"recognize_attention", value_label(graph, eqns[members[g].back()]), verdict.refusal});
      continue;
    }
    for (const uint32_t m : members[g]) {
      gone[m] = true;
      made->origins.insert(made->origins.end(), eqns[m].origins.begin(), eqns[m].origins.end());
    }
    std::sort(made->origins.begin(), made->origins.end());
    made->origins.erase(std::unique(made->origins.begin(), made->origins.end()),
                        made->origins.end());
    for (size_t i = 0; i < group.results.size(); ++i)
      edit.replace_uses(group.results[i], made->outs[i]);
    context.fusions.push_back(
        {"recognize_attention", "attention", static_cast<uint32_t>(members[g].size())});
    at[verdict.place] = std::move(made);
    changed = true;
  }
  if (!changed) return false;
  std::vector<ir::Eqn> kept;
  for (uint32_t e = 0; e < gone.size(); ++e) {
    if (at[e]) kept.push_back(std::move(*at[e]));
    if (!gone[e]) kept.push_back(edit.eqns()[e]);
  }
  edit.eqns() = std::move(kept);
  edit.commit();
  return true;
}

}  // namespace poot::passes
