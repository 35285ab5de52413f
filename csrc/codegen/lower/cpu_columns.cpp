// One column loop of one phase.
//
// The main loop takes `unroll` vectors a step without masks; what remains is a loop of masked
// vectors. Reductions carry one accumulator a vector of the step (a cascade: a row of n elements is
// summed in lanes * unroll partial sums), which are added in a fixed order, then across lanes by
// halving. The order depends on the extent and the kernel alone, never on threads.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "codegen/lower/cpu_lowering.h"
#include "ir/op_cost.h"
#include "codegen/math/math.h"

namespace poot::codegen::cpu {

using ir::OpCode;
using kir::Elem;
using kir::Op;
using tile::AxisId;
using tile::ValueId;
using KValue = kir::ValueId;

int CpuLowering::op_cost(const tile::Inst& inst, AxisId column) const {
  if (inst.op == tile::Op::load) {
    const auto stride = tile::const_stride(facts_.program(), inst.index, column);
    const bool vector = stride == 1 || stride == 0 || stride == -1 || stride == 2;
    return vector ? 1 : 16;
  }
  if (inst.op != tile::Op::pointwise) return inst.op == tile::Op::index_tile ? 2 : 0;
  const int rounding = is_half(inst.dtype) ? 4 : 0;
  switch (ir::cost_class(inst.pointwise)) {
    case ir::CostClass::Transcendental:
      return 24 + rounding;
    case ir::CostClass::Power:
    case ir::CostClass::Modulo:
      return 64;
    case ir::CostClass::Divide:
      return 10 + rounding;
    case ir::CostClass::Simple:
      return 1 + rounding;
  }
  return 1 + rounding;
}

PhaseCost CpuLowering::phase_cost(const std::vector<const Root*>& roots, AxisId column) const {
  PhaseCost cost;
  std::unordered_set<uint32_t> seen;
  const auto width = [&](DType d) {
    cost.widest = std::max<int>(cost.widest, static_cast<int>(std::min<int64_t>(byte_size(d), 4)));
  };
  const auto visit = [&](auto&& self, ValueId v) -> void {
    if ((facts_.deps(v) & TileFacts::bit(column)) == 0 || !seen.insert(v.index).second) return;
    const DType d = facts_.program().type(v).dtype;
    width(d);
    const tile::Inst* inst = facts_.def(v);
    if (emit_.is_kept(v) || inst == nullptr || is_control(*inst) || facts_.reduces(*inst)) {
      cost.ops += 1;
      return;
    }
    cost.ops += op_cost(*inst, column);
    if (inst->op == tile::Op::pointwise && inst->pointwise != OpCode::select)
      for (ValueId a : inst->args) width(opmath(facts_.program().type(a).dtype));
    if (inst->op == tile::Op::load && op_cost(*inst, column) > 1) cost.widest = 4;
    for (ValueId a : facts_.operands(*inst)) self(self, a);
  };
  for (const Root* r : roots) {
    for (ValueId v : root_operands(*r)) visit(visit, v);
    width(facts_.program().type(r->value).dtype);
    if (r->kind == Root::Reduce) width(opmath(facts_.program().type(r->value).dtype));
    if (r->kind == Root::Store && tile::const_stride(facts_.program(), r->inst->index, column) != 1)
      cost.widest = 4;
  }
  return cost;
}

KValue CpuLowering::step(OpCode op, DType dtype, KValue a, KValue b) {
  switch (op) {
    case OpCode::reduce_any:
      return emit_.builder().emit(Op::bor, {a, b});
    case OpCode::reduce_all:
      return emit_.builder().emit(Op::band, {a, b});
    case OpCode::reduce_sum:
      return math::emit(emit_.builder(), OpCode::add, std::vector{a, b}, is_signed(dtype));
    case OpCode::reduce_prod:
      return math::emit(emit_.builder(), OpCode::mul, std::vector{a, b}, is_signed(dtype));
    case OpCode::reduce_max:
      return math::emit(emit_.builder(), OpCode::maximum, std::vector{a, b}, is_signed(dtype));
    case OpCode::reduce_min:
      return math::emit(emit_.builder(), OpCode::minimum, std::vector{a, b}, is_signed(dtype));
    default:
      throw Unsupported("reduction " + std::string(ir::op_info(op).name), "CPU kernels");
  }
}

// In the computing type of the reduced tile.
KValue CpuLowering::identity(const Root& root, uint16_t lanes) {
  const DType dtype = opmath(facts_.program().type(root.value).dtype);
  return emit_.builder().constant({exact_elem(dtype), lanes},
                                  ir::reduce_identity(root.inst->pointwise, dtype));
}

namespace {

// The lanes of a vector combined in a fixed order.
KValue across_lanes(kir::KirBuilder& b, OpCode op, DType dtype, KValue v) {
  const kir::Type t = b.type(v);
  const bool f = kir::is_float(t.elem);
  const auto emit = [&](Op o, KValue x) { return b.emit(o, b.type(x).scalar(), {x}); };
  switch (op) {
    case OpCode::reduce_any:
      return emit(Op::reduce_or, v);
    case OpCode::reduce_all:
      return emit(Op::reduce_and, v);
    case OpCode::reduce_sum:
      return t.elem == Elem::I1 ? emit(Op::reduce_or, v)
                                : emit(f ? Op::reduce_fadd : Op::reduce_iadd, v);
    case OpCode::reduce_prod:
      return t.elem == Elem::I1 ? emit(Op::reduce_and, v)
                                : emit(f ? Op::reduce_fmul : Op::reduce_imul, v);
    default: {
      const bool max = op == OpCode::reduce_max;
      if (f) return emit(max ? Op::reduce_fmax : Op::reduce_fmin, v);
      if (t.elem == Elem::I1) return emit(max ? Op::reduce_or : Op::reduce_and, v);
      if (is_signed(dtype)) return emit(max ? Op::reduce_smax : Op::reduce_smin, v);
      const KValue wide = b.emit(Op::zext, t.with(Elem::I32), {v});
      return b.emit(Op::itrunc, t.scalar(), {emit(max ? Op::reduce_smax : Op::reduce_smin, wide)});
    }
  }
}

bool rounds(OpCode op) {
  return op == OpCode::reduce_sum || op == OpCode::reduce_prod;
}

}  // namespace

void CpuLowering::finish_reduction(const Root& root, std::vector<KValue> acc) {
  const OpCode op = root.inst->pointwise;
  const DType dtype = facts_.program().type(root.value).dtype;
  for (size_t width = acc.size() / 2; width > 0; width /= 2)
    for (size_t i = 0; i < width; ++i) acc[i] = step(op, dtype, acc[i], acc[i + width]);
  kir::KirBuilder& b = emit_.builder();
  KValue r = acc[0];
  if (b.type(r).lanes > 1) r = across_lanes(b, op, dtype, r);
  Reg reg{r, {}};
  if (is_half(dtype)) {
    reg = {{}, r};
    if (rounds(op)) reg = {b.emit(Op::fptrunc, kir::Type{exact_elem(dtype), 1}, {r}), {}};
  }
  emit_.define(root.kept_as, reg);
  if (root.array) emit_.keep(root.kept_as, *root.array, emit_.exact(root.kept_as));
}

// Sets the array of a reduction over a row axis to the identity.
void CpuLowering::fill(const Root& root) {
  // A position of the array, one axis after the other; the last axis is the vector.
  const DType dtype = facts_.program().type(root.value).dtype;
  const std::vector<AxisId>& axes = root.array->axes;
  const auto value = [&] {
    const KValue wide = identity(root, 1);
    return is_half(dtype)
               ? emit_.builder().emit(Op::fptrunc, kir::Type{exact_elem(dtype), 1}, {wide})
               : wide;
  };
  const auto open = [&](auto&& self, size_t d) -> void {
    if (d == axes.size()) {
      emit_.keep(root.kept_as, *root.array, value());
    } else if (axes[d] != root.column) {
      scalar_loop(axes[d], [&] { self(self, d + 1); });
    } else {
      Root constant{.kind = Root::Keep, .value = root.kept_as};
      fill_value_ = value();
      constant.array = root.array;
      constant.column = root.column;
      column_phase(root.column, {&constant});
      fill_value_ = {};
    }
  };
  open(open, 0);
}

void CpuLowering::effects(const Root& root) {
  switch (root.kind) {
    case Root::Store:
      return emit_.store(*root.inst);
    case Root::Check:
      return emit_.check(*root.inst);
    case Root::Keep:
      return emit_.keep(root.value, *root.array,
                        fill_value_ ? fill_value_ : emit_.exact(root.value));
    case Root::Uniform:
      emit_.compute(root.value);
      return;
    case Root::Reduce: {  // over a row axis: into the array
      const DType dtype = facts_.program().type(root.value).dtype;
      KValue old = emit_.from_storage(dtype, emit_.read_kept(*root.array));
      const uint16_t lanes = emit_.builder().type(old).lanes;
      if (is_half(dtype)) old = emit_.builder().emit(Op::fpext, kir::Type{Elem::F32, lanes}, {old});
      KValue next = step(root.inst->pointwise, dtype, old, emit_.compute(root.value, lanes));
      if (is_half(dtype))
        next = emit_.builder().emit(Op::fptrunc, kir::Type{exact_elem(dtype), lanes}, {next});
      emit_.keep(root.kept_as, *root.array, next);
    }
  }
}

void CpuLowering::scalar_phase(const std::vector<const Root*>& roots) {
  for (const Root* r : roots) emit_.compute(r->value);
  for (const Root* r : roots) effects(*r);
}

// One vector of positions: all values first, then the effects, so that nothing is read after it
// has been overwritten. `acc` holds `unroll` accumulators for each reduction.
void CpuLowering::positions(const std::vector<const Root*>& roots, const Emitter::VectorAxis& at,
                            std::vector<KValue>& acc, size_t unroll, size_t u) {
  if (pair_) return pair_positions(roots, at);
  emit_.push_scope();
  emit_.bind_vector(at);
  if (!fill_value_)
    for (const Root* r : roots) emit_.compute(r->value);
  size_t slot = u;
  for (const Root* r : roots) {
    if (!r->reduces_column()) {
      effects(*r);
      continue;
    }
    const DType dtype = facts_.program().type(r->value).dtype;
    const KValue old = acc[slot];
    KValue next = step(r->inst->pointwise, dtype, old, emit_.compute(r->value, at.lanes));
    if (at.active) next = emit_.builder().select(at.active, next, old);
    acc[slot] = next;
    slot += unroll;
  }
  emit_.unbind_vector(at.axis);
  emit_.pop_scope();
}

void CpuLowering::column_phase(AxisId column, const std::vector<const Root*>& roots) {
  kir::KirBuilder& b = emit_.builder();
  const int64_t capacity = facts_.program().axes.at(column.index).capacity;
  const PhaseCost cost = phase_cost(roots, column);
  const bool reduces =
      std::any_of(roots.begin(), roots.end(), [](const Root* r) { return r->reduces_column(); });
  uint16_t lanes = static_cast<uint16_t>(
      std::clamp<int64_t>(target_.vector_bytes / cost.widest, 2, kir::kMaxLanes));
  lanes = static_cast<uint16_t>(
      std::min<uint64_t>(lanes, std::bit_ceil(static_cast<uint64_t>(capacity))));
  size_t unroll = reduces ? (cost.ops <= 16 ? 4 : 2) : cost.ops <= 16 ? 2 : 1;
  while (unroll > 1 && static_cast<int64_t>(unroll) * lanes > capacity) unroll /= 2;

  if (!fill_value_) hoist_roots(roots, column);
  const KValue n = emit_.extent(column);
  const auto fixed = emit_.static_extent(column);
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
  const auto main_step = [&](KValue i) {
    for (size_t u = 0; u < unroll; ++u) {
      const KValue base = emit_.add(i, emit_.i64(static_cast<int64_t>(u) * lanes));
      positions(roots, {column, base, lanes, {}}, acc, unroll, u);
    }
  };
  // Short constant rows are written out: what depends on constant columns alone (the guards of a
  // concatenation) is then decided when the kernel is compiled.
  const bool written_out = fixed && *fixed / lanes <= 8 && *fixed / lanes * cost.ops <= 128;
  if (fixed && *fixed >= stride && (written_out || *fixed / stride == 1)) {
    for (int64_t i = 0; i + stride <= *fixed; i += stride) main_step(emit_.i64(i));
  } else if (!fixed || *fixed >= stride) {
    acc = b.for_loop(emit_.i64(0), done, emit_.i64(stride), acc,
                     [&](KValue i, std::span<const KValue> carried) {
                       emit_.push_scope();
                       acc.assign(carried.begin(), carried.end());
                       main_step(i);
                       emit_.pop_scope();
                       return acc;
                     });
  }
  if (stride > 1 && !(fixed && *fixed % stride == 0))
    remainder(column, roots, {done, n, lanes, unroll, fixed ? *fixed % stride : stride - 1}, acc);

  size_t slot = 0;
  for (const Root* r : roots) {
    if (!r->reduces_column()) continue;
    finish_reduction(*r, std::vector<KValue>(acc.begin() + slot, acc.begin() + slot + unroll));
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
    positions(roots, {column, i, rest.lanes, active}, acc, rest.unroll, 0);
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

}  // namespace poot::codegen::cpu
