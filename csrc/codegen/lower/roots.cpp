// What a run has to do, and in which nest and phase.
//
// A value that is needed after its run: if every axis that it varies with is bound it is a scalar,
// evaluated in place; else, if it is cheap, it is evaluated again where it is needed (so its
// operands are needed after the run); else it is kept in a private array.
#include <algorithm>

#include "codegen/lower/block_lowering.h"

namespace poot::codegen::lowering {

using tile::AxisId;
using tile::ValueId;

std::vector<AxisId> BlockLowering::unbound_axes(ValueId v, bool only_deps) const {
  std::vector<AxisId> out;
  for (AxisId a : facts_.program().type(v).axes)
    if (a && !emit_.bound(a) && (!only_deps || (facts_.deps(v) & TileFacts::bit(a)) != 0))
      out.push_back(a);
  return out;
}

Root BlockLowering::make_root(Root::Kind kind, const tile::Inst* inst, ValueId value,
                              std::vector<AxisId> axes) const {
  Root r{.kind = kind, .inst = inst, .value = value};
  // An axis that is a row of some tile is a row everywhere, so that roots with and without the
  // column share a nest; but what follows dots shares none with them, and takes the last axis of
  // their results as a column of vectors.
  const AxisSet rows = facts_.row_axes() & ~facts_.dot_columns();
  if (!axes.empty() && (rows & TileFacts::bit(axes.back())) == 0) {
    r.column = axes.back();
    axes.pop_back();
  }
  r.rows = std::move(axes);
  return r;
}

Root BlockLowering::dot_root(const tile::Inst& inst) const {
  Root r{.kind = Root::Reduce, .inst = &inst, .value = inst.args[0]};
  r.kept_as = inst.results[0];
  r.column = r.reduced = tile::joined_axes(facts_.program(), inst.args).at(inst.axis);
  r.rows = unbound_axes(r.kept_as, false);
  return r;
}

// Its results have one place in the order of roots, and are values of the positions.
Root BlockLowering::scan_root(const tile::Inst& inst) const {
  const ValueId element = tile::scan_elements(inst)[0];
  Root r = make_root(Root::Scan, &inst, element, unbound_axes(element, false));
  r.reduced = facts_.program().type(element).axes.at(inst.axis);
  if (!has_scans() || r.reduced != r.column)
    throw Unsupported("tile program " + facts_.program().name, "a scan of this axis");
  return r;
}

Root BlockLowering::keep_root(ValueId v, KeptTile array, ValueId kept_as) const {
  Root r = make_root(Root::Keep, nullptr, v, array.axes);
  r.array = std::move(array);
  r.kept_as = kept_as;
  return r;
}

bool BlockLowering::fits(ValueId v, std::span<const AxisId> axes, int64_t window) const {
  if (!has_arrays()) return false;
  int64_t bytes = byte_size(facts_.program().type(v).dtype);
  for (AxisId a : axes) {
    const int64_t capacity = std::min(facts_.program().axes.at(a.index).capacity, window);
    if (capacity > kKeptBytesLimit / bytes) return false;
    bytes *= capacity;
  }
  return kept_bytes_ + bytes <= kKeptBytesLimit;
}

// `window` bounds the one axis of an array that keeps a row.
KeptTile BlockLowering::new_array(ValueId v, std::vector<AxisId> axes, int64_t window) {
  if (!has_arrays())
    throw Unsupported("tile program " + facts_.program().name,
                      "a tile kept between loops: this target has no arrays for it");
  int64_t elems = 1;
  for (AxisId a : axes) elems *= std::min(facts_.program().axes.at(a.index).capacity, window);
  kept_bytes_ += elems * byte_size(facts_.program().type(v).dtype);
  return emit_.new_array(v, std::move(axes), elems);
}

void BlockLowering::need_outside(Run& run, ValueId v) {
  if (!run.values.contains(v.index) || !run.kept_outside.insert(v.index).second) return;
  const tile::Inst& inst = *facts_.def(v);
  const bool lazy = facts_.program().type(v).scalar || inst.op == tile::Op::constant;
  if (run.reductions.contains(v.index)) {
    Root& r = run.roots.at(run.reductions.at(v.index));
    const std::vector<AxisId> axes = unbound_axes(v, false);
    if (!axes.empty() && !r.array) r.array = new_array(v, axes);
    return;
  }
  if (!lazy && (facts_.deps(v) & ~emit_.bound_axes()) == 0) {
    run.roots.push_back(make_root(Root::Uniform, nullptr, v, {}));
    return;
  }
  const std::vector<AxisId> axes = unbound_axes(v, true);
  if (!lazy && !cheap(v, axes.back()) && fits(v, axes)) {
    run.roots.push_back(keep_root(v, new_array(v, axes), v));
    return;
  }
  for (ValueId a : facts_.operands(inst)) need_outside(run, a);
}

void BlockLowering::lower_run(const Insts& insts, const tile::Inst* yield,
                              std::span<const std::optional<KeptTile>> carried) {
  Run run;
  for (const tile::Inst* inst : insts)
    for (ValueId r : inst->results) run.values.insert(r.index);
  for (const tile::Inst* inst : insts) {
    if (inst->op == tile::Op::reduce && facts_.live(inst->results[0])) {
      Root r = make_root(Root::Reduce, inst, inst->args[0], unbound_axes(inst->args[0], false));
      r.reduced = facts_.program().type(inst->args[0]).axes.at(inst->axis);
      if (!r.reduced) continue;  // over a unit axis: the value itself
      r.kept_as = inst->results[0];
      if (r.reduces_row()) {
        const std::vector<AxisId> axes = unbound_axes(r.kept_as, false);
        r.array = new_array(r.kept_as, axes);
      }
      run.reductions[r.kept_as.index] = run.roots.size();
      run.roots.push_back(std::move(r));
    }
    if (inst->op == tile::Op::dot && facts_.live(inst->results[0])) {
      run.reductions[inst->results[0].index] = run.roots.size();
      run.roots.push_back(dot_root(*inst));
    }
    if (inst->op == tile::Op::scan &&
        std::ranges::any_of(inst->results, [&](ValueId v) { return facts_.live(v); })) {
      for (ValueId v : inst->results) run.reductions[v.index] = run.roots.size();
      run.roots.push_back(scan_root(*inst));
    }
    if (tile::writes(inst->op) || inst->op == tile::Op::check)
      run.roots.push_back(make_root(tile::writes(inst->op) ? Root::Store : Root::Check, inst,
                                    inst->args[0], unbound_axes(inst->args[0], false)));
  }
  for (const tile::Inst* inst : insts)
    for (ValueId v : inst->results)
      if (facts_.escapes(v) && facts_.live(v)) need_outside(run, v);
  std::vector<Root> yields;
  if (yield != nullptr)
    for (size_t i = 0; i < carried.size(); ++i)
      if (carried[i]) yields.push_back(keep_root(yield->args[i], *carried[i], {}));
  order_roots(run);
  place_yields(run, std::move(yields));
  run_roots(std::move(run.roots));
}

// Roots of the reductions of this run that `root` needs without another reduction in between.
std::vector<size_t> BlockLowering::reductions_under(const Run& run, const Root& root) const {
  std::vector<size_t> out;
  std::unordered_set<uint32_t> seen;
  const auto visit = [&](auto&& self, ValueId v) -> void {
    if (!run.values.contains(v.index) || !seen.insert(v.index).second) return;
    if (auto it = run.reductions.find(v.index); it != run.reductions.end()) {
      out.push_back(it->second);
      return;
    }
    for (ValueId a : facts_.operands(*facts_.def(v))) self(self, a);
  };
  for (ValueId v : root_operands(root)) visit(visit, v);
  return out;
}

// Reductions come before their users in `roots` (program order), except that roots for values
// needed outside stand at the end: one pass in order settles all.
void BlockLowering::order_roots(Run& run) {
  std::vector<std::vector<size_t>> needs;
  for (const Root& r : run.roots) needs.push_back(reductions_under(run, r));
  for (size_t i = 0; i < run.roots.size(); ++i) {
    Root& r = run.roots[i];
    const auto in_row = [&](const Root& d) {
      return d.needs_column() && !d.is_dot() && d.rows == r.rows;
    };
    for (size_t k : needs[i]) {
      const Root& d = run.roots[k];
      r.nest = std::max(r.nest, d.nest + (in_row(d) ? 0 : 1));
    }
    for (size_t k : needs[i]) {
      Root& d = run.roots[k];
      if (d.nest == r.nest)
        r.level = std::max(r.level, d.level + 1);
      else if (!d.array && !d.rows.empty())
        d.array = new_array(d.kept_as, unbound_axes(d.kept_as, false));
    }
  }
}

// Carried arrays are overwritten when nothing of the run reads them any more.
void BlockLowering::place_yields(Run& run, std::vector<Root> yields) {
  uint32_t nest = 0, level = 0;
  bool one_nest = true;
  for (const Root& r : run.roots) nest = std::max(nest, r.nest);
  for (const Root& r : run.roots) {
    if (r.nest == nest) level = std::max(level, r.level);
    for (const Root& y : yields) one_nest = one_nest && (r.nest < nest || r.rows == y.rows);
  }
  for (const Root& y : yields) one_nest = one_nest && y.rows == yields[0].rows;
  std::vector<size_t> needs;
  for (Root& y : yields) {
    for (size_t k : reductions_under(run, y)) {
      Root& d = run.roots[k];
      const bool in_row =
          one_nest && d.nest == nest && d.needs_column() && !d.is_dot() && d.rows == y.rows;
      if (in_row) {
        level = std::max(level, d.level + 1);
      } else {
        needs.push_back(k);
        one_nest = one_nest && d.nest < nest;
      }
    }
  }
  for (size_t k : needs) {
    Root& d = run.roots[k];
    if (!d.array && !d.rows.empty()) d.array = new_array(d.kept_as, unbound_axes(d.kept_as, false));
  }
  for (Root& y : yields) {
    y.nest = one_nest ? nest : nest + 1;
    y.level = one_nest ? level : 0;
    run.roots.push_back(std::move(y));
  }
}

}  // namespace poot::codegen::lowering
