// Builds a graph equation by equation; inference checks each one as it is added, so that an error
// surfaces in the lowering that caused it.
#include "ir/graph.h"

namespace poot::ir {

Builder::Builder(std::string name, SymbolTable symbols) {
  graph_.name_ = std::move(name);
  graph_.symbols_ = std::move(symbols);
}

uint32_t Builder::add_symbol(Symbol s) {
  graph_.symbols_.push_back(s);
  return static_cast<uint32_t>(graph_.symbols_.size() - 1);
}

ValueId Builder::input(TensorType type, Storage storage, Identity identity,
                       std::optional<Layout> layout) {
  const ValueId v(static_cast<uint32_t>(graph_.values_.size()));
  graph_.values_.push_back({std::move(type), storage, std::move(identity), std::move(layout), {}});
  graph_.defs_.push_back(-1);
  graph_.inputs_.push_back(v);
  return v;
}

uint32_t Builder::origin(Origin o) {
  const auto next = static_cast<uint32_t>(graph_.origins_.size());
  auto [it, fresh] = origin_ids_.emplace(o.node + '\n' + o.source, next);
  if (fresh) graph_.origins_.push_back(std::move(o));
  return it->second;
}

void Builder::set_origins(std::vector<uint32_t> ids) {
  origins_now_ = std::move(ids);
}

void Builder::begin_group(std::string kind, std::vector<Operand> inputs, std::vector<Attr> attrs) {
  group_now_ = GroupId(static_cast<uint32_t>(graph_.groups_.size()));
  graph_.groups_.push_back({std::move(kind), std::move(inputs), {}, std::move(attrs), 0});
}

void Builder::end_group(std::vector<ValueId> results) {
  if (!group_now_) throw InternalError("end_group without begin_group");
  graph_.groups_[group_now_.index].results = std::move(results);
  group_now_ = {};
}

std::vector<ValueId> Builder::emit_multi(OpCode op, std::vector<Operand> inputs,
                                         std::vector<Attr> attrs,
                                         std::shared_ptr<const Graph> body) {
  const std::string where = "equation " + std::to_string(graph_.eqns_.size());
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (const Operand& o : inputs) {
    const ValueId* v = std::get_if<ValueId>(&o);
    if (v && v->index >= graph_.values_.size())
      throw InvalidGraph("ssa-C2", where, "an operand is not defined yet");
    types.push_back(graph_.type(o));
  }
  if (attrs.size() < op_info(op).attrs.size()) attrs.resize(op_info(op).attrs.size());
  const auto results = infer(op, types, attrs, body.get(), where);
  Eqn e{op, std::move(inputs), std::move(attrs), {}, std::move(body), group_now_, origins_now_};
  for (const TensorType& t : results) {
    e.outs.push_back(ValueId(static_cast<uint32_t>(graph_.values_.size())));
    graph_.values_.push_back({t, Storage::Device, Anonymous{}, std::nullopt, {}});
    graph_.defs_.push_back(static_cast<int32_t>(graph_.eqns_.size()));
  }
  if (group_now_) ++graph_.groups_[group_now_.index].size;
  graph_.eqns_.push_back(std::move(e));
  return graph_.eqns_.back().outs;
}

ValueId Builder::emit(OpCode op, std::vector<Operand> inputs, std::vector<Attr> attrs) {
  auto outs = emit_multi(op, std::move(inputs), std::move(attrs));
  if (outs.size() != 1)
    throw InternalError("emit of an op with " + std::to_string(outs.size()) + " results");
  return outs[0];
}

void Builder::output(ValueId v, OutputKind kind, ValueId state_input,
                     std::optional<Layout> layout) {
  graph_.outputs_.push_back({v, kind, state_input, std::move(layout)});
}

Graph Builder::finish() {
  verify_or_throw(graph_, Stage::Planned);
  Graph done = std::move(graph_);
  *this = Builder();
  return done;
}

}  // namespace poot::ir
