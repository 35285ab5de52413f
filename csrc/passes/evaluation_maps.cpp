#include "passes/evaluation_maps.h"

#include "passes/fusion_cost.h"
#include "support/hash.h"

namespace poot::passes {
namespace {

uint64_t shape_token(uint64_t token, const Shape& from, const Shape& to) {
  size_t h = hash_mix(static_cast<size_t>(token), from.size());
  for (const Dim& d : from) h = hash_mix(h, d.hash());
  for (const Dim& d : to) h = hash_mix(h, d.hash());
  return h | 1;
}

}  // namespace

double total_evaluations(const EvaluationMaps& maps) {
  double sum = 0;
  for (const EvaluationMap& m : maps) sum += m.count;
  return sum;
}

void add_map(EvaluationMaps& maps, EvaluationMap map) {
  for (const EvaluationMap& m : maps)
    if (m.token == map.token) return;
  maps.push_back(map);
}

bool reads_at_random(const ir::Eqn& eqn, size_t i) {
  return i == 0 && (eqn.op == ir::OpCode::gather || eqn.op == ir::OpCode::take);
}

// The map of operand `operand` where the reader's result is evaluated through `map`.
EvaluationMap EvaluationTable::through(const ir::Eqn& reader, size_t operand,
                                       EvaluationMap map) const {
  const ir::Graph& graph = partition_.graph();
  const Shape& result = graph.type(reader.outs[0]).shape;
  const Shape shape = graph.type(reader.inputs[operand]).shape;
  const ir::OpKind kind = reader.info().kind;
  if (reader.op == ir::OpCode::reshape || kind == ir::OpKind::Reduce) return map;
  const bool stretches = ir::is_pointwise(kind) || kind == ir::OpKind::Source ||
                         reader.op == ir::OpCode::broadcast ||
                         (reader.op == ir::OpCode::pad && operand == 1);
  if (stretches) {
    if (shape == result) return map;
    return {shape_token(map.token, shape, result),
            broadcast_evaluations(shape, result, map.count, graph.symbols())};
  }
  if (reader.op == ir::OpCode::take && operand == 1) return map;
  const uint64_t token =
      hash_mix(hash_mix(static_cast<size_t>(map.token), reader.outs[0].index + 1), operand) | 1;
  if (reader.op == ir::OpCode::gather && operand == 1) {
    // Indices are constant along the axes of the source behind the gathered one.
    const Shape& source = graph.type(reader.inputs[0]).shape;
    const auto axis = static_cast<size_t>(reader.attr<int64_t>("axis"));
    Shape row(source.begin() + static_cast<ptrdiff_t>(axis) + 1, source.end());
    return {token, broadcast_evaluations({}, row, map.count, graph.symbols())};
  }
  return {token, map.count};
}

EvaluationMap EvaluationTable::own_space(RegionIndex r) const {
  return {0, hinted_numel(partition_.region(r).space, partition_.graph().symbols())};
}

EvaluationMaps EvaluationTable::wanted(RegionIndex r, uint32_t e) const {
  EvaluationMaps maps;
  for (const ir::ValueId out : partition_.eqn(e).outs)
    for (const uint32_t u : partition_.users(out)) {
      if (!partition_.holds(r, u)) continue;
      const ir::Eqn& reader = partition_.eqn(u);
      for (size_t i = 0; i < reader.inputs.size(); ++i) {
        if (!ir::is_value(reader.inputs[i]) || std::get<ir::ValueId>(reader.inputs[i]) != out)
          continue;
        for (const EvaluationMap& map : of(r, u)) add_map(maps, through(reader, i, map));
      }
    }
  return maps;
}

void EvaluationTable::merged(RegionIndex a, RegionIndex b, const DraftRegion& b_before) {
  const auto move = [&](uint32_t e) {
    EvaluationMaps& to = table_[key(a, e)];
    for (const EvaluationMap& m : table_.at(key(b, e))) add_map(to, m);
    table_.erase(key(b, e));
  };
  for (const uint32_t m : b_before.members) move(m);
  for (const uint32_t c : b_before.copies) move(c);
}

}  // namespace poot::passes
