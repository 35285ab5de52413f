// One column loop of one phase.
//
// The main loop takes `unroll` vectors a step without masks; what remains is a loop of masked
// vectors. Reductions carry one accumulator a vector of the step (a cascade: a row of n elements is
// summed in lanes * unroll partial sums), which are added in a fixed order, then across lanes by
// halving. The order depends on the extent and the kernel alone, never on threads.
//
// Where loops carry tiles of columns, the column loop is around the whole block instead, so that
// what is carried stays in registers.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "codegen/lower/cpu_lowering.h"
#include "ir/cost_class.h"
#include "passes/request.h"

namespace poot::codegen {
namespace lowering {

using kir::Elem;
using kir::Op;
using tile::AxisId;
using KValue = kir::ValueId;

// Bytes of a position's widest element, whether something dear is computed, and accesses of bf16
// less the others.
struct Weight {
  int64_t widest = 1;
  bool dear = false;
  int bf16 = 0;
};
void weigh(const tile::Program& p, const tile::Block& b, Weight& out) {
  for (const tile::Inst& inst : b.insts) {
    for (tile::ValueId v : inst.results)
      if (!p.type(v).scalar) out.widest = std::max(out.widest, byte_size(opmath(p.type(v).dtype)));
    out.dear = out.dear || (inst.op == tile::Op::pointwise &&
                            ir::cost_class(inst.pointwise) >= ir::CostClass::Transcendental);
    if (inst.op == tile::Op::load || inst.op == tile::Op::store)
      out.bf16 += p.buffers.at(inst.buffer.index).dtype == DType::BF16 ? 1 : -1;
    for (const tile::Block& inner : inst.blocks) weigh(p, inner, out);
  }
}

constexpr int64_t kPassesAhead = 4;

void CpuLowering::program_body() {
  const tile::Program& p = facts_.program();
  const AxisId column = carried_columns(p, p.body);
  if (!column || (facts_.reduced_axes() & TileFacts::bit(column)) != 0)
    return BlockLowering::program_body();
  kir::KirBuilder& b = emit_.builder();
  // A pass reads a few lines a row of memory, too few for the processor to foresee the next.
  passes_ahead_ = exceeds_cache() ? kPassesAhead : 0;
  Weight weight;
  weigh(p, p.body, weight);
  const auto capacity = static_cast<uint64_t>(p.axes.at(column.index).capacity);
  const auto lanes_of = [&](int64_t vectors) {
    const int64_t lanes =
        std::min<int64_t>(vectors * target_.vector_bytes / weight.widest, kir::kMaxLanes);
    return static_cast<uint16_t>(std::min<uint64_t>(lanes, std::bit_ceil(capacity)));
  };
  const uint16_t wide = lanes_of(!weight.dear ? 4 : weight.bf16 > 0 ? 2 : 1), narrow = lanes_of(1);
  const auto at = [&](KValue base, uint16_t lanes, KValue active) {
    emit_.push_scope();
    emit_.bind_vector({column, base, lanes, active});
    BlockLowering::program_body();
    emit_.unbind_vector(column);
    emit_.pop_scope();
  };
  const auto loop = [&](KValue from, KValue to, uint16_t lanes, auto&& body) {
    b.for_loop(from, to, emit_.i64(lanes), {}, [&](KValue base, std::span<const KValue>) {
      emit_.push_scope();
      body(base);
      emit_.pop_scope();
      return std::vector<KValue>{};
    });
  };
  const KValue n = emit_.extent(column);
  const auto fixed = emit_.static_extent(column);
  const KValue done =
      fixed ? emit_.i64(*fixed / wide * wide) : b.emit(Op::band, {n, emit_.i64(-wide)});
  if (!fixed || *fixed >= wide)
    loop(emit_.i64(0), done, wide, [&](KValue base) { at(base, wide, {}); });
  if (wide == 1 || (fixed && *fixed % wide == 0)) return;
  loop(done, n, narrow, [&](KValue base) {
    const kir::Type t{Elem::I32, narrow};
    const KValue left = b.emit(Op::itrunc, kir::Type{Elem::I32, 1}, {b.emit(Op::isub, {n, base})});
    at(base, narrow, b.icmp(kir::Pred::slt, b.emit(Op::lane_ids, t, {}), b.splat(left, narrow)));
  });
}

void CpuLowering::vector(const std::vector<const Root*>& roots, const Emitter::VectorAxis& at,
                         std::vector<KValue>& acc, size_t unroll, size_t u) {
  emit_.push_scope();
  positions(roots, at, acc, unroll, u);
  emit_.pop_scope();
}

void CpuLowering::column_phase(AxisId column, const std::vector<const Root*>& roots) {
  if (std::any_of(roots.begin(), roots.end(), [](const Root* r) { return is_moment(*r); }))
    return moments_phase(column, roots);
  if (const Roots apart = other_cascades(roots); !apart.empty()) {
    column_phase(column, apart);
    Roots others;
    for (const Root* r : roots)
      if (std::ranges::find(apart, r) == apart.end()) others.push_back(r);
    return column_phase(column, others);
  }
  kir::KirBuilder& b = emit_.builder();
  const int64_t capacity = facts_.program().axes.at(column.index).capacity;
  const PhaseCost cost = phase_cost(roots, column);
  const bool reduces =
      std::any_of(roots.begin(), roots.end(), [](const Root* r) { return r->reduces_column(); });
  const bool ordered = std::any_of(roots.begin(), roots.end(), [&](const Root* r) {
    return order_of(*r) != ir::ReduceOrder::any;
  });
  // Whole vectors of bf16, each two of f32: their halves need no shuffles (llvm/even_odd.cpp). Rows
  // that fill none would be masked in both halves.
  const bool doubled = cost.widest == 4 && cost.bf16 > cost.other && !ordered &&
                       capacity >= static_cast<int64_t>(target_.vector_bytes) / 2;
  uint16_t lanes = static_cast<uint16_t>(
      std::clamp<int64_t>(target_.vector_bytes / (doubled ? 2 : cost.widest), 2, kir::kMaxLanes));
  lanes = static_cast<uint16_t>(
      std::min<uint64_t>(lanes, std::bit_ceil(static_cast<uint64_t>(capacity))));
  size_t unroll = reduces ? (cost.ops <= 16 ? 4 : 2) : cost.ops <= 16 ? 2 : 1;
  if (doubled) unroll = std::max<size_t>(unroll / 2, 1);
  while (unroll > 1 && static_cast<int64_t>(unroll) * lanes > capacity) unroll /= 2;
  const int64_t narrow = cascade_lanes(roots);
  if (narrow > 0) {
    lanes = std::max(lanes, static_cast<uint16_t>(narrow));
    unroll = static_cast<size_t>(passes::kCascadeWays * narrow / lanes);
  }

  if (!fill_value_) hoist_roots(roots, column);
  KValue n = emit_.extent(column);
  auto fixed = emit_.static_extent(column);
  if (first_columns_) {
    if (fixed) fixed = std::min(*fixed, *first_columns_);
    n = fixed ? emit_.i64(*fixed) : b.emit(Op::smin, {n, emit_.i64(*first_columns_)});
  }
  const int64_t stride = static_cast<int64_t>(unroll) * lanes;
  std::vector<KValue> acc;
  for (const Root* r : roots)
    if (r->reduces_column()) acc.insert(acc.end(), unroll, identity(*r, lanes));

  KValue done = emit_.i64(0);
  if (fixed)
    done = emit_.i64(*fixed / stride * stride);
  else if (stride > 1)
    done = b.emit(Op::band, {n, emit_.i64(-stride)});
  else
    done = n;
  const Walk walk{lanes, unroll, stride, [&](KValue i, std::vector<KValue>& sums) {
                    for (size_t u = 0; u < unroll; ++u) {
                      const KValue base = emit_.add(i, emit_.i64(static_cast<int64_t>(u) * lanes));
                      vector(roots, {column, base, lanes, {}}, sums, unroll, u);
                    }
                  }};
  // Short constant rows are written out: what depends on constant columns alone (the guards of a
  // concatenation) is then decided when the kernel is compiled.
  const int64_t most_ops = cost.guards ? 512 : 128;
  const bool written_out = fixed && *fixed / lanes <= 8 && *fixed / lanes * cost.ops <= most_ops;
  if (fixed && *fixed >= stride && (written_out || *fixed / stride == 1)) {
    for (int64_t i = 0; i + stride <= *fixed; i += stride) walk.step(emit_.i64(i), acc);
  } else if (!fixed || *fixed >= stride) {
    acc = main_steps(roots, walk, done, fixed, fixed.value_or(capacity), std::move(acc));
  }
  const Remainder rest{done, n, lanes, unroll, fixed ? *fixed % stride : stride - 1};
  std::vector<KValue> left = acc;
  if (narrow > 0)
    left = left_of_cascades(column, roots, walk, rest, acc);
  else if (stride > 1 && !(fixed && *fixed % stride == 0))
    remainder(column, roots, rest, acc);

  size_t slot = 0;
  for (const Root* r : roots) {
    if (!r->reduces_column()) continue;
    const auto own = [&](const Values& v) {
      return Values(v.begin() + slot, v.begin() + slot + unroll);
    };
    KValue total;
    if (order_of(*r) == ir::ReduceOrder::cascade)
      total = cascade_total(*r, walk, own(acc), own(left), n, fixed);
    else if (has_one_accumulator(*r))
      total = vector_total(*r, acc[slot], n, fixed);
    else
      total = combine(*r, own(acc));
    finish_reduction(*r, total);
    slot += unroll;
  }
}

void CpuLowering::remainder(AxisId column, const std::vector<const Root*>& roots,
                            const Remainder& rest, std::vector<KValue>& acc) {
  kir::KirBuilder& b = emit_.builder();
  const auto masked = [&](KValue i) {
    const kir::Type t{Elem::I32, rest.lanes};
    const KValue left =
        b.emit(Op::itrunc, kir::Type{Elem::I32, 1}, {b.emit(Op::isub, {rest.extent, i})});
    const KValue active =
        b.icmp(kir::Pred::slt, b.emit(Op::lane_ids, t, {}), b.splat(left, rest.lanes));
    vector(roots, {column, i, rest.lanes, active}, acc, rest.unroll, 0);
  };
  if (rest.most <= rest.lanes && emit_.constant_of(rest.done)) {
    masked(rest.done);
    return;
  }
  std::vector<KValue> first;
  for (size_t s = 0; s < acc.size(); s += rest.unroll) first.push_back(acc[s]);
  first = b.for_loop(rest.done, rest.extent, emit_.i64(rest.lanes), first,
                     [&](KValue i, std::span<const KValue> carried) {
                       emit_.push_scope();
                       std::vector<KValue> inner = acc;
                       for (size_t k = 0; k < carried.size(); ++k)
                         inner[k * rest.unroll] = carried[k];
                       std::swap(acc, inner);
                       masked(i);
                       std::swap(acc, inner);
                       std::vector<KValue> next;
                       for (size_t k = 0; k < carried.size(); ++k)
                         next.push_back(inner[k * rest.unroll]);
                       emit_.pop_scope();
                       return next;
                     });
  for (size_t k = 0; k < first.size(); ++k) acc[k * rest.unroll] = first[k];
}

}  // namespace lowering

kir::Kernel lower_cpu(const tile::Program& program, const Target& target) {
  return lowering::CpuLowering(program, target).run();
}

}  // namespace poot::codegen
