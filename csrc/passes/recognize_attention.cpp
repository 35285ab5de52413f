// Attention comes back as one equation. The importer expands a scaled-dot-product call to matmul,
// scale, mask, softmax, matmul under a provenance group that remembers the call's operands,
// attributes and results. If the group is intact (every equation still there, nothing between them
// read from outside), the chain and the `attention` equation compute the same values by definition
// of the group, and the chain goes: no score matrix is ever stored. A group that has been touched
// keeps its primitive equations, and the first check that failed is recorded.
#include <algorithm>

#include "passes/pass.h"

namespace poot::passes {
namespace {

using ir::ValueId;

struct Members {
  std::vector<uint32_t> eqns;
};

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

// The attention equation for a group, or nothing if the op refuses the group's types.
std::optional<ir::Eqn> make_attention(ir::GraphEdit& edit, const ir::Graph& graph,
                                      const ir::Group& group, std::string& refusal) {
  try {
    ir::Eqn made = edit.make(ir::OpCode::attention, group.inputs, group.attrs);
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
      context.declines.push_back({"recognize_attention",
                                  "%" + std::to_string(eqns[members[g].back()].outs[0].index),
                                  verdict.refusal});
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
