// A row region stores values for later regions that these could compute as cheaply as they load
// them: the widened gradient and the normalized rows of a norm's backward, which only the sums for
// its weight and bias read. Such a result is computed in each region that reads it, and is stored
// no longer.
//
//   %1, %2 = fused_row %x, %g body {          %1 = fused_row %x, %g body { … return %d }
//     %c = cast %g {to=f32} …                 %2 = fused_reduce %g body(%a0: bf16[…]) {
//     return %c, %d }                     =>    %0 = cast %a0 {to=f32}
//   %3 = fused_reduce %1 body(%a0: f32[…])      …
//
// Row fusion cannot tell: it meets the value before the regions that read it exist. Here they all
// do, so that nothing reads the value once it is no longer stored. That is so of a result that
// nothing but pointwise and reduction regions reads, and that a few cheap pointwise equations make
// from the region's inputs, where
// - the inputs that its readers come to read, and the half of what storing it takes, are no more
//   bytes than what is written and read of it;
// - evaluating it where it is read costs less than storing it;
// - inputs of its size lie in its order in memory, and nothing updates them in place.
#include <algorithm>
#include <map>
#include <ranges>

#include "passes/fusion_cost.h"
#include "passes/layout.h"
#include "passes/partition.h"

namespace poot::passes {
namespace {

using ir::Eqn;
using ir::Graph;
using ir::Operand;
using ir::ValueId;

// Bounds what each reader's body grows by.
constexpr size_t kMostEqns = 12;

double bytes(const Graph& graph, ValueId v) {
  const ir::TensorType& type = graph.type(v);
  return hinted_numel(type.shape, graph.symbols()) * static_cast<double>(byte_size(type.dtype));
}

// What defines one result of a region: equations of its body, ascending, and the region's inputs
// that they read, by position.
struct Cone {
  ValueId result;
  std::vector<uint32_t> eqns;
  std::vector<size_t> inputs;
};

// A region's operands, origins and body, as they are to be.
struct Region {
  std::vector<Operand> inputs;
  std::vector<uint32_t> origins;
  std::shared_ptr<const Graph> body;
};

bool cheap(const Graph& body, const Eqn& e) {
  const ir::OpKind kind = e.info().kind;
  if (ir::is_view(kind)) return e.op == ir::OpCode::reshape || e.op == ir::OpCode::broadcast;
  return (ir::is_pointwise(kind) || is_free(body, e)) && evaluation_cost(body, e) <= kCheapPs;
}

std::optional<Cone> cone_of(const Graph& body, ValueId result) {
  Cone cone{result, {}, {}};
  std::vector<bool> needed(body.value_count(), false);
  needed[result.index] = true;
  for (auto e = static_cast<uint32_t>(body.eqns().size()); e-- > 0;) {
    const Eqn& eqn = body.eqns()[e];
    if (std::ranges::none_of(eqn.outs, [&](ValueId v) { return needed[v.index]; })) continue;
    if (!cheap(body, eqn) || cone.eqns.size() == kMostEqns) return std::nullopt;
    cone.eqns.push_back(e);
    for (const Operand& o : eqn.inputs)
      if (ir::is_value(o)) needed[std::get<ValueId>(o).index] = true;
  }
  std::ranges::reverse(cone.eqns);
  for (size_t i = 0; i < body.inputs().size(); ++i)
    if (needed[body.inputs()[i].index]) cone.inputs.push_back(i);
  if (cone.eqns.empty()) return std::nullopt;
  return cone;
}

// Copies equations of one graph into another.
class Copier {
 public:
  Copier(ir::Builder& to, const Graph& from) : to_(to), from_(from) {}
  void set(ValueId from, ValueId to) { copied_[from.index] = to; }
  ValueId at(ValueId from) const { return copied_.at(from.index); }
  void copy(const Eqn& e) {
    std::vector<Operand> operands = e.inputs;
    for (Operand& o : operands)
      if (ir::is_value(o)) o = at(std::get<ValueId>(o));
    const auto outs = to_.emit_multi(e.op, std::move(operands), e.attrs, e.body);
    for (size_t i = 0; i < outs.size(); ++i) set(e.outs[i], outs[i]);
  }
  void copy_all() {
    for (const Eqn& e : from_.eqns()) copy(e);
  }

 private:
  ir::Builder& to_;
  const Graph& from_;
  std::map<uint32_t, ValueId> copied_;
};

class Rematerialization {
 public:
  Rematerialization(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), index_(graph) {}

  bool run() {
    for (uint32_t e = 0; e < graph_.eqns().size(); ++e) {
      if (graph_.eqns()[e].op != ir::OpCode::fused_row || index_.reads_base(e)) continue;
      for (size_t i = 0; i < graph_.eqns()[e].outs.size(); ++i) consider(e, i);
    }
    if (regions_.empty()) return false;
    commit();
    return true;
  }

 private:
  Region region(uint32_t e) const {
    const auto changed = regions_.find(e);
    if (changed != regions_.end()) return changed->second;
    const Eqn& eqn = graph_.eqns()[e];
    return {eqn.inputs, eqn.origins, eqn.body};
  }

  void consider(uint32_t e, size_t i) {
    const Eqn& eqn = graph_.eqns()[e];
    const ValueId value = eqn.outs[i];
    const auto users = index_.users(value);
    if (index_.is_output(value) || users.empty()) return;
    for (const uint32_t u : users)
      if (graph_.eqns()[u].op != ir::OpCode::fused &&
          graph_.eqns()[u].op != ir::OpCode::fused_reduce)
        return;
    const auto cone = cone_of(*eqn.body, eqn.body->outputs()[i].value);
    if (!cone || !in_order(eqn, *cone) || !pays(eqn, value, *cone, users)) return;
    std::vector<Region> readers;
    for (const uint32_t u : users) {
      readers.push_back(with_cone(region(u), value, eqn, *cone));
      if (readers.back().inputs.size() > kMaxRegionInputs ||
          readers.back().body->eqns().size() > kMaxRegionEqns)
        return;
    }
    for (size_t u = 0; u < users.size(); ++u) regions_[users[u]] = std::move(readers[u]);
    no_longer_stored_[e].push_back(i);
  }

  bool in_order(const Eqn& eqn, const Cone& cone) const {
    const Dim elements = numel(eqn.body->type(cone.result).shape);
    return std::ranges::all_of(cone.inputs, [&](size_t i) {
      if (!ir::is_value(eqn.inputs[i])) return false;
      const auto v = std::get<ValueId>(eqn.inputs[i]);
      if (numel(graph_.type(v).shape) != elements) return true;
      const auto w = window_of(graph_, v);
      return w && is_contiguous(*w);
    });
  }

  bool pays(const Eqn& eqn, ValueId value, const Cone& cone,
            std::span<const uint32_t> users) const {
    const double stored = bytes(graph_, value);
    double before = stored, after = stored / 2, evaluations = 0, cost = 0;
    for (const uint32_t u : users) {
      const Region reader = region(u);
      before += stored;
      for (const size_t i : cone.inputs)
        if (std::ranges::find(reader.inputs, eqn.inputs[i]) == reader.inputs.end())
          after += bytes(graph_, std::get<ValueId>(eqn.inputs[i]));
      evaluations += evaluations_in(reader, value);
    }
    for (const uint32_t e : cone.eqns) cost += evaluation_cost(*eqn.body, eqn.body->eqns()[e]);
    return after <= before &&
           cost * evaluations <=
               materialisation_cost(graph_.type(value), graph_.symbols(), context_.target);
  }

  // At most: one for each element of the region's largest value.
  double evaluations_in(const Region& reader, ValueId value) const {
    double most = hinted_numel(graph_.type(value).shape, graph_.symbols());
    for (const Eqn& e : reader.body->eqns())
      for (const ValueId out : e.outs)
        most = std::max(most, hinted_numel(reader.body->type(out).shape, graph_.symbols()));
    return most;
  }

  // The reader with the cone in the place of its input `value`.
  Region with_cone(const Region& reader, ValueId value, const Eqn& producer, const Cone& cone) {
    ir::Builder builder(reader.body->name(), graph_.symbols());
    Copier own(builder, *reader.body), added(builder, *producer.body);
    Region made;
    made.origins = reader.origins;
    made.origins.insert(made.origins.end(), producer.origins.begin(), producer.origins.end());
    std::ranges::sort(made.origins);
    made.origins.erase(std::ranges::unique(made.origins).begin(), made.origins.end());
    const auto add = [&](const Operand& o) {
      made.inputs.push_back(o);
      return builder.input(graph_.type(o));
    };
    std::map<uint32_t, ValueId> known;
    for (size_t i = 0; i < reader.inputs.size(); ++i) {
      if (reader.inputs[i] == Operand(value)) continue;
      const ValueId in = add(reader.inputs[i]);
      own.set(reader.body->inputs()[i], in);
      if (ir::is_value(reader.inputs[i])) known[std::get<ValueId>(reader.inputs[i]).index] = in;
    }
    for (const size_t i : cone.inputs) {
      const auto v = std::get<ValueId>(producer.inputs[i]);
      if (!known.contains(v.index)) known[v.index] = add(v);
      added.set(producer.body->inputs()[i], known[v.index]);
    }
    for (const uint32_t e : cone.eqns) added.copy(producer.body->eqns()[e]);
    for (size_t i = 0; i < reader.inputs.size(); ++i)
      if (reader.inputs[i] == Operand(value))
        own.set(reader.body->inputs()[i], added.at(cone.result));
    own.copy_all();
    for (const ir::GraphOutput& out : reader.body->outputs()) builder.output(own.at(out.value));
    Graph body = builder.finish();
    cse(body, context_);
    made.body = std::make_shared<const Graph>(std::move(body));
    return made;
  }

  // The region without some of its results, and without what only these need.
  Region without(const Region& region, const std::vector<size_t>& results) const {
    const Graph& body = *region.body;
    std::vector<bool> live(body.value_count(), false);
    std::vector<ValueId> kept;
    for (size_t i = 0; i < body.outputs().size(); ++i)
      if (std::ranges::find(results, i) == results.end())
        live[kept.emplace_back(body.outputs()[i].value).index] = true;
    const auto needed = [&](const Eqn& e) {
      return std::ranges::any_of(e.outs, [&](ValueId v) { return live[v.index]; });
    };
    for (size_t e = body.eqns().size(); e-- > 0;)
      if (needed(body.eqns()[e]))
        for (const Operand& o : body.eqns()[e].inputs)
          if (ir::is_value(o)) live[std::get<ValueId>(o).index] = true;
    ir::Builder builder(body.name(), graph_.symbols());
    Copier copier(builder, body);
    Region made;
    for (size_t i = 0; i < body.inputs().size(); ++i) {
      if (!live[body.inputs()[i].index]) continue;
      copier.set(body.inputs()[i], builder.input(body.type(body.inputs()[i])));
      made.inputs.push_back(region.inputs[i]);
    }
    for (const Eqn& e : body.eqns())
      if (needed(e)) copier.copy(e);
    for (const ValueId v : kept) builder.output(copier.at(v));
    made.body = std::make_shared<const Graph>(builder.finish());
    return made;
  }

  void commit() {
    ir::GraphEdit edit(graph_);
    for (auto& [e, changed] : regions_) {
      Eqn& eqn = edit.eqns()[e];
      eqn.inputs = std::move(changed.inputs);
      eqn.origins = std::move(changed.origins);
      eqn.body = std::move(changed.body);
    }
    // Backwards: a producer that stores nothing is erased.
    for (const auto& [e, results] : std::views::reverse(no_longer_stored_)) {
      Eqn& eqn = edit.eqns()[e];
      if (results.size() == eqn.outs.size()) {
        edit.eqns().erase(edit.eqns().begin() + e);
        continue;
      }
      Region changed = without(region(e), results);
      eqn.inputs = std::move(changed.inputs);
      eqn.body = std::move(changed.body);
      for (const size_t i : std::views::reverse(results))
        eqn.outs.erase(eqn.outs.begin() + static_cast<ptrdiff_t>(i));
    }
    edit.commit();
  }

  Graph& graph_;
  PassContext& context_;
  Partition index_;
  std::map<uint32_t, Region> regions_;  // readers that compute a value, by equation
  std::map<uint32_t, std::vector<size_t>> no_longer_stored_;  // results, ascending, by equation
};

}  // namespace

bool rematerialize(Graph& graph, PassContext& context) {
  return Rematerialization(graph, context).run();
}

}  // namespace poot::passes
