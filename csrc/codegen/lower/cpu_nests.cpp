// Nests: row loops around phases. Before a loop is opened, everything its roots need that does not
// vary inside is evaluated outside (hoist); before a nest is emitted, values that several phases
// need and that are dear to evaluate twice get an array, written in the first phase that has them.
#include <algorithm>

#include "codegen/lower/cpu_lowering.h"

namespace poot::codegen::cpu {

using tile::AxisId;
using tile::ValueId;

std::vector<ValueId> CpuLowering::root_operands(const Root& r) const {
  if (r.kind == Root::Store) return facts_.operands(*r.inst);
  return {r.value};
}

void CpuLowering::run_roots(std::vector<Root> roots) {
  uint32_t last = 0;
  for (const Root& r : roots) last = std::max(last, r.nest);
  std::vector<char> done(roots.size(), 0);
  for (uint32_t n = 0; n <= last; ++n) {
    for (size_t i = 0; i < roots.size(); ++i) {
      if (done[i] || roots[i].nest != n) continue;
      std::vector<Root> members;
      for (size_t k = i; k < roots.size(); ++k)
        if (!done[k] && roots[k].nest == n && roots[k].rows == roots[i].rows)
          members.push_back(roots[k]), done[k] = 1;
      nest(std::move(members));
    }
  }
}

bool CpuLowering::cheap(ValueId v, AxisId column) const {
  // About what writing and reading back an array costs.
  constexpr int kCheap = 8;
  Root r{.kind = Root::Keep, .value = v};
  return phase_cost({&r}, column).ops <= kCheap;
}

void CpuLowering::plan_kept(std::vector<Root>& roots) {
  uint32_t last = 0;
  for (const Root& r : roots) last = std::max(last, r.level);
  if (last == 0) return;
  std::unordered_map<uint32_t, uint32_t> first;  // value -> phase that evaluates it first
  std::unordered_set<uint32_t> kept;
  std::vector<Root> added;
  for (uint32_t level = 0; level <= last; ++level) {
    for (const Root& root : roots) {
      if (root.level != level || !root.column) continue;
      const auto visit = [&](auto&& self, ValueId v) -> void {
        if ((facts_.deps(v) & TileFacts::bit(root.column)) == 0 || emit_.is_kept(v)) return;
        auto [it, fresh] = first.emplace(v.index, level);
        if (kept.contains(v.index) || (!fresh && it->second == level)) return;
        if (!fresh) {
          if (cheap(v, root.column)) return;
          if (fits(v, std::span(&root.column, 1))) {
            kept.insert(v.index);
            Root keep{.kind = Root::Keep, .value = v};
            keep.array = new_array(v, {root.column});
            keep.kept_as = v;
            keep.rows = root.rows;
            keep.column = root.column;
            keep.level = it->second;
            added.push_back(std::move(keep));
            return;
          }
        }
        const tile::Inst* inst = facts_.def(v);
        if (inst == nullptr || is_control(*inst) || facts_.reduces(*inst)) return;
        for (ValueId a : facts_.operands(*inst)) self(self, a);
      };
      for (ValueId v : root_operands(root)) visit(visit, v);
    }
  }
  for (Root& r : added) roots.push_back(std::move(r));
}

void CpuLowering::nest(std::vector<Root> roots) {
  const size_t planned = roots.size();
  plan_kept(roots);
  for (const Root& r : roots)
    if (r.reduces_row()) fill(r);
  const std::vector<AxisId> row_axes = roots[0].rows;
  rows(row_axes, roots);
  for (size_t i = 0; i < roots.size(); ++i) {
    const Root& r = roots[i];
    if (!r.array || !r.kept_as) continue;
    // Arrays of one row end with it; results and values needed later live on.
    const bool of_row = i >= planned && !row_axes.empty();
    emit_.set_kept(r.kept_as, of_row ? std::nullopt : r.array);
  }
}

void CpuLowering::hoist_roots(const std::vector<const Root*>& roots, AxisId column) {
  for (const Root* r : roots) {
    emit_.hoist(r->value, column);
    if (r->kind == Root::Store) emit_.hoist_access(*r->inst, column);
    for (AxisId a : r->rows)
      if (!emit_.bound(a)) emit_.hoist_extent(a);
    if (r->column) emit_.hoist_extent(r->column);
  }
  emit_.end_hoist();
}

void CpuLowering::rows(std::span<const AxisId> left, const std::vector<Root>& roots) {
  if (left.empty()) return phases(roots);
  // Columns differ between roots: each is hoisted with its own.
  for (const Root& r : roots) hoist_roots({&r}, r.column);
  scalar_loop(left[0], [&] { rows(left.subspan(1), roots); });
}

void CpuLowering::phases(const std::vector<Root>& roots) {
  uint32_t last = 0;
  for (const Root& r : roots) last = std::max(last, r.level);
  for (uint32_t level = 0; level <= last; ++level) {
    std::vector<const Root*> scalars;
    std::vector<AxisId> columns;
    for (const Root& r : roots) {
      if (r.level != level) continue;
      if (!r.column)
        scalars.push_back(&r);
      else if (std::find(columns.begin(), columns.end(), r.column) == columns.end())
        columns.push_back(r.column);
    }
    scalar_phase(scalars);
    for (AxisId column : columns) {
      std::vector<const Root*> members;
      for (const Root& r : roots)
        if (r.level == level && r.column == column) members.push_back(&r);
      column_phase(column, members);
    }
    for (const Root& r : roots)
      if (r.level == level && r.kind == Root::Keep && r.kept_as) emit_.set_kept(r.kept_as, r.array);
  }
}

}  // namespace poot::codegen::cpu
