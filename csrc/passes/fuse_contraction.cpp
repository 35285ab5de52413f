// Products that a generated kernel computes (the cost model's choice) become regions, with the
// views of their operands and the pointwise equations that follow:
//
//   %0 = transpose %w {perm=[1,0]}        %4 = fused_contraction %w, %v, %x body(%a0, %a1, %a2) {
//   %1 = matmul %x, %0                      %0 = transpose %a0 {perm=[1,0]}
//   %2 = transpose %v {perm=[1,0]}          %1 = matmul %a2, %0
//   %3 = matmul %x, %2                 =>   …
//   %4 = mul %1, %3                         return %4 }
//
// Row fusion comes first: a residual sum that feeds a norm stays with the norm, which reads it in
// any case. Each product opens a region. One forward sweep then adds what is computed element by
// element from a region's values, through views; an equation that reads the products of two regions
// over one size joins them first (gate and up of a gated MLP). A value that others read too is one
// more result. Last come the equations that compute an operand for one region alone, element by
// element, where its kernel packs operands and computing them for each block costs less than
// storing them. Every product is recorded with its plan and the reason.
#include <algorithm>

#include "passes/fusion_cost.h"
#include "passes/layout.h"
#include "passes/partition.h"
#include "passes/plan_facts.h"
#include "passes/value_label.h"
#include "support/errors.h"

namespace poot::passes {
namespace {

using ir::Eqn;
using ir::Operand;
using ir::ValueId;

class ContractionFusion {
 public:
  ContractionFusion(ir::Graph& graph, PassContext& context)
      : graph_(graph), context_(context), partition_(graph) {}

  bool run() {
    for (uint32_t e = 0; e < graph_.eqns().size(); ++e)
      if (eqn(e).info().kind == ir::OpKind::Contraction) product(e);
    if (context_.options.fuse) {
      for (uint32_t e = 0; e < graph_.eqns().size(); ++e)
        if (ir::is_pointwise(eqn(e).info().kind) && partition_.home(e) == kNoRegion) follow(e);
      for (const auto& [e, choice] : choices_) operands(e, choice);
    }
    return partition_.commit(
        graph_, ir::OpCode::fused_contraction, [](RegionIndex) { return std::vector<ir::Attr>{}; },
        context_, "fuse_contraction");
  }

 private:
  const Eqn& eqn(uint32_t e) const { return partition_.eqn(e); }
  const Shape& shape(const Operand& o) const {
    return graph_.value(std::get<ValueId>(o)).type.shape;
  }
  int32_t def(const Operand& o) const {
    return ir::is_value(o) ? graph_.def(std::get<ValueId>(o)) : -1;
  }
  // The view that defines an operand, or -1.
  int32_t view_def(const Operand& o) const {
    const int32_t d = def(o);
    return d >= 0 && ir::is_view(eqn(static_cast<uint32_t>(d)).info().kind) &&
                   ir::is_value(eqn(static_cast<uint32_t>(d)).inputs[0])
               ? d
               : -1;
  }

  std::optional<Window> window(const Operand& o) const {
    return window_of(graph_, std::get<ValueId>(o));
  }

  // The side with more rows or columns is the matrix.
  Product facts(const Eqn& e) const {
    const Operand& left = e.inputs[e.inputs.size() - 2];
    const Operand& right = e.inputs.back();
    const Shape out = graph_.type(e.outs[0]).shape;
    const SymbolTable& symbols = graph_.symbols();
    Dim rows = 1, columns = out.back();
    for (size_t i = 0; i + 1 < out.size(); ++i) rows = rows * out[i];
    const bool swapped = rows.hint(symbols) > columns.hint(symbols);
    if (swapped) std::swap(rows, columns);
    Product p{graph_.type(e.outs[0]).dtype, rows, columns, shape(left).back()};
    const auto from_right = window(right), matrix = swapped ? window(left) : from_right;
    if (!from_right || !matrix) return p;
    p.one_matrix = true;
    const size_t n = from_right->shape.size();
    for (size_t i = 0; i + 2 < n; ++i)
      p.one_matrix =
          p.one_matrix && (from_right->shape[i].is_const(1) || from_right->strides[i].is_const(0));
    const size_t depth = swapped ? n - 1 : n - 2, other = swapped ? n - 2 : n - 1;
    p.checkpoint_order = matrix->strides[depth].is_const(1) && !matrix->strides[other].is_const(0);
    p.across = !p.checkpoint_order && matrix->strides[other].is_const(1) &&
               matrix->strides[depth].is_const();
    const Dim &along = from_right->strides[n - 2], &across = from_right->strides[n - 1];
    p.in_stretches = (along.is_const(1) || across.is_const(1)) && along.is_const() &&
                     across.is_const() && rows_at_one_distance(left);
    p.swapped = swapped;
    const auto rows_of = window(left);
    p.left_in_rows = rows_of && rows_of->strides.back().is_const(1);
    p.followed = followed(e.outs[0]);
    p.packed = packed_weight(graph_, e, context_).has_value();
    return p;
  }

  // Whether only what can be fused reads a value.
  bool followed(ValueId v) const {
    const auto users = partition_.users(v);
    return !users.empty() && !partition_.is_output(v) &&
           std::ranges::all_of(users, [&](uint32_t u) {
             const ValueId out = eqn(u).outs[0];
             if (ir::is_pointwise(eqn(u).info().kind)) return true;
             return ir::is_view(eqn(u).info().kind) &&
                    numel(graph_.type(out).shape) == numel(graph_.type(v).shape) && followed(out);
           });
  }

  // Whether all rows of an operand, whatever their batch, are stretches at one distance.
  bool rows_at_one_distance(const Operand& o) const {
    const auto w = window(o);
    if (!w || !w->strides.back().is_const(1)) return false;
    Window rows{
        {w->shape.begin(), w->shape.end() - 1}, {w->strides.begin(), w->strides.end() - 1}, 0};
    return reshape_strides(rows, {numel(rows.shape)}).has_value();
  }

  void product(uint32_t e) {
    const Eqn& op = eqn(e);
    for (const Operand& o : op.inputs)
      if (!ir::is_value(o)) return;
    const ProductChoice choice = choose_product(facts(op), graph_.symbols(), context_.target);
    context_.contractions.push_back({value_label(graph_, op), choice.generated, choice.reason});
    if (!choice.generated) return;
    const RegionIndex r = partition_.open(e, graph_.type(op.outs[0]).shape);
    for (const Operand& o : op.inputs) take_views(r, o);
    if (choice.computes_operands) choices_.emplace_back(e, choice);
  }

  void operands(uint32_t e, const ProductChoice& choice) {
    const auto& inputs = eqn(e).inputs;
    const size_t left = inputs.size() - 2;
    take_producers(partition_.home(e), inputs[left], choice.left_evaluations);
    take_producers(partition_.home(e), inputs[left + 1], choice.right_evaluations);
  }

  // Evaluates inside the region what is computed element by element for an operand alone, where
  // that costs less than storing it.
  void take_producers(RegionIndex r, const Operand& operand, double times) {
    const int32_t d = def(operand);
    if (d < 0) return;
    const auto e = static_cast<uint32_t>(d);
    const Eqn& producer = eqn(e);
    if (!partition_.holds(r, e)) {
      const Readers readers = partition_.readers(e);
      const bool alone = !readers.outside && readers.regions == std::vector{r};
      const ir::TensorType& type = graph_.type(producer.outs[0]);
      if (!alone || partition_.home(e) != kNoRegion || !ir::is_pointwise(producer.info().kind) ||
          is_complex(type.dtype) || partition_.refuses_copy(r, e) ||
          !pays_to_recompute(graph_, producer, times * hinted_numel(type.shape, graph_.symbols()),
                             context_.target))
        return;
      for (const Operand& o : producer.inputs)
        if (is_complex(graph_.type(o).dtype)) return;
      partition_.copy(r, e);
      partition_.dissolve(e);
      for (const Operand& o : producer.inputs) take_views(r, o);
    }
    for (const Operand& o : producer.inputs) take_producers(r, o, times);
  }

  // Evaluates the views above an operand inside the region.
  void take_views(RegionIndex r, const Operand& operand) {
    for (Operand o = operand; view_def(o) >= 0;) {
      const auto d = static_cast<uint32_t>(view_def(o));
      o = eqn(d).inputs[0];
      if (partition_.holds(r, d) || partition_.home(d) != kNoRegion) return;
      if (partition_.refuses_copy(r, d)) return;
      partition_.copy(r, d);
      partition_.dissolve_if_held(d);
    }
  }

  // The region whose value an operand is, through views that have as many elements.
  RegionIndex source(const Operand& operand, std::vector<uint32_t>& views) const {
    Operand o = operand;
    for (;;) {
      const int32_t d = def(o);
      if (d < 0) return kNoRegion;
      if (partition_.home(static_cast<uint32_t>(d)) != kNoRegion)
        return partition_.home(static_cast<uint32_t>(d));
      if (view_def(o) < 0 || numel(shape(eqn(d).inputs[0])) != numel(shape(o))) return kNoRegion;
      views.push_back(static_cast<uint32_t>(d));
      o = eqn(d).inputs[0];
    }
  }

  const Eqn& product_of(RegionIndex r) const {
    for (const uint32_t m : partition_.region(r).members)
      if (eqn(m).info().kind == ir::OpKind::Contraction) return eqn(m);
    throw InternalError("fuse_contraction: a region without a product");
  }

  size_t products(RegionIndex r) const {
    const auto& members = partition_.region(r).members;
    return static_cast<size_t>(std::count_if(members.begin(), members.end(), [&](uint32_t m) {
      return eqn(m).info().kind == ir::OpKind::Contraction;
    }));
  }

  bool alike(RegionIndex a, RegionIndex b) const {
    const Eqn &x = product_of(a), &y = product_of(b);
    const auto both = static_cast<int64_t>(products(a) + products(b));
    const Product p = facts(x);
    const bool few = p.rows.is_const() && p.rows.value() <= kMostDots && !p.across;
    const bool fits = few ? both * p.rows.value() <= kMostDots : both <= kMostTiled;
    return fits && p.across == facts(y).across &&
           partition_.region(a).space == partition_.region(b).space &&
           shape(x.inputs[x.inputs.size() - 2]).back() ==
               shape(y.inputs[y.inputs.size() - 2]).back();
  }

  void follow(uint32_t e) {
    RegionIndex into = kNoRegion;
    std::vector<uint32_t> views;
    for (const Operand& o : eqn(e).inputs) {
      if (is_complex(graph_.type(o).dtype)) return;
      const RegionIndex r = source(o, views);
      if (r == kNoRegion || r == into) continue;
      if (into == kNoRegion) {
        into = r;
      } else {
        if (!alike(into, r))
          return decline(e, "its products are of different sizes, or too many for one kernel");
        if (const char* refusal = partition_.refuses_merge(into, r)) return decline(e, refusal);
        partition_.merge(into, r);
      }
    }
    if (into == kNoRegion) return;
    if (numel(graph_.type(eqn(e).outs[0]).shape) != numel(partition_.region(into).space))
      return decline(e, "it has other elements than the product");
    std::vector<uint32_t> copied;
    for (const uint32_t v : views) {
      if (partition_.holds(into, v) || partition_.refuses_copy(into, v)) continue;
      partition_.copy(into, v);
      copied.push_back(v);
    }
    if (const char* refusal = partition_.refuses(into, e)) {
      for (const uint32_t v : copied) partition_.uncopy(into, v);
      return decline(e, refusal);
    }
    partition_.join(into, e);
    for (const uint32_t v : views) partition_.dissolve_if_held(v);
  }

  void decline(uint32_t e, std::string reason) {
    context_.declines.push_back(
        {"fuse_contraction", value_label(graph_, eqn(e)), std::move(reason)});
  }

  ir::Graph& graph_;
  PassContext& context_;
  Partition partition_;
  std::vector<std::pair<uint32_t, ProductChoice>> choices_;  // whose operands may be computed
};

}  // namespace

bool fuse_contraction(ir::Graph& graph, PassContext& context) {
  return ContractionFusion(graph, context).run();
}

}  // namespace poot::passes
