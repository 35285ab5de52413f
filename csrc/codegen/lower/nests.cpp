// Nests: row loops around phases. Before a loop is opened, everything its roots need that does not
// vary inside is evaluated outside (hoist); before a nest is emitted, values that several phases
// need and that are dear to evaluate twice get an array, written in the first phase that has them.
#include <algorithm>

#include "codegen/lower/block_lowering.h"

namespace poot::codegen::lowering {

constexpr int64_t kElemsAhead = 1024;

using tile::AxisId;
using tile::ValueId;

std::vector<ValueId> BlockLowering::root_operands(const Root& r) const {
  if (r.kind == Root::Store) return facts_.operands(*r.inst);
  if (r.is_dot() || r.kind == Root::Scan) return r.inst->args;
  return {r.value};
}

void BlockLowering::run_roots(std::vector<Root> roots) {
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

bool BlockLowering::cheap(ValueId v, AxisId column) const {
  // About what writing and reading back an array costs.
  constexpr int kCheap = 5;
  Root r{.kind = Root::Keep, .value = v};
  return phase_cost({&r}, column).ops <= kCheap;
}

// Values of `roots` that several phases need, as further roots. `window`: arrays hold at most that
// many columns. `refused` counts the bytes a column of what does not fit.
std::vector<Root> BlockLowering::kept_across_phases(const std::vector<Root>& roots, int64_t window,
                                                    int64_t* refused) {
  std::unordered_map<uint32_t, uint32_t> first;  // value -> phase that evaluates it first
  std::unordered_set<uint32_t> kept;
  std::vector<Root> added;
  const auto visit = [&](auto&& self, const Root& root, ValueId v) -> void {
    if ((facts_.deps(v) & TileFacts::bit(root.column)) == 0 || emit_.is_kept(v)) return;
    auto [it, fresh] = first.emplace(v.index, root.level);
    if (kept.contains(v.index) || (!fresh && it->second == root.level)) return;
    if (!fresh) {
      if (cheap(v, root.column)) return;
      if (fits(v, std::span(&root.column, 1), window)) {
        kept.insert(v.index);
        Root keep{.kind = Root::Keep, .value = v};
        keep.array = new_array(v, {root.column}, window);
        keep.kept_as = v;
        keep.rows = root.rows;
        keep.column = root.column;
        keep.level = it->second;
        added.push_back(std::move(keep));
        return;
      }
      *refused += byte_size(facts_.program().type(v).dtype);
    }
    const tile::Inst* inst = facts_.def(v);
    if (inst == nullptr || is_control(*inst) || facts_.reduces(*inst)) return;
    for (ValueId a : facts_.operands(*inst)) self(self, root, a);
  };
  uint32_t last = 0;
  for (const Root& r : roots) last = std::max(last, r.level);
  for (uint32_t level = 0; last > 0 && level <= last; ++level)
    for (const Root& root : roots)
      if (root.level == level && root.column)
        for (ValueId v : root_operands(root)) visit(visit, root, v);
  return added;
}

// Whether the nest's results are all in memory, so that it may run as one of two versions.
bool BlockLowering::has_versions(const std::vector<Root>& roots) const {
  AxisId column;
  for (const Root& r : roots) {
    if (r.column) {
      if (column && r.column != column) return false;
      column = r.column;
    }
    if (r.kind == Root::Uniform ||
        (r.kind == Root::Reduce && r.rows.empty() && facts_.escapes(r.kept_as)))
      return false;
  }
  return !emit_.static_extent(column);
}

// A row of unbounded length may be short: it is then kept in arrays of a fixed size, and only
// longer rows are evaluated again in each phase.
void BlockLowering::nest(std::vector<Root> roots) {
  if (std::any_of(roots.begin(), roots.end(), [](const Root& r) { return r.is_dot(); })) {
    std::vector<const Root*> all;
    for (const Root& r : roots) all.push_back(&r);
    dots(all);
    for (const Root& r : roots)
      if (r.array) emit_.set_kept(r.kept_as, r.array);
    return;
  }
  mark_guess(roots);
  const std::vector<ValueId> transposed = transposed_loads(roots);
  if (!transposed.empty()) {
    const auto walks = std::ranges::find_if(roots, [](const Root& r) { return bool(r.column); });
    for (ValueId v : transposed) keep_transposed(v, roots[0].rows[0], walks->column);
  }
  Nest n;
  int64_t refused = 0;
  std::vector<Root> added = kept_across_phases(roots, INT64_MAX, &refused);
  for (const Root& r : added) n.row_arrays.push_back(r.kept_as);
  n.roots = roots;
  n.roots.insert(n.roots.end(), added.begin(), added.end());
  if (has_arrays() && refused > 0 && has_versions(roots)) {
    const int64_t window = (kKeptBytesLimit - kept_bytes_) / refused / 64 * 64;
    if (window >= 1024) {
      int64_t ignored = 0;
      std::vector<Root> more = kept_across_phases(n.roots, window, &ignored);
      for (const Root& r : more) n.window_arrays.push_back(r.kept_as);
      n.window = window;
      n.windowed = n.roots;
      n.windowed.insert(n.windowed.end(), more.begin(), more.end());
    }
  }
  for (const Root& r : roots)
    if (r.reduces_row()) fill(r);
  pair_ = pair_axis(roots);
  std::span<const AxisId> loops = roots[0].rows;
  rows(pair_ ? loops.first(loops.size() - 1) : loops, n);
  pair_ = {};
  // Arrays of one row end with it; results and values needed later live on.
  for (ValueId v : n.row_arrays) emit_.set_kept(v, std::nullopt);
  for (ValueId v : transposed) emit_.set_kept(v, std::nullopt);
  for (const Root& r : roots)
    if (r.array && r.kept_as) emit_.set_kept(r.kept_as, r.array);
}

void BlockLowering::hoist_roots(const std::vector<const Root*>& roots, AxisId column) {
  for (const Root* r : roots) {
    const bool all = r->is_dot() || r->kind == Root::Scan;
    for (ValueId v : all ? r->inst->args : std::vector{r->value}) emit_.hoist(v, column);
    if (r->kind == Root::Store) emit_.hoist_access(*r->inst, column);
    for (AxisId a : r->rows)
      if (!emit_.bound(a)) emit_.hoist_extent(a);
    if (r->column) emit_.hoist_extent(r->column);
  }
  emit_.end_hoist();
}

void BlockLowering::rows(std::span<const AxisId> left, const Nest& n) {
  if (left.empty()) return versions(n);
  // Columns differ between roots: each is hoisted with its own.
  for (const Root& r : n.roots) hoist_roots({&r}, r.column);
  row_loop(left[0], [&] { rows(left.subspan(1), n); });
}

void BlockLowering::versions(const Nest& n) {
  if (n.window == 0) return phases(n.roots);
  AxisId column;
  for (const Root& r : n.roots)
    if (r.column) column = r.column;
  kir::KirBuilder& b = emit_.builder();
  const auto version = [&](const std::vector<Root>& roots) {
    emit_.push_scope();
    phases(roots);
    emit_.pop_scope();
    return std::vector<kir::ValueId>{};
  };
  b.if_else(
      b.icmp(kir::Pred::sle, emit_.extent(column), emit_.i64(n.window)),
      [&] {
        auto none = version(n.windowed);
        for (ValueId v : n.window_arrays) emit_.set_kept(v, std::nullopt);
        for (ValueId v : n.row_arrays) emit_.set_kept(v, std::nullopt);
        return none;
      },
      [&] { return version(n.roots); });
}

// Whether a launch touches more than the caches of the cores that share it keep; unknown sizes may.
bool BlockLowering::exceeds_cache() const {
  const tile::Program& p = facts_.program();
  const Dim blocks = p.grid[0] * p.grid[1] * p.grid[2];
  if (!blocks.is_const()) return true;
  int64_t bytes = 0;  // of one element of each operand
  for (const tile::Buffer& b : p.buffers) bytes += byte_size(b.dtype);
  return static_cast<uint64_t>(blocks.value() * p.block_elems * bytes) >= 2 * target_.cache_bytes;
}

// A row that several phases read comes from memory in the first only, unless it was asked for while
// the row before it was worked on: best in the phase with the most arithmetic, which hides the time
// that memory takes. It must load everything that the first phase does.
std::optional<BlockLowering::Prefetching> BlockLowering::prefetching_phase(
    const std::vector<Root>& roots, uint32_t last) const {
  if (!exceeds_cache()) return std::nullopt;
  std::unordered_set<uint32_t> at_hand;
  std::set<uint32_t> needed;
  Prefetching best{0, true, {}};
  int most = -1;
  for (uint32_t level = 0; level <= last; ++level) {
    PhaseCost cost;
    for (const Root& r : roots) {
      if (r.level != level || !r.column) continue;
      const PhaseCost own = phase_cost({&r}, r.column, at_hand);
      cost.ops += own.ops;
      cost.buffers.insert(own.buffers.begin(), own.buffers.end());
      cost.loads.insert(cost.loads.end(), own.loads.begin(), own.loads.end());
    }
    const bool first = needed.empty();
    if (first) needed = cost.buffers, best.loads = cost.loads;
    if (!needed.empty() && std::ranges::includes(cost.buffers, needed)) {
      best.once = first;
      if (cost.ops > most) best.level = level, most = cost.ops;
    }
    for (const Root& r : roots)
      if (r.level == level && r.kind == Root::Keep) at_hand.insert(r.kept_as.index);
  }
  if (needed.empty() || (!best.once && roots[0].rows.empty())) return std::nullopt;
  return best;
}

void BlockLowering::dots(const std::vector<const Root*>&) {
  throw Unsupported("tile program " + facts_.program().name, "dots on this target");
}

// Rows that are read once go by too fast for the processor to foresee where they go on, be they
// short or in many streams.
void BlockLowering::ask_ahead(const Root& root) {
  const int64_t columns = facts_.program().axes.at(root.column.index).capacity;
  const size_t rows = root.rows.size() - (pair_ ? 1 : 0);
  if (columns > kElemsAhead)
    emit_.stream_ahead(root.column, 4 * kElemsAhead);
  else if (rows > 0)
    emit_.prefetch_ahead(root.rows[rows - 1], kElemsAhead / columns);
}

// What the last phase of a row does to memory is to write: meanwhile the next row can be read.
void BlockLowering::ask_with_stores(const std::vector<const Root*>& members,
                                    const Prefetching& what) {
  if (pair_ || members[0]->rows.empty()) return;
  const auto stores = [](const Root* r) { return r->kind == Root::Store; };
  const auto store = std::find_if(members.begin(), members.end(), stores);
  if (store == members.end()) return;
  std::vector<const tile::Inst*> loads;
  for (const tile::Inst* load : what.loads)
    if ((facts_.deps(load->index) & TileFacts::bit(members[0]->column)) != 0) loads.push_back(load);
  emit_.ask_with((*store)->inst, members[0]->rows.back(), std::move(loads));
}

void BlockLowering::phases(const std::vector<Root>& roots) {
  uint32_t last = 0;
  for (const Root& r : roots) last = std::max(last, r.level);
  const std::optional<Prefetching> prefetching = prefetching_phase(roots, last);
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
    const bool guessed = std::any_of(roots.begin(), roots.end(),
                                     [&](const Root& r) { return r.guess && r.level == level; });
    if (!guessed) scalar_phase(scalars);
    const bool prefetches = prefetching && prefetching->level == level;
    if (prefetches && !prefetching->once) emit_.prefetch_ahead(roots[0].rows.back());
    for (AxisId column : columns) {
      std::vector<const Root*> members;
      for (const Root& r : roots)
        if (r.level == level && r.column == column) members.push_back(&r);
      if (prefetches && prefetching->once) ask_ahead(*members[0]);
      if (prefetching && prefetching->once && level == last && level > prefetching->level)
        ask_with_stores(members, *prefetching);
      guessed ? guessed_phase(column, members) : column_phase(column, members);
    }
    emit_.prefetch_ahead({});
    emit_.stream_ahead({}, 0);
    emit_.ask_with(nullptr, {}, {});
    if (guessed) scalar_phase(scalars);
    for (const Root& r : roots)
      if (r.level == level && r.kind == Root::Keep && r.kept_as) emit_.set_kept(r.kept_as, r.array);
  }
}

}  // namespace poot::codegen::lowering
