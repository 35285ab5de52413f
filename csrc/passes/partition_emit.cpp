// Drafted regions become region equations. A region's body holds its members and copies in graph
// order; its inputs are what it reads from outside, in order of first use; its results are the
// members' values that somebody else reads, in graph order.
#include <algorithm>
#include <map>

#include "passes/partition.h"

namespace poot::passes {
namespace {

// "fused_mul_add_tanh": the distinct compute ops of a region, at most four.
std::string kernel_name(const ir::Graph& graph, ir::OpCode op, std::span<const uint32_t> eqns) {
  std::string name(ir::op_info(op).name);
  std::vector<std::string_view> used;
  const auto add = [&](bool views) {
    for (const uint32_t e : eqns) {
      const ir::OpInfo& info = graph.eqns()[e].info();
      const bool plain = ir::is_view(info.kind) || info.kind == ir::OpKind::Source;
      if (plain == views && used.size() < 4 &&
          std::find(used.begin(), used.end(), info.name) == used.end())
        used.push_back(info.name);
    }
  };
  add(false);
  if (used.empty()) add(true);
  for (const std::string_view u : used) name += "_" + std::string(u);
  return name;
}

}  // namespace

std::vector<uint32_t> Partition::in_order(const DraftRegion& r) const {
  std::vector<uint32_t> order = r.members;
  order.insert(order.end(), r.copies.begin(), r.copies.end());
  std::sort(order.begin(), order.end());
  return order;
}

ir::Eqn Partition::emit(ir::GraphEdit& edit, RegionIndex r, ir::OpCode op,
                        std::vector<ir::Attr> attrs, std::vector<ir::ValueId>& results) const {
  const std::vector<uint32_t> order = in_order(regions_[r]);
  ir::Builder builder(kernel_name(graph_, op, order), graph_.symbols());
  std::map<uint32_t, ir::ValueId> inside;  // by outer value
  std::vector<ir::Operand> reads;
  std::vector<uint32_t> origins;
  // All inputs first: a body's inputs precede its equations.
  for (const uint32_t e : order)
    for (const ir::Operand& o : eqn(e).inputs) {
      if (!ir::is_value(o)) continue;
      const auto v = std::get<ir::ValueId>(o);
      const int32_t d = graph_.def(v);
      if ((d >= 0 && holds(r, static_cast<uint32_t>(d))) || inside.contains(v.index)) continue;
      inside[v.index] = builder.input(graph_.type(v));
      reads.push_back(v);
    }
  for (const uint32_t e : order) {
    const ir::Eqn& source = eqn(e);
    std::vector<ir::Operand> operands = source.inputs;
    for (ir::Operand& o : operands)
      if (ir::is_value(o)) o = inside.at(std::get<ir::ValueId>(o).index);
    const auto outs = builder.emit_multi(source.op, std::move(operands), source.attrs, source.body);
    for (size_t i = 0; i < outs.size(); ++i) inside[source.outs[i].index] = outs[i];
    origins.insert(origins.end(), source.origins.begin(), source.origins.end());
  }
  for (const uint32_t e : order) {
    if (home_[e] != r) continue;
    for (const ir::ValueId out : eqn(e).outs)
      if (read_outside(out, r)) {
        builder.output(inside.at(out.index));
        results.push_back(out);
      }
  }
  if (results.empty()) return {};
  ir::Eqn made = edit.make(op, std::move(reads), std::move(attrs),
                           std::make_shared<const ir::Graph>(builder.finish()));
  std::sort(origins.begin(), origins.end());
  origins.erase(std::unique(origins.begin(), origins.end()), origins.end());
  made.origins = std::move(origins);
  return made;
}

bool Partition::commit(ir::Graph& graph, ir::OpCode op,
                       const std::function<std::vector<ir::Attr>(RegionIndex)>& attrs,
                       PassContext& context, std::string_view pass) {
  std::vector<RegionIndex> at_place(graph_.eqns().size(), kNoRegion);
  bool any = false;
  for (RegionIndex r = 0; r < regions_.size(); ++r)
    if (!regions_[r].merged_away) {
      at_place[regions_[r].place] = r;
      any = true;
    }
  if (!any) return false;
  ir::GraphEdit edit(graph);
  std::vector<ir::Eqn> eqns;
  for (uint32_t e = 0; e < at_place.size(); ++e) {
    if (home_[e] == kNoRegion && !dissolved_[e]) eqns.push_back(eqn(e));
    const RegionIndex r = at_place[e];
    if (r == kNoRegion) continue;
    std::vector<ir::ValueId> results;
    ir::Eqn made = emit(edit, r, op, attrs(r), results);
    if (results.empty()) continue;
    for (size_t i = 0; i < results.size(); ++i) edit.replace_uses(results[i], made.outs[i]);
    context.fusions.push_back(
        {std::string(pass), made.body->name(), static_cast<uint32_t>(made.body->eqns().size())});
    eqns.push_back(std::move(made));
  }
  edit.eqns() = std::move(eqns);
  edit.commit();
  return true;
}

}  // namespace poot::passes
