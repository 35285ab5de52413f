// Legality by places. A region R may take equation e if some place suits all of it: after every
// unit that R and e read from, before every unit that reads from them. Two candidates are tried:
// R's present place and e's own. The bounds are computed afresh from the edges of R, whose size is
// capped, so a check costs a constant.
#include "passes/partition.h"

#include <algorithm>

#include "ir/reduce_order.h"

namespace poot::passes {
namespace {

template <class T>
void insert_sorted(std::vector<T>& list, T value) {
  const auto at = std::lower_bound(list.begin(), list.end(), value);
  if (at == list.end() || *at != value) list.insert(at, value);
}

template <class T>
bool contains(const std::vector<T>& list, T value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

Partition::Partition(const ir::Graph& graph)
    : graph_(graph),
      user_start_(graph.value_count() + 1, 0),
      output_(graph.value_count(), false),
      dissolved_(graph.eqns().size(), false),
      home_(graph.eqns().size(), kNoRegion),
      copied_to_(graph.eqns().size()) {
  const auto each_operand = [&](auto&& visit) {
    for (uint32_t e = 0; e < graph.eqns().size(); ++e) {
      std::vector<uint32_t> seen;
      for (const ir::Operand& o : eqn(e).inputs)
        if (ir::is_value(o) && !contains(seen, std::get<ir::ValueId>(o).index))
          visit(e, seen.emplace_back(std::get<ir::ValueId>(o).index));
    }
  };
  each_operand([&](uint32_t, uint32_t v) { ++user_start_[v + 1]; });
  for (size_t v = 0; v < graph.value_count(); ++v) user_start_[v + 1] += user_start_[v];
  user_list_.resize(user_start_.back());
  std::vector<uint32_t> next(user_start_.begin(), user_start_.end() - 1);
  each_operand([&](uint32_t e, uint32_t v) { user_list_[next[v]++] = e; });
  for (const ir::GraphOutput& out : graph.outputs()) output_[out.value.index] = true;
  updated_at_.assign(graph.value_count(), INT64_MAX);
  for (auto e = static_cast<uint32_t>(graph.eqns().size()); e-- > 0;)
    if (eqn(e).info().effects == ir::Effects::Update && ir::is_value(eqn(e).inputs[0]))
      updated_at_[std::get<ir::ValueId>(eqn(e).inputs[0]).index] = e;
  for (const ir::Eqn& e : graph.eqns())
    if (ir::is_view(e.info().kind) && ir::is_value(e.inputs[0]))
      updated_at_[e.outs[0].index] = updated_at_[std::get<ir::ValueId>(e.inputs[0]).index];
}

std::span<const uint32_t> Partition::users(ir::ValueId v) const {
  return std::span(user_list_)
      .subspan(user_start_[v.index], user_start_[v.index + 1] - user_start_[v.index]);
}

bool Partition::holds(RegionIndex r, uint32_t e) const {
  return home_[e] == r || contains(copied_to_[e], r);
}

Readers Partition::readers(uint32_t e) const {
  Readers result;
  for (const ir::ValueId out : eqn(e).outs) {
    result.outside = result.outside || output_[out.index];
    for (const uint32_t u : users(out)) {
      for (const RegionIndex r : copied_to_[u]) insert_sorted(result.regions, r);
      if (home_[u] != kNoRegion)
        insert_sorted(result.regions, home_[u]);
      else if (!dissolved_[u])
        result.outside = true;
    }
  }
  return result;
}

bool Partition::read_outside(ir::ValueId v, RegionIndex r) const {
  if (output_[v.index]) return true;
  for (const uint32_t u : users(v)) {
    if (home_[u] == kNoRegion ? !dissolved_[u] : home_[u] != r) return true;
    for (const RegionIndex c : copied_to_[u])
      if (c != r) return true;
  }
  return false;
}

int64_t Partition::place_of(uint32_t e) const {
  return home_[e] == kNoRegion ? e : regions_[home_[e]].place;
}

// Bounds that equation e puts on the place of the union of a, b and `joining`. A copy is evaluated
// where it is read, so only its operands bind.
void Partition::narrow(Window& w, uint32_t e, bool member, RegionIndex a, RegionIndex b,
                       uint32_t joining) const {
  const auto inside = [&](uint32_t other) {
    return other == joining || holds(a, other) || (b != kNoRegion && holds(b, other));
  };
  for (const ir::Operand& o : eqn(e).inputs) {
    if (!ir::is_value(o)) continue;
    const int32_t d = graph_.def(std::get<ir::ValueId>(o));
    if (d >= 0 && !inside(static_cast<uint32_t>(d))) w.lo = std::max(w.lo, place_of(d));
    const int64_t updated = updated_at_[std::get<ir::ValueId>(o).index];
    if (member && e < updated) w.hi = std::min(w.hi, updated);
  }
  if (!member) return;
  for (const ir::ValueId out : eqn(e).outs)
    for (const uint32_t u : users(out)) {
      for (const RegionIndex c : copied_to_[u])
        if (c != a && c != b) w.hi = std::min<int64_t>(w.hi, regions_[c].place);
      if (home_[u] != kNoRegion ? home_[u] != a && home_[u] != b : !dissolved_[u] && u != joining)
        w.hi = std::min(w.hi, place_of(u));
    }
}

Partition::Window Partition::window(RegionIndex a, RegionIndex b, uint32_t joining) const {
  Window w;
  for (const RegionIndex r : {a, b}) {
    if (r == kNoRegion) continue;
    for (const uint32_t m : regions_[r].members) narrow(w, m, true, a, b, joining);
    for (const uint32_t c : regions_[r].copies) narrow(w, c, false, a, b, joining);
  }
  if (joining != kNoRegion) narrow(w, joining, true, a, b, joining);
  return w;
}

// What r would read from outside with e in it.
std::vector<ir::ValueId> Partition::merged_reads(RegionIndex r, uint32_t e) const {
  std::vector<ir::ValueId> reads = regions_[r].reads;
  for (const ir::ValueId out : eqn(e).outs) std::erase(reads, out);
  for (const ir::Operand& o : eqn(e).inputs) {
    if (!ir::is_value(o)) continue;
    const auto v = std::get<ir::ValueId>(o);
    const int32_t d = graph_.def(v);
    if (d < 0 || !holds(r, static_cast<uint32_t>(d))) insert_sorted(reads, v);
  }
  return reads;
}

bool Partition::reads_base(uint32_t e) const {
  for (const ir::Operand& o : eqn(e).inputs)
    if (ir::is_value(o) && updated_at_[std::get<ir::ValueId>(o).index] != INT64_MAX) return true;
  return false;
}

bool Partition::unrounded(uint32_t e) const {
  return std::ranges::any_of(users(eqn(e).outs[0]),
                             [&](uint32_t u) { return ir::adds_unrounded(eqn(u)); });
}

RegionIndex Partition::open(uint32_t e, Shape space) {
  const auto r = static_cast<RegionIndex>(regions_.size());
  regions_.push_back({{e}, {}, {}, e, std::move(space), false});
  regions_[r].reads = merged_reads(r, e);
  home_[e] = r;
  return r;
}

const char* Partition::refuses(RegionIndex r, uint32_t e) const {
  const DraftRegion& region = regions_[r];
  if (region.members.size() + region.copies.size() >= kMaxRegionEqns)
    return "the region holds as many equations as a kernel may";
  const auto reads = merged_reads(r, e);
  if (reads.size() > kMaxRegionInputs && reads.size() > region.reads.size())
    return "the region would read more values than a kernel may";
  if (only_read_by(r, e)) return nullptr;
  const Window w = window(r, kNoRegion, e);
  if (!w.admits(region.place) && !w.admits(e))
    return "another equation stands between producer and consumer";
  return nullptr;
}

// Such an equation suits the region's place: it came before it already, and nobody else waits.
bool Partition::only_read_by(RegionIndex r, uint32_t e) const {
  if (reads_base(e)) return false;
  const Readers who = readers(e);
  return !who.outside && who.regions.size() == 1 && who.regions[0] == r;
}

void Partition::join(RegionIndex r, uint32_t e) {
  DraftRegion& region = regions_[r];
  if (!only_read_by(r, e) && !window(r, kNoRegion, e).admits(region.place)) region.place = e;
  region.reads = merged_reads(r, e);
  region.members.push_back(e);
  home_[e] = r;
}

const char* Partition::refuses_copy(RegionIndex r, uint32_t e) const {
  const DraftRegion& region = regions_[r];
  if (region.members.size() + region.copies.size() >= kMaxRegionEqns)
    return "the region holds as many equations as a kernel may";
  const auto reads = merged_reads(r, e);
  if (reads.size() > kMaxRegionInputs && reads.size() > region.reads.size())
    return "the region would read more values than a kernel may";
  return nullptr;
}

void Partition::copy(RegionIndex r, uint32_t e) {
  regions_[r].reads = merged_reads(r, e);
  regions_[r].copies.push_back(e);
  insert_sorted(copied_to_[e], r);
}

void Partition::uncopy(RegionIndex r, uint32_t e) {
  std::erase(regions_[r].copies, e);
  std::erase(copied_to_[e], r);
  dissolved_[e] = false;
  read_afresh(r);
}

void Partition::dissolve_if_held(uint32_t e) {
  const Readers who = readers(e);
  if (!who.outside && std::ranges::all_of(who.regions, [&](RegionIndex r) { return holds(r, e); }))
    dissolve(e);
}

void Partition::read_afresh(RegionIndex r) {
  std::vector<ir::ValueId> reads;
  for (const auto* list : {&regions_[r].members, &regions_[r].copies})
    for (const uint32_t e : *list)
      for (const ir::Operand& o : eqn(e).inputs) {
        if (!ir::is_value(o)) continue;
        const auto v = std::get<ir::ValueId>(o);
        const int32_t d = graph_.def(v);
        if (d < 0 || !holds(r, static_cast<uint32_t>(d))) insert_sorted(reads, v);
      }
  regions_[r].reads = std::move(reads);
}

const char* Partition::refuses_merge(RegionIndex a, RegionIndex b) const {
  const DraftRegion &x = regions_[a], &y = regions_[b];
  if (x.members.size() + x.copies.size() + y.members.size() + y.copies.size() > kMaxRegionEqns)
    return "the region would hold more equations than a kernel may";
  std::vector<ir::ValueId> reads = x.reads;
  for (const ir::ValueId v : y.reads) insert_sorted(reads, v);
  if (reads.size() > kMaxRegionInputs) return "the region would read more values than a kernel may";
  // One reading the other's result would give that result a second index map.
  for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}})
    for (const ir::ValueId v : regions_[to].reads)
      if (const int32_t d = graph_.def(v); d >= 0 && home_[d] == from)
        return "one region reads the other's result";
  const Window w = window(a, b, kNoRegion);
  if (!w.admits(x.place) && !w.admits(y.place))
    return "another equation stands between the regions";
  return nullptr;
}

void Partition::merge(RegionIndex a, RegionIndex b) {
  DraftRegion &x = regions_[a], &y = regions_[b];
  if (!window(a, b, kNoRegion).admits(x.place)) x.place = y.place;
  for (const ir::ValueId v : y.reads) insert_sorted(x.reads, v);
  for (const uint32_t m : y.members) {
    home_[m] = a;
    x.members.push_back(m);
  }
  for (const uint32_t c : y.copies) {
    std::erase(copied_to_[c], b);
    if (!contains(x.copies, c)) x.copies.push_back(c);
    insert_sorted(copied_to_[c], a);
  }
  read_afresh(a);
  y = {};
  y.merged_away = true;
}

// Whether equation e of region r could be back at its own place.
bool Partition::stands_alone(RegionIndex r, uint32_t e) const {
  for (const ir::Operand& o : eqn(e).inputs) {
    const int32_t d = ir::is_value(o) ? graph_.def(std::get<ir::ValueId>(o)) : -1;
    if (d >= 0 && home_[d] != r && place_of(static_cast<uint32_t>(d)) >= e) return false;
  }
  for (const ir::ValueId out : eqn(e).outs)
    for (const uint32_t u : users(out)) {
      if (home_[u] != kNoRegion && home_[u] != r && regions_[home_[u]].place <= e) return false;
      for (const RegionIndex c : copied_to_[u])
        if (c != r && regions_[c].place <= e) return false;
    }
  return true;
}

bool Partition::drop(RegionIndex r) {
  DraftRegion& region = regions_[r];
  for (const auto* list : {&region.members, &region.copies})
    for (const uint32_t e : *list)
      if (!stands_alone(r, e)) return false;
  for (const uint32_t m : region.members) home_[m] = kNoRegion;
  for (const uint32_t c : region.copies) {
    std::erase(copied_to_[c], r);
    dissolved_[c] = false;
  }
  region = {};
  region.merged_away = true;
  return true;
}

}  // namespace poot::passes
