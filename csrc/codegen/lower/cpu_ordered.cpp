// Sums of a column in the orders of ir/reduce_order.def.
//
// cascade: a step of the main loop takes four vectors of 32 bytes, in as many or wider registers:
// lane i of a wide accumulator is lane i of its first narrow one. Accumulators of so many steps are
// loops inside each other, each of which starts from 0 and is added to the one around it. What is
// left after whole steps is evaluated in masked vectors whose other lanes are 0, cut into narrow
// ones, and added where eager's loops add it.
//
// vector: all vectors of a step go to one accumulator, one after the other.
#include <algorithm>

#include "codegen/lower/cpu_lowering.h"
#include "passes/request.h"

namespace poot::codegen::lowering {

using ir::ReduceOrder;
using kir::Op;
using kir::Pred;
using tile::AxisId;
using tile::ValueId;
using KValue = kir::ValueId;

namespace {

constexpr int kLevels = 4;  // accumulators inside each other at most

}  // namespace

ReduceOrder BlockLowering::order_of(const Root& root) const {
  if (target_.isa != Isa::X86 || !root.reduces_column() || root.is_dot()) return ReduceOrder::any;
  const DType dtype = facts_.program().type(root.value).dtype;
  const bool held =
      dtype == DType::F32 || (dtype == DType::F64 && root.inst->order == ReduceOrder::cascade);
  return held ? root.inst->order : ReduceOrder::any;
}

bool BlockLowering::has_one_accumulator(const Root& root) const {
  return order_of(root) == ReduceOrder::vector;
}

// Lanes of the narrow vectors of these roots' cascades; 0: there are none.
int64_t CpuLowering::cascade_lanes(const Roots& roots) const {
  int64_t lanes = 0;
  for (const Root* r : roots)
    if (order_of(*r) == ReduceOrder::cascade)
      lanes = std::max(lanes,
                       passes::kCascadeVector / byte_size(facts_.program().type(r->value).dtype));
  return lanes;
}

// The cascades among `roots` of other vectors than the others', which take a walk of their own.
CpuLowering::Roots CpuLowering::other_cascades(const Roots& roots) const {
  const int64_t lanes = cascade_lanes(roots);
  Roots out;
  for (const Root* r : roots)
    if (order_of(*r) == ReduceOrder::cascade && cascade_lanes({r}) != lanes) out.push_back(r);
  return out;
}

// Steps [lo, hi) with accumulators, of which those of cascades start anew in every inner loop.
CpuLowering::Values CpuLowering::nested_steps(const Roots& roots, const Walk& walk, int outer,
                                              int64_t span, KValue lo, KValue hi, Values acc) {
  kir::KirBuilder& b = emit_.builder();
  if (outer == 0)
    return b.for_loop(lo, hi, emit_.i64(walk.stride), std::move(acc),
                      [&](KValue i, std::span<const KValue> carried) {
                        emit_.push_scope();
                        Values next(carried.begin(), carried.end());
                        walk.step(i, next);
                        emit_.pop_scope();
                        return next;
                      });
  return b.for_loop(
      lo, hi, emit_.i64(span), std::move(acc), [&](KValue i, std::span<const KValue> carried) {
        emit_.push_scope();
        Values inner(carried.begin(), carried.end());
        each_slot(roots, walk, [&](const Root& r, size_t slot) {
          if (order_of(r) == ReduceOrder::cascade) inner[slot] = identity(r, walk.lanes);
        });
        const KValue to = b.emit(Op::smin, {emit_.add(i, emit_.i64(span)), hi});
        inner = nested_steps(roots, walk, outer - 1, span / walk.steps, i, to, std::move(inner));
        each_slot(roots, walk, [&](const Root& r, size_t slot) {
          if (order_of(r) != ReduceOrder::cascade) return;
          const DType dtype = facts_.program().type(r.value).dtype;
          inner[slot] = step(r.inst->pointwise, dtype, carried[slot], inner[slot]);
        });
        emit_.pop_scope();
        return inner;
      });
}

void CpuLowering::each_slot(const Roots& roots, const Walk& walk,
                            const std::function<void(const Root&, size_t)>& body) const {
  size_t slot = 0;
  for (const Root* r : roots) {
    if (!r->reduces_column()) continue;
    for (size_t u = 0; u < walk.unroll; ++u) body(*r, slot++);
  }
}

// The main loop, `most` elements at most.
CpuLowering::Values CpuLowering::main_steps(const Roots& roots, Walk walk, KValue done,
                                            std::optional<int64_t> fixed, int64_t most,
                                            Values acc) {
  int outer = 0;
  int64_t reach = 0;
  if (cascade_lanes(roots) > 0) {
    walk.steps = passes::cascade_steps(fixed ? Dim(*fixed / walk.stride) : Dim(0));
    reach = walk.steps * walk.stride;
    for (; outer + 1 < kLevels && most / walk.stride * walk.stride > reach; ++outer)
      reach *= walk.steps;
    reach /= walk.steps;
  }
  return nested_steps(roots, walk, outer, reach, emit_.i64(0), done, std::move(acc));
}

// What is left after whole steps of a walk with cascades. Their accumulators stay as they are; the
// result has their elements in their slots.
CpuLowering::Values CpuLowering::left_of_cascades(AxisId column, const Roots& roots,
                                                  const Walk& walk, const Remainder& rest,
                                                  Values& acc) {
  kir::KirBuilder& b = emit_.builder();
  const Values sums = acc;
  each_slot(roots, walk, [&](const Root& r, size_t slot) {
    if (order_of(r) == ReduceOrder::cascade) acc[slot] = identity(r, walk.lanes);
  });
  const bool constant = emit_.constant_of(rest.extent).has_value();
  for (size_t u = 0; u < walk.unroll; ++u) {
    const int64_t first = static_cast<int64_t>(u) * walk.lanes;
    if (first >= rest.most) break;
    const KValue base = emit_.add(rest.done, emit_.i64(first));
    KValue active;
    if (!constant || first + walk.lanes > rest.most) {
      const kir::Type t{kir::Elem::I32, walk.lanes};
      const KValue left =
          b.emit(Op::itrunc, kir::Type{kir::Elem::I32, 1}, {b.emit(Op::isub, {rest.extent, base})});
      active = b.icmp(Pred::slt, b.emit(Op::lane_ids, t, {}), b.splat(left, walk.lanes));
    }
    vector(roots, {column, base, walk.lanes, active}, acc, walk.unroll, u);
  }
  Values left = acc;
  each_slot(roots, walk, [&](const Root& r, size_t slot) {
    if (order_of(r) == ReduceOrder::cascade) acc[slot] = sums[slot];
  });
  return left;
}

KValue CpuLowering::left_to_right(const Root& root, KValue total, KValue v,
                                  const std::vector<uint16_t>& lanes) {
  const DType dtype = facts_.program().type(root.value).dtype;
  for (const uint16_t lane : lanes) {
    const KValue next = emit_.builder().extract(v, lane);
    total = total ? step(root.inst->pointwise, dtype, total, next) : next;
  }
  return total;
}

// `acc` and `left` are this root's.
KValue CpuLowering::cascade_total(const Root& root, const Walk& walk, const Values& acc,
                                  const Values& left, KValue extent, std::optional<int64_t> fixed) {
  kir::KirBuilder& b = emit_.builder();
  const ir::OpCode op = root.inst->pointwise;
  const DType dtype = facts_.program().type(root.value).dtype;
  const int64_t lanes = cascade_lanes({&root});
  const auto narrow = [&](const Values& v, int64_t k) {
    const KValue wide = v[static_cast<size_t>(k * lanes / walk.lanes)];
    if (lanes == walk.lanes) return wide;
    std::vector<int32_t> mask;
    for (int64_t l = 0; l < lanes; ++l)
      mask.push_back(static_cast<int32_t>(k * lanes % walk.lanes + l));
    return b.shuffle(wide, wide, std::move(mask));
  };
  const auto first_lanes = [](int64_t n) {
    std::vector<uint16_t> out;
    for (int64_t l = 0; l < n; ++l) out.push_back(static_cast<uint16_t>(l));
    return out;
  };
  // Each fourth element to one of four sums: 0 4 5 6, then 1 2 3.
  std::vector<uint16_t> as_short;
  for (const int lane : {0, 4, 5, 6, 1, 2, 3})
    if (lane < (fixed ? std::min(*fixed, lanes - 1) : lanes - 1))
      as_short.push_back(static_cast<uint16_t>(lane));
  if (fixed && *fixed < lanes)
    return as_short.empty() ? identity(root, 1)
                            : left_to_right(root, {}, narrow(left, 0), as_short);

  KValue total = narrow(acc, 0), tail, tail_sum;
  if (fixed) {
    const int64_t rest = *fixed % walk.stride;
    for (int64_t k = 0; k < rest / lanes; ++k) total = step(op, dtype, total, narrow(left, k));
    if (rest % lanes > 0)
      tail_sum = left_to_right(root, {}, narrow(left, rest / lanes), first_lanes(rest % lanes));
  } else {
    const KValue rest = b.emit(Op::band, {extent, emit_.i64(walk.stride - 1)});
    const KValue none = identity(root, static_cast<uint16_t>(lanes));
    tail = narrow(left, 0);
    for (int64_t k = 0; k + 1 < passes::kCascadeWays; ++k) {
      const KValue whole = b.icmp(Pred::sge, rest, emit_.i64((k + 1) * lanes));
      total = step(op, dtype, total, b.select(whole, narrow(left, k), none));
      tail = b.select(whole, narrow(left, k + 1), tail);
    }
    tail_sum = left_to_right(root, {}, tail, first_lanes(lanes - 1));
  }
  for (int64_t k = 1; k < passes::kCascadeWays; ++k) total = step(op, dtype, total, narrow(acc, k));
  const KValue sum = left_to_right(root, tail_sum, total, first_lanes(lanes));
  if (fixed) return sum;
  return b.select(b.icmp(Pred::slt, extent, emit_.i64(lanes)),
                  left_to_right(root, {}, narrow(left, 0), as_short), sum);
}

// The lanes of the one accumulator: of a row that fills it by halving, else from left to right.
KValue CpuLowering::vector_total(const Root& root, KValue acc, KValue extent,
                                 std::optional<int64_t> fixed) {
  kir::KirBuilder& b = emit_.builder();
  const int64_t lanes = b.type(acc).lanes;
  const int64_t whole = target_.vector_bytes / byte_size(facts_.program().type(root.value).dtype);
  if (fixed && *fixed >= whole) return combine(root, {acc});
  std::vector<uint16_t> order;
  for (int64_t l = 0; l < std::min({lanes, whole - 1, fixed.value_or(whole)}); ++l)
    order.push_back(static_cast<uint16_t>(l));
  if (order.empty()) return identity(root, 1);
  const KValue sum = lanes == 1 ? acc : left_to_right(root, {}, acc, order);
  if (fixed || lanes < whole) return sum;
  return b.select(b.icmp(Pred::slt, extent, emit_.i64(whole)), sum, combine(root, {acc}));
}

}  // namespace poot::codegen::lowering
