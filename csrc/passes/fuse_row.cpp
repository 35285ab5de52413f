// Row fusion: a reduction over trailing axes, what feeds it, and what follows become one region
// that passes over each row once or twice instead of once an equation. Softmax, the norms with the
// residual before and the scale after, log-softmax, arg-max, and the rows of their gradients.
//
//   %1 = add %x, %r                       %1, %7 = fused_row %x, %r, %w {axes=1} body { … }
//   %2 = mul %1, %1
//   %3 = reduce_sum %2 {axes=[1]}   =>    (%1, the residual stream, is read elsewhere too and
//   … rsqrt, mul %1, mul %w               leaves as a second result)
//
// One forward sweep. A reduction joins the region that makes its operand, if the rows are the same,
// or opens one and takes in its producers, backwards, as far as they are pointwise over the same
// rows (or cheap: a widened weight). Later pointwise equations and reductions on the region's
// values join while each of their elements stays in its row; views are copied in where they keep
// rows and columns apart, and so is what such an equation alone needs besides, which may lie
// between it and the region. Values that others read as well become further results. Matrix
// products and other boundaries between producer and reader show as a place that suits neither, and
// end the region.
//
// A region over all axes that writes nothing of full size is left to fuse_reduce, which shares one
// row among threads; so are sums that add products unrounded, with these products.
#include <algorithm>

#include "ir/reduce_order.h"
#include "passes/fusion_cost.h"
#include "passes/layout.h"
#include "passes/partition.h"
#include "passes/row_shape.h"
#include "passes/value_label.h"

namespace poot::passes {
namespace {

class RowFusion {
 public:
  RowFusion(ir::Graph& graph, PassContext& context)
      : graph_(graph), context_(context), partition_(graph) {}

  bool run() {
    if (!context_.options.fuse) return false;
    for (uint32_t e = 0; e < graph_.eqns().size(); ++e) {
      if (partition_.home(e) != kNoRegion || complex(e)) continue;
      const ir::OpKind kind = partition_.eqn(e).info().kind;
      if (kind == ir::OpKind::Reduce)
        place_reduction(e);
      else if (ir::is_pointwise(kind))
        place_pointwise(e);
    }
    while (drop_some()) {
    }
    take_freed();
    dissolve_copied();
    return partition_.commit(
        graph_, ir::OpCode::fused_row,
        [&](RegionIndex r) { return std::vector<ir::Attr>{static_cast<int64_t>(rows_[r].axes)}; },
        context_, "fuse_row");
  }

 private:
  const Shape& shape(uint32_t e) const { return graph_.type(partition_.eqn(e).outs[0]).shape; }
  bool complex(uint32_t e) const {
    for (const ir::Operand& o : partition_.eqn(e).inputs)
      if (is_complex(graph_.type(o).dtype)) return true;
    for (const ir::ValueId out : partition_.eqn(e).outs)  // a dispatched check has none
      if (is_complex(graph_.type(out).dtype)) return true;
    return false;
  }
  int32_t def(const ir::Operand& o) const {
    return ir::is_value(o) ? graph_.def(std::get<ir::ValueId>(o)) : -1;
  }
  bool view(int32_t e) const {
    return e >= 0 && ir::is_view(partition_.eqn(static_cast<uint32_t>(e)).info().kind);
  }

  // Regions that make an operand of e, seen through views; ascending.
  std::vector<RegionIndex> makers(uint32_t e) const {
    std::vector<RegionIndex> found;
    for (const ir::Operand& o : partition_.eqn(e).inputs) {
      int32_t d = def(o);
      while (view(d)) d = def(partition_.eqn(static_cast<uint32_t>(d)).inputs[0]);
      if (d < 0) continue;
      const RegionIndex r = partition_.home(static_cast<uint32_t>(d));
      if (r != kNoRegion && std::find(found.begin(), found.end(), r) == found.end())
        found.push_back(r);
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  void place_reduction(uint32_t e) {
    const auto row = row_shape(graph_, partition_.eqn(e));
    if (!row || ir::adds_unrounded(partition_.eqn(e))) return;
    std::vector<RegionIndex> candidates = makers(e);
    const ir::Operand& operand = partition_.eqn(e).inputs[0];
    if (ir::is_value(operand))
      for (const uint32_t u : partition_.users(std::get<ir::ValueId>(operand)))
        if (partition_.home(u) != kNoRegion) candidates.push_back(partition_.home(u));
    for (const RegionIndex r : candidates)
      if (rows_[r].axes == row->axes && is_full(rows_[r], row->full) && join(r, e).empty()) return;
    const RegionIndex r = partition_.open(e, row->full);
    rows_.resize(r + 1);
    rows_[r] = *row;
    take_producers(r, e);
  }

  void place_pointwise(uint32_t e) {
    std::vector<RegionIndex> candidates = makers(e);
    if (candidates.empty() || partition_.unrounded(e) || feeds_other_reductions(e)) return;
    // Two regions over the same rows that meet here become one.
    for (size_t i = 1; i < candidates.size(); ++i)
      if (rows_[candidates[0]] == rows_[candidates[i]] &&
          !partition_.refuses_merge(candidates[0], candidates[i])) {
        partition_.merge(candidates[0], candidates[i]);
        candidates.erase(candidates.begin() + static_cast<ptrdiff_t>(i--));
      }
    std::string refusal;
    for (auto r = candidates.rbegin(); r != candidates.rend(); ++r) {
      refusal = join(*r, e);
      if (refusal.empty()) return;
    }
    context_.declines.push_back({"fuse_row", value_label(graph_, partition_.eqn(e)), refusal});
  }

  // Only reductions over other axes read it: it is cheaper to compute there than to store here.
  bool feeds_other_reductions(uint32_t e) const {
    const ir::ValueId out = partition_.eqn(e).outs[0];
    if (partition_.is_output(out) || partition_.users(out).empty()) return false;
    for (const uint32_t u : partition_.users(out))
      if (partition_.eqn(u).info().kind != ir::OpKind::Reduce ||
          row_shape(graph_, partition_.eqn(u)))
        return false;
    return evaluation_cost(graph_, partition_.eqn(e)) <= kCheapPs;
  }

  // Empty if e joined r, with the views between them and what only e needs besides, else the reason
  // why not.
  std::string join(RegionIndex r, uint32_t e) {
    const ir::Eqn& eqn = partition_.eqn(e);
    const RowShape& row = rows_[r];
    const bool reduces = eqn.info().kind == ir::OpKind::Reduce;
    const Shape result = reduces ? graph_.type(eqn.inputs[0]).shape : shape(e);
    if (!reduces && !is_full(row, result) && !is_per_row(row, result))
      return "its shape " + str(result) + " is not made of the region's rows";
    std::vector<uint32_t> copies = views_before(r, e);
    const char* refusal = row_refusal(partition_, r, row, e, copies);
    if (refusal) return refusal;
    for (const uint32_t c : copies) copy_in(r, c, e);
    refusal = partition_.refuses(r, e);
    if (refusal && bring_producers(r, e, copies)) {
      refusal = partition_.refuses(r, e);
      if (!refusal) refusal = row_refusal(partition_, r, row, e, copies);
    }
    if (refusal) {
      for (const uint32_t c : copies) partition_.uncopy(r, c);
      return refusal;
    }
    partition_.join(r, e);
    take_producers(r, e);
    for (const uint32_t c : copies) take_producers(r, c);
    return "";
  }

  // Views between what r makes and e, as far as r does not hold them.
  std::vector<uint32_t> views_before(RegionIndex r, uint32_t e) const {
    std::vector<uint32_t> views;
    for (const ir::Operand& o : partition_.eqn(e).inputs)
      for (int32_t d = def(o); made_in(r, o) && view(d);
           d = def(partition_.eqn(static_cast<uint32_t>(d)).inputs[0])) {
        const auto v = static_cast<uint32_t>(d);
        if (!partition_.holds(r, v) && std::ranges::find(views, v) == views.end())
          views.push_back(v);
      }
    return views;
  }

  // Copies in what only e needs, row by row, and what is free: it may stand between the region and
  // e. False if there is nothing.
  bool bring_producers(RegionIndex r, uint32_t e, std::vector<uint32_t>& copies) {
    const size_t before = copies.size();
    std::vector<uint32_t> open{e};
    while (!open.empty()) {
      const uint32_t reader = open.back();
      open.pop_back();
      for (const ir::Operand& o : partition_.eqn(reader).inputs) {
        const int32_t d = def(o);
        if (d < 0 || complex(static_cast<uint32_t>(d))) continue;
        const auto producer = static_cast<uint32_t>(d);
        if (partition_.home(producer) != kNoRegion || partition_.holds(r, producer) ||
            partition_.refuses_copy(r, producer))
          continue;
        const ir::Eqn& eqn = partition_.eqn(producer);
        const bool rowwise = ir::is_pointwise(eqn.info().kind) && fits(rows_[r], eqn) &&
                             beside_rows(rows_[r], producer, reader);
        const bool alone = read_with(r, producer, e) && !partition_.reads_base(producer);
        if (!is_free(graph_, eqn) && !(rowwise && alone)) continue;
        copy_in(r, producer, e);
        copies.push_back(producer);
        open.push_back(producer);
      }
    }
    return copies.size() > before;
  }

  bool made_in(RegionIndex r, const ir::Operand& o) const {
    int32_t d = def(o);
    while (view(d)) d = def(partition_.eqn(static_cast<uint32_t>(d)).inputs[0]);
    return d >= 0 && partition_.home(static_cast<uint32_t>(d)) == r;
  }

  // Equation u is evaluated in r and nowhere else.
  bool only_inside(RegionIndex r, uint32_t u) const {
    return partition_.home(u) == r || (partition_.holds(r, u) && partition_.dissolved(u));
  }

  // All that reads e is in r or is `reader`, which joins r.
  bool read_with(RegionIndex r, uint32_t e, uint32_t reader) const {
    const ir::ValueId out = partition_.eqn(e).outs[0];
    return !partition_.is_output(out) &&
           std::ranges::all_of(partition_.users(out), [&](uint32_t u) {
             return only_inside(r, u) || (u == reader && !partition_.copied(u));
           });
  }

  // Copies an equation that `reader` (and perhaps others) reads; it is gone from outside once all
  // its readers are in r or are `reader`.
  void copy_in(RegionIndex r, uint32_t e, uint32_t reader) {
    partition_.copy(r, e);
    if (read_with(r, e, reader)) partition_.dissolve(e);
  }

  // Takes in what the new member e reads, and what that reads, as far as it goes.
  void take_producers(RegionIndex r, uint32_t e) {
    std::vector<uint32_t> open{e};
    while (!open.empty()) {
      const uint32_t reader = open.back();
      open.pop_back();
      for (const ir::Operand& o : partition_.eqn(reader).inputs) {
        const int32_t d = def(o);
        if (d < 0 || complex(static_cast<uint32_t>(d))) continue;
        const auto producer = static_cast<uint32_t>(d);
        if (partition_.home(producer) != kNoRegion || partition_.holds(r, producer)) continue;
        if (!partition_.unrounded(producer) && take(r, producer, reader)) open.push_back(producer);
      }
    }
  }

  bool take(RegionIndex r, uint32_t e, uint32_t reader) {
    const ir::Eqn& eqn = partition_.eqn(e);
    const RowShape& row = rows_[r];
    const Shape& own = shape(e);
    const ir::OpKind kind = eqn.info().kind;
    const bool lookup = is_lookup(eqn) && (is_full(row, own) || is_per_row(row, own)) &&
                        runs_along(eqn.inputs[0]) && !made_in(r, eqn.inputs[0]);
    // A lookup joins for one reader only: as a further result it would cost more than it saves.
    const bool rowwise = (ir::is_pointwise(kind) || (lookup && only_reads(r, e, reader))) &&
                         beside_rows(row, e, reader);
    if (rowwise && fits(row, eqn) && !partition_.refuses(r, e)) {
      partition_.join(r, e);
      return true;
    }
    if (is_free(graph_, eqn)) {
      if (partition_.refuses_copy(r, e)) return false;
      copy_in(r, e, reader);
      return true;
    }
    if (!ir::is_pointwise(kind) || rowwise) return false;
    return take_small(r, e, reader);
  }

  // Rows that lie across memory are computed side by side, which a lookup in each would end.
  bool runs_along(const ir::Operand& o) const {
    const auto w = ir::is_value(o) ? window_of(graph_, std::get<ir::ValueId>(o)) : std::nullopt;
    return !w || w->strides.empty() || w->strides.back().is_const(1);
  }

  static bool is_lookup(const ir::Eqn& eqn) {
    return eqn.op == ir::OpCode::gather || eqn.op == ir::OpCode::take;
  }

  // Whether each element of e is read within its own row.
  bool beside_rows(const RowShape& row, uint32_t e, uint32_t reader) const {
    const ir::Eqn& by = partition_.eqn(reader);
    if (is_lookup(by))
      return def(by.inputs[1]) == static_cast<int32_t>(e) && is_per_row(row, shape(e)) &&
             shape(e) == shape(reader);
    return reads_in_row(row, by, shape(e), shape(reader)) &&
           (!ir::is_pointwise(by.info().kind) || is_full(row, shape(e)) ||
            is_per_row(row, shape(e)));
  }

  bool only_reads(RegionIndex r, uint32_t e, uint32_t reader) const {
    const auto users = partition_.users(partition_.eqn(e).outs[0]);
    return !partition_.is_output(partition_.eqn(e).outs[0]) && users.size() == 1 &&
           users[0] == reader && only_inside(r, reader);
  }

  // Movement before a pointwise equation belongs to a pointwise region with it, unless it makes one
  // number a row, which the equation spreads.
  bool fits(const RowShape& row, const ir::Eqn& eqn) const {
    for (const ir::Operand& o : eqn.inputs) {
      const int32_t d = def(o);
      if (d < 0) continue;
      const ir::Eqn& producer = partition_.eqn(static_cast<uint32_t>(d));
      if (producer.info().kind != ir::OpKind::Movement) continue;
      const Shape& made = shape(static_cast<uint32_t>(d));
      if (is_per_row(row, made) && is_full(row, graph_.type(eqn.outs[0]).shape)) continue;
      if (!is_lookup(producer) || !(is_full(row, made) || is_per_row(row, made))) return false;
    }
    return true;
  }

  // Arithmetic on something smaller than the rows (1 + a weight), which each row repeats.
  bool take_small(RegionIndex r, uint32_t e, uint32_t reader) {
    const Shape& full = partition_.region(r).space;
    const double evaluations = broadcast_evaluations(
        shape(e), full, hinted_numel(full, graph_.symbols()), graph_.symbols());
    if (!only_reads(r, e, reader) || partition_.refuses_copy(r, e)) return false;
    if (!pays_to_recompute(graph_, partition_.eqn(e), evaluations, context_.target)) {
      context_.declines.push_back({"fuse_row", value_label(graph_, partition_.eqn(e)),
                                   "computing it for every row costs more than storing it"});
      return false;
    }
    copy_in(r, e, reader);
    return true;
  }

  // What was copied before its last reader joined has no reader outside now.
  void dissolve_copied() {
    for (auto e = static_cast<uint32_t>(graph_.eqns().size()); e-- > 0;)
      if (partition_.copied(e) && !partition_.dissolved(e)) partition_.dissolve_if_held(e);
  }

  // A region may rely on the place of another that is not worth keeping either: one more sweep.
  bool drop_some() {
    bool dropped = false;
    for (RegionIndex r = 0; r < partition_.region_count(); ++r) {
      if (partition_.region(r).merged_away || worth_keeping(r)) continue;
      const std::vector<uint32_t> members = partition_.region(r).members;
      if (!partition_.drop(r)) continue;
      freed_.insert(freed_.end(), members.begin(), members.end());
      dropped = true;
    }
    return dropped;
  }

  // What kept regions read and dropped ones held.
  void take_freed() {
    if (freed_.empty()) return;
    std::sort(freed_.begin(), freed_.end());
    for (RegionIndex r = 0; r < partition_.region_count(); ++r) {
      std::vector<uint32_t> held = partition_.region(r).members;
      const std::vector<uint32_t>& copies = partition_.region(r).copies;
      held.insert(held.end(), copies.begin(), copies.end());
      for (const uint32_t e : held) {
        const auto& inputs = partition_.eqn(e).inputs;
        const bool reads = std::any_of(inputs.begin(), inputs.end(), [&](const ir::Operand& o) {
          return def(o) >= 0 &&
                 std::binary_search(freed_.begin(), freed_.end(), static_cast<uint32_t>(def(o)));
        });
        if (reads) take_producers(r, e);
      }
    }
  }

  bool worth_keeping(RegionIndex r) const {
    const RowShape& row = rows_[r];
    if (row.axes < row.full.size() && !row.rows.is_const(1)) return true;
    std::vector<uint32_t> members = partition_.region(r).members;
    std::sort(members.begin(), members.end());
    std::vector<uint32_t> after;  // members that depend on a reduction, ascending
    for (const uint32_t m : members) {
      bool depends = partition_.eqn(m).info().kind == ir::OpKind::Reduce;
      for (const ir::Operand& o : partition_.eqn(m).inputs) {
        int32_t d = def(o);
        while (view(d)) d = def(partition_.eqn(static_cast<uint32_t>(d)).inputs[0]);
        depends = depends || (d >= 0 && std::binary_search(after.begin(), after.end(),
                                                           static_cast<uint32_t>(d)));
      }
      if (!depends) continue;
      after.push_back(m);
      const ir::ValueId out = partition_.eqn(m).outs[0];
      if (is_full(row, graph_.type(out).shape) && partition_.read_outside(out, r)) return true;
    }
    return false;
  }

  ir::Graph& graph_;
  PassContext& context_;
  Partition partition_;
  std::vector<RowShape> rows_;   // by region
  std::vector<uint32_t> freed_;  // members of dropped regions
};

}  // namespace

bool fuse_row(ir::Graph& graph, PassContext& context) {
  return RowFusion(graph, context).run();
}

}  // namespace poot::passes
