#include "passes/producer_fusion.h"

#include <algorithm>

#include "passes/fusion_cost.h"
#include "passes/value_label.h"

namespace poot::passes {
namespace {

constexpr size_t kMaxMaps = 8;    // index maps through which one value may be evaluated
constexpr size_t kMaxCopies = 3;  // regions that may each recompute a cheap value

std::string count_text(double n) {
  return std::to_string(static_cast<int64_t>(n));
}

}  // namespace

bool ProducerFusion::fusible(uint32_t e) const {
  const ir::Eqn& eqn = partition.eqn(e);
  const ir::OpKind kind = eqn.info().kind;
  if (!ir::is_pointwise(kind) && kind != ir::OpKind::Source && kind != ir::OpKind::View &&
      kind != ir::OpKind::Movement)
    return false;
  for (const ir::Operand& o : eqn.inputs)
    if (is_complex(graph.type(o).dtype)) return false;
  return !is_complex(type(e).dtype);
}

RegionIndex ProducerFusion::open(uint32_t e, const Shape& space) {
  const RegionIndex r = partition.open(e, space);
  table.set(r, e, {table.own_space(r)});
  return r;
}

void ProducerFusion::decline(uint32_t e, std::string reason) {
  context.declines.push_back({pass_, value_label(graph, partition.eqn(e)), std::move(reason)});
}

void ProducerFusion::copy(RegionIndex r, uint32_t e) {
  EvaluationMaps maps = table.wanted(r, e);
  partition.copy(r, e);
  table.set(r, e, std::move(maps));
}

bool ProducerFusion::copy_to_readers(uint32_t e) {
  const Readers readers = partition.readers(e);
  bool everywhere = !readers.outside && !readers.regions.empty();
  for (const RegionIndex r : readers.regions) {
    EvaluationMaps maps = table.wanted(r, e);
    if (maps.size() > kMaxMaps || partition.refuses_copy(r, e)) {
      everywhere = false;
      continue;
    }
    partition.copy(r, e);
    table.set(r, e, std::move(maps));
  }
  if (everywhere) partition.dissolve(e);
  return everywhere;
}

std::string ProducerFusion::join(RegionIndex r, uint32_t e, bool leaves) {
  const ir::Eqn& eqn = partition.eqn(e);
  if (!is_free(graph, eqn) && read_at_random(r, e)) return "its reader picks single elements of it";
  EvaluationMaps maps = table.wanted(r, e);
  if (leaves) add_map(maps, table.own_space(r));
  if (maps.size() > kMaxMaps) return "its reader takes it apart through too many index maps";
  const double evaluations = total_evaluations(maps);
  if (!pays_to_recompute(graph, eqn, evaluations, context.target))
    return std::string(eqn.info().name) + " would be evaluated " + count_text(evaluations) +
           " times for " + count_text(hinted_numel(type(e).shape, graph.symbols())) +
           " elements; storing them is cheaper";
  if (const char* refusal = partition.refuses(r, e)) return refusal;
  partition.join(r, e);
  table.set(r, e, std::move(maps));
  return "";
}

bool ProducerFusion::read_at_random(RegionIndex r, uint32_t e) const {
  for (const ir::ValueId out : partition.eqn(e).outs)
    for (const uint32_t u : partition.users(out)) {
      if (!partition.holds(r, u)) continue;
      const ir::Eqn& reader = partition.eqn(u);
      for (size_t i = 0; i < reader.inputs.size(); ++i)
        if (reader.inputs[i] == ir::Operand(out) && reads_at_random(reader, i)) return true;
    }
  return false;
}

bool ProducerFusion::merge(RegionIndex a, RegionIndex b) {
  if (partition.refuses_merge(a, b)) return false;
  const DraftRegion before = partition.region(b);
  partition.merge(a, b);
  table.merged(a, b, before);
  return true;
}

double ProducerFusion::bytes(const ir::Operand& o) const {
  const ir::TensorType t = graph.type(o);
  return hinted_numel(t.shape, graph.symbols()) * static_cast<double>(byte_size(t.dtype));
}

bool ProducerFusion::copy_to_all(uint32_t e) {
  const Readers readers = partition.readers(e);
  if (readers.outside || readers.regions.empty() || readers.regions.size() > kMaxCopies)
    return false;
  const ir::Eqn& eqn = partition.eqn(e);
  double own_reads = 0, copied_reads = 0, evaluations = 0;
  for (const ir::Operand& o : eqn.inputs)
    if (ir::is_value(o)) own_reads += bytes(o);
  std::vector<EvaluationMaps> maps;
  for (const RegionIndex r : readers.regions) {
    if (partition.refuses_copy(r, e) || read_at_random(r, e)) return false;
    maps.push_back(table.wanted(r, e));
    if (maps.back().size() > kMaxMaps) return false;
    evaluations += total_evaluations(maps.back());
    const auto& reads = partition.region(r).reads;
    for (const ir::Operand& o : eqn.inputs)
      if (ir::is_value(o) &&
          !std::binary_search(reads.begin(), reads.end(), std::get<ir::ValueId>(o)))
        copied_reads += bytes(o);
  }
  const double stored =
      own_reads + bytes(eqn.outs[0]) * static_cast<double>(1 + readers.regions.size());
  if (copied_reads > stored || !pays_to_recompute(graph, eqn, evaluations, context.target))
    return false;
  for (size_t i = 0; i < readers.regions.size(); ++i) {
    partition.copy(readers.regions[i], e);
    table.set(readers.regions[i], e, std::move(maps[i]));
  }
  partition.dissolve(e);
  return true;
}

}  // namespace poot::passes
