// What happens at one position, or one vector of positions, of a column loop: values, effects, and
// the steps and ends of reductions. Which positions there are is the target's.
#include "codegen/lower/block_lowering.h"
#include "codegen/math/math.h"

namespace poot::codegen::lowering {

using ir::OpCode;
using kir::Elem;
using kir::Op;
using tile::AxisId;
using tile::ValueId;
using KValue = kir::ValueId;

KValue BlockLowering::step(OpCode op, DType dtype, KValue a, KValue b) {
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
      throw Unsupported("reduction " + std::string(ir::op_info(op).name), "generated kernels");
  }
}

// In the computing type of the reduced tile.
KValue BlockLowering::identity(const Root& root, uint16_t lanes) {
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

// The accumulators, then their lanes, added pairwise.
KValue BlockLowering::combine(const Root& root, std::vector<KValue> acc) {
  const OpCode op = root.inst->pointwise;
  const DType dtype = facts_.program().type(root.value).dtype;
  for (size_t left = acc.size(); left > 1;) {
    const size_t half = (left + 1) / 2;
    for (size_t i = 0; i + half < left; ++i) acc[i] = step(op, dtype, acc[i], acc[i + half]);
    left = half;
  }
  kir::KirBuilder& b = emit_.builder();
  return b.type(acc[0]).lanes > 1 ? across_lanes(b, op, dtype, acc[0]) : acc[0];
}

// `total`: a scalar in the computing type.
void BlockLowering::finish_reduction(const Root& root, KValue total) {
  const DType dtype = facts_.program().type(root.kept_as).dtype;
  Reg reg{total, {}};
  if (is_half(dtype)) {
    reg = {{}, total};
    if (rounds(root.inst->pointwise))
      reg = {emit_.builder().emit(Op::fptrunc, kir::Type{exact_elem(dtype), 1}, {total}), {}};
  }
  emit_.define(root.kept_as, reg);
  if (root.array) emit_.keep(root.kept_as, *root.array, emit_.exact(root.kept_as));
}

// Sets the array of a reduction over a row axis to the identity.
void BlockLowering::fill(const Root& root) {
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
      row_loop(axes[d], [&] { self(self, d + 1); });
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

void BlockLowering::effects(const Root& root) {
  switch (root.kind) {
    case Root::Store:
      return root.inst->op == tile::Op::combine ? emit_.combine(*root.inst)
                                                : emit_.store(*root.inst);
    case Root::Check:
      return emit_.check(*root.inst);
    case Root::Keep:
      return emit_.keep(root.value, *root.array,
                        fill_value_ ? fill_value_ : emit_.exact(root.value));
    case Root::Scan:  // of a column, which the target does
      return;
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

void BlockLowering::scalar_phase(const std::vector<const Root*>& roots) {
  for (const Root* r : roots) emit_.compute(r->value);
  for (const Root* r : roots) effects(*r);
}

// One vector of positions: all values first, then the effects, so that nothing is read after it
// has been overwritten. `acc` holds `unroll` accumulators for each reduction.
void BlockLowering::positions(const std::vector<const Root*>& roots, const Emitter::VectorAxis& at,
                              std::vector<KValue>& acc, size_t unroll, size_t u) {
  if (pair_) return pair_positions(roots, at);
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
    KValue& own = acc[has_one_accumulator(*r) ? slot - u : slot];
    const KValue old = own;
    const KValue value = emit_.compute(r->value, at.lanes);
    KValue next = r->guess || r->passes_nan ? emit_.builder().emit(Op::fmax, {value, old})
                                            : step(r->inst->pointwise, dtype, old, value);
    if (const KValue active = at.active ? at.active : emit_.predicate())
      next = emit_.builder().select(active, next, old);
    own = next;
    slot += unroll;
  }
  emit_.unbind_vector(at.axis);
}

}  // namespace poot::codegen::lowering
