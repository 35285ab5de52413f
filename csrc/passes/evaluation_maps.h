// At how many places a value inside a region is evaluated, and through how many different index
// maps: what tells a fusion that recomputes from one that does not.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "passes/partition.h"

namespace poot::passes {

// One index map from the region's iteration space to a value's elements, as an opaque token: equal
// tokens are equal maps. Token 0 is the row-major order of the region's space itself.
struct EvaluationMap {
  uint64_t token = 0;
  double count = 0;  // elements evaluated through it, at hint sizes
};
using EvaluationMaps = std::vector<EvaluationMap>;

double total_evaluations(const EvaluationMaps& maps);
void add_map(EvaluationMaps& maps, EvaluationMap map);

// True if operand i of the equation is read at data-dependent positions.
bool reads_at_random(const ir::Eqn& eqn, size_t i);

// Maps of every equation in every region of a partition, by (region, equation).
class EvaluationTable {
 public:
  explicit EvaluationTable(const Partition& partition) : partition_(partition) {}
  // Maps that equation e gets from its readers in region r.
  EvaluationMaps wanted(RegionIndex r, uint32_t e) const;
  // The map of the region's own space: for a value that leaves the region.
  EvaluationMap own_space(RegionIndex r) const;
  const EvaluationMaps& of(RegionIndex r, uint32_t e) const { return table_.at(key(r, e)); }
  void set(RegionIndex r, uint32_t e, EvaluationMaps maps) { table_[key(r, e)] = std::move(maps); }
  void merged(RegionIndex a, RegionIndex b, const DraftRegion& b_before);

 private:
  static uint64_t key(RegionIndex r, uint32_t e) { return (uint64_t{r} << 32) | e; }
  EvaluationMap through(const ir::Eqn& reader, size_t operand, EvaluationMap map) const;
  const Partition& partition_;
  std::unordered_map<uint64_t, EvaluationMaps> table_;
};

}  // namespace poot::passes
