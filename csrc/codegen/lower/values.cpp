// Values in registers. Arithmetic is done in the op's computing type and rounded to the result's
// type at once, as ops.def says; for f16 and bf16 both views of a value are kept as they arise, so
// that a rounded value used by the next step is widened once, and results that need no rounding
// (maxima, signs, whole numbers) never leave f32 until they are stored.
#include "codegen/lower/emitter.h"

#include <cmath>

#include "codegen/math/math.h"
#include "codegen/math/softmax.h"
#include "program/kernel_abi.h"

namespace poot::codegen::lowering {

using ir::OpCode;
using kir::Elem;
using kir::Op;
using kir::Pred;
using KValue = kir::ValueId;

Elem storage_elem(DType d) {
  switch (d) {
    case DType::Bool:
    case DType::U8:
    case DType::I8:
      return Elem::I8;
    case DType::I16:
      return Elem::I16;
    case DType::I32:
      return Elem::I32;
    case DType::I64:
      return Elem::I64;
    case DType::F16:
      return Elem::F16;
    case DType::BF16:
      return Elem::BF16;
    case DType::F32:
      return Elem::F32;
    case DType::F64:
      return Elem::F64;
    default:
      throw Unsupported("dtype " + std::string(name(d)), "generated kernels");
  }
}

Elem exact_elem(DType d) {
  return d == DType::Bool ? Elem::I1 : storage_elem(d);
}

Emitter::Emitter(const TileFacts& facts, kir::Kernel& kernel, const Target& target)
    : facts_(facts), target_(target), b_(kernel), coordinates_(facts.program().axes.size()) {
  push_scope();
}

void Emitter::bind(tile::AxisId a, KValue coordinate) {
  coordinates_.at(a.index) = coordinate;
  bound_ |= TileFacts::bit(a);
}

void Emitter::unbind(tile::AxisId a) {
  bound_ &= ~TileFacts::bit(a);
}

void Emitter::bind_vector(const VectorAxis& v) {
  vector_ = v;
  asked_.clear();
  if (v.lanes == 1) {  // a column of one element at a time is an ordinary scalar axis
    bind(v.axis, v.base);
    vector_ = {};
    vector_.axis = {};
    return;
  }
  bound_ |= TileFacts::bit(v.axis);
}

void Emitter::unbind_vector(tile::AxisId a) {
  unbind(a);
  vector_ = {};
}

const Reg* Emitter::find(tile::ValueId v) const {
  for (auto s = scopes_.rbegin(); s != scopes_.rend(); ++s)
    if (auto it = s->values.find(v.index); it != s->values.end()) return &it->second;
  return nullptr;
}

KValue Emitter::splat(KValue v, uint16_t lanes) {
  if (lanes <= 1 || b_.type(v).lanes == lanes) return v;
  const std::pair<uint32_t, uint16_t> key(v.index, lanes);
  for (auto s = scopes_.rbegin(); s != scopes_.rend(); ++s)
    if (auto it = s->splats.find(key); it != s->splats.end()) return it->second;
  return scopes_.back().splats[key] = b_.splat(v, lanes);
}

KValue Emitter::exact(tile::ValueId v, uint16_t lanes) {
  Reg r = eval(v);
  if (!r.narrow) {
    const Elem e = exact_elem(program().type(v).dtype);
    r.narrow = b_.emit(Op::fptrunc, b_.type(r.wide).with(e), {r.wide});
    define(v, r);
  }
  return splat(r.narrow, lanes);
}

KValue Emitter::compute(tile::ValueId v, uint16_t lanes) {
  if (!is_half(program().type(v).dtype)) return exact(v, lanes);
  Reg r = eval(v);
  if (!r.wide) {
    r.wide = b_.emit(Op::fpext, b_.type(r.narrow).with(Elem::F32), {r.narrow});
    define(v, r);
  }
  return splat(r.wide, lanes);
}

Reg Emitter::eval_constant(const ir::Scalar& value) {
  Reg r;
  r.narrow = b_.constant({exact_elem(value.dtype), 1}, ir::bits_of(value));
  if (is_half(value.dtype)) r.wide = b_.f32(static_cast<float>(value.as_double()));
  return r;
}

Reg Emitter::from_integer(KValue v, DType dtype) {
  const Elem e = exact_elem(dtype);
  const kir::Type t = b_.type(v).with(e);
  if (e == Elem::I64) return {v, {}};
  if (e == Elem::I1) {
    const KValue zero = splat(i64(0), t.lanes);
    return {b_.icmp(Pred::ne, v, zero), {}};
  }
  if (!kir::is_float(e)) return {b_.emit(Op::itrunc, t, {v}), {}};
  if (!is_half(dtype)) return {b_.emit(Op::sitofp, t, {v}), {}};
  return {b_.emit(Op::fptrunc, t, {b_.emit(Op::sitofp, t.with(Elem::F32), {v})}), {}};
}

Reg Emitter::eval(tile::ValueId v) {
  if (const Reg* known = find(v)) return *known;
  Reg r;
  if (auto kept = kept_.find(v.index); kept != kept_.end()) {
    r.narrow = from_storage(program().type(v).dtype, read_kept(kept->second));
    define(v, r);
    return r;
  }
  const tile::Inst* inst = facts_.def(v);
  if (inst == nullptr) throw InternalError("a block parameter is not at hand");
  switch (inst->op) {
    case tile::Op::block_id:
      r.narrow = b_.block_id(inst->axis);
      break;
    case tile::Op::scalar_index:
      r.narrow = index(inst->index);
      break;
    case tile::Op::index_tile:
      r = from_integer(
          varies(facts_.deps(inst->index)) ? index_lanes(inst->index) : index(inst->index),
          inst->dtype);
      break;
    case tile::Op::constant:
      r = eval_constant(*inst->value);
      break;
    case tile::Op::load:
      r = load(*inst);
      break;
    case tile::Op::pointwise:
      r = eval_pointwise(*inst);
      break;
    case tile::Op::broadcast:
      return eval(inst->args[0]);
    case tile::Op::reduce:
      if (facts_.reduces(*inst)) throw InternalError("a reduction is demanded before its loop");
      return eval(inst->args[0]);
    default:
      throw InternalError("a value is demanded before its loop has run");
  }
  define(v, r);
  return r;
}

namespace {

bool divides_integers(OpCode op) {
  return op == OpCode::floor_div || op == OpCode::trunc_div || op == OpCode::remainder ||
         op == OpCode::fmod;
}

// Results that f16 and bf16 hold without rounding when the operands are of that type.
bool needs_no_rounding(OpCode op) {
  switch (op) {
    case OpCode::neg:
    case OpCode::abs:
    case OpCode::sign:
    case OpCode::floor:
    case OpCode::ceil:
    case OpCode::trunc:
    case OpCode::round:
      return true;
    default:
      return ir::op_info(op).rounding == ir::Rounding::Exact;
  }
}

}  // namespace

// A zero divisor in an active lane sets the status word; the quotient itself never traps.
void Emitter::report_zero_divisor(KValue divisor) {
  const kir::Type t = b_.type(divisor);
  report(b_.icmp(Pred::eq, divisor, b_.constant(t, 0)), program::kDivideByZero);
}

Reg Emitter::eval_pointwise(const tile::Inst& inst) {
  uint16_t lanes = 1;
  for (tile::ValueId a : inst.args)
    if (varies(facts_.deps(a))) lanes = vector_.lanes;
  if (inst.pointwise == OpCode::cast) return eval_cast(inst, lanes);
  if (inst.pointwise == OpCode::select) return eval_select(inst, lanes);
  if (auto packed = eval_packed(inst, lanes)) return *packed;
  if (auto whole = eval_with_erf(inst, lanes)) return *whole;
  if (auto power = eval_below_maximum(inst, lanes)) return *power;
  const DType from = program().type(inst.args.back()).dtype;
  if (lanes > 1 && divides_by_uniform(inst, TileFacts::bit(vector_.axis))) {
    const KValue r = divide_by_uniform(compute(inst.args[0], lanes), inst.args[1]);
    if (!is_half(inst.dtype)) return {r, {}};
    return {b_.emit(Op::fptrunc, b_.type(r).with(exact_elem(inst.dtype)), {r}), {}};
  }
  if (lanes > 1 && multiplies_by_reciprocal(inst)) {
    const KValue r = splat(reciprocal(inst.args[1]).value, lanes);
    return {b_.emit(Op::fmul, {compute(inst.args[0], lanes), r}), {}};
  }
  std::vector<KValue> args;
  for (tile::ValueId a : inst.args) args.push_back(compute(a, lanes));
  if (terms_.contains(inst.results[0].index)) return {math::exp_of_difference(b_, args[0]), {}};
  if (is_int(from) && divides_integers(inst.pointwise)) report_zero_divisor(args[1]);
  const KValue r = math::emit(b_, inst.pointwise, args, is_signed(from), accuracy(inst, from));
  if (is_half(inst.dtype)) {
    if (is_half(from) && needs_no_rounding(inst.pointwise)) return {{}, r};
    return {b_.emit(Op::fptrunc, b_.type(r).with(exact_elem(inst.dtype)), {r}), {}};
  }
  if (b_.type(r).elem != exact_elem(inst.dtype))
    throw Unsupported(
        "pointwise " + std::string(ir::op_info(inst.pointwise).name),
        "a result of " + std::string(name(inst.dtype)) + " from " + std::string(name(from)));
  return {r, {}};
}

// a / d for a row's d, bit for bit, without a division: with r = 1 / d rounded to nearest and
// q = a * r, the quotient is q + (a - q * d) * r (Markstein's theorem; both by fma), provided that
// nothing on the way leaves the range of normal numbers. Vectors with an element that is too small
// or too large are divided; zeros keep their sign by copysign.
//
// A division of 16 lanes takes the divider 16 cycles, this about 6. A GPU has no divider; its
// division is such a sequence already.
bool Emitter::divides_by_uniform(const tile::Inst& inst, AxisSet varying) const {
  if (target_.isa != Isa::X86) return false;
  if (inst.pointwise != OpCode::div || opmath(inst.dtype) != DType::F32) return false;
  if ((facts_.deps(inst.args[0]) & varying) == 0 || (facts_.deps(inst.args[1]) & varying) != 0)
    return false;
  // Division by a power of two is one multiplication for LLVM.
  const tile::Inst* divisor = facts_.def(inst.args[1]);
  if (divisor == nullptr || divisor->op != tile::Op::constant) return true;
  int exponent = 0;
  return std::abs(std::frexp(divisor->value->as_double(), &exponent)) != 0.5;
}

// On a GPU, a quotient by a row's divisor that ends as f16 or bf16.
bool Emitter::multiplies_by_reciprocal(const tile::Inst& inst) const {
  return target_.isa == Isa::Ptx && inst.pointwise == OpCode::div && inst.dtype == DType::F32 &&
         facts_.ends_narrow(inst.results[0]) && varies(facts_.deps(inst.args[0])) &&
         !varies(facts_.deps(inst.args[1]));
}

Emitter::Reciprocal Emitter::reciprocal(tile::ValueId divisor) {
  for (auto s = scopes_.rbegin(); s != scopes_.rend(); ++s)
    if (auto it = s->reciprocals.find(divisor.index); it != s->reciprocals.end()) return it->second;
  KValue d = compute(divisor);
  if (target_.isa == Isa::Ptx) {  // a finite reciprocal, so that it takes 0 to 0
    const KValue size = b_.emit(Op::fmax, {b_.f32(0x1p-126f), b_.emit(Op::fabs, {d})});
    d = b_.emit(Op::fcopysign, {size, d});
  }
  Reciprocal r;
  r.value = b_.emit(Op::fdiv, {b_.f32(1), d});
  const float most = sums_exponentials(divisor) ? 0x1p100f : 0x1p24f;
  r.usable = b_.emit(
      Op::band, {b_.fcmp(Pred::oge, d, b_.f32(1 / most)), b_.fcmp(Pred::ole, d, b_.f32(most))});
  return scopes_.back().reciprocals[divisor.index] = r;
}

// The divisor of a softmax, whose quotients need not be the nearest: the exponentials are not.
bool Emitter::sums_exponentials(tile::ValueId v) const {
  const tile::Inst* sum = facts_.def(v);
  while (sum != nullptr && sum->op == tile::Op::broadcast) sum = facts_.def(sum->args[0]);
  if (sum == nullptr || sum->op != tile::Op::reduce || sum->pointwise != OpCode::reduce_sum ||
      program().type(sum->results[0]).dtype != DType::F32)
    return false;
  const tile::Inst* term = facts_.def(sum->args[0]);
  return term != nullptr && term->op == tile::Op::pointwise &&
         math::is_exponential(term->pointwise);
}

KValue Emitter::divide_by_uniform(KValue a, tile::ValueId divisor) {
  const uint16_t n = b_.type(a).lanes;
  const Reciprocal r = reciprocal(divisor);
  const KValue d = compute(divisor, n), inverse = splat(r.value, n);
  if (sums_exponentials(divisor))
    return b_.if_else(
        r.usable, [&] { return std::vector<KValue>{b_.emit(Op::fmul, {a, inverse})}; },
        [&] { return std::vector<KValue>{b_.emit(Op::fdiv, {a, d})}; })[0];
  const KValue size = b_.emit(Op::fabs, {a});
  const KValue moderate = b_.emit(Op::band, {b_.fcmp(Pred::oge, size, b_.f32(0x1p-100f, n)),
                                             b_.fcmp(Pred::ole, size, b_.f32(0x1p100f, n))});
  const KValue fine = b_.emit(Op::bor, {moderate, b_.fcmp(Pred::oeq, size, b_.f32(0, n))});
  const KValue all =
      b_.emit(Op::band, {b_.emit(Op::reduce_and, kir::Type{Elem::I1, 1}, {fine}), r.usable});
  return b_.if_else(
      all,
      [&] {
        const KValue q = b_.emit(Op::fmul, {a, inverse});
        const KValue rest = b_.emit(Op::fma, {b_.emit(Op::fneg, {q}), d, a});
        const KValue exact = b_.emit(Op::fma, {rest, inverse, q});
        return std::vector<KValue>{b_.emit(Op::fcopysign, {exact, a})};
      },
      [&] { return std::vector<KValue>{b_.emit(Op::fdiv, {a, d})}; })[0];
}

Reg Emitter::eval_select(const tile::Inst& inst, uint16_t lanes) {
  const KValue m = exact(inst.args[0], lanes);
  const Reg a = eval(inst.args[1]), b = eval(inst.args[2]);
  // Widening one operand is cheaper than rounding the other, and the next step computes in f32.
  const bool in_wide = a.wide || b.wide;
  const auto operand = [&](tile::ValueId v) {
    return in_wide ? compute(v, lanes) : exact(v, lanes);
  };
  const KValue r = b_.select(m, operand(inst.args[1]), operand(inst.args[2]));
  return in_wide ? Reg{{}, r} : Reg{r, {}};
}

namespace {

KValue integer_to(kir::KirBuilder& b, KValue v, Elem to, bool sign) {
  const kir::Type t = b.type(v);
  if (t.elem == to) return v;
  if (t.elem == Elem::I1) return b.emit(Op::zext, t.with(to), {v});
  const Op op = kir::bit_width(t.elem) > kir::bit_width(to) ? Op::itrunc
                : sign                                      ? Op::sext
                                                            : Op::zext;
  return b.emit(op, t.with(to), {v});
}

}  // namespace

Reg Emitter::eval_cast(const tile::Inst& inst, uint16_t lanes) {
  const DType from = program().type(inst.args[0]).dtype, to = inst.dtype;
  if (from == to) {
    Reg r = eval(inst.args[0]);
    if (r.narrow) r.narrow = splat(r.narrow, lanes);
    if (r.wide) r.wide = splat(r.wide, lanes);
    return r;
  }
  const KValue v = compute(inst.args[0], lanes);
  const kir::Type t = b_.type(v);
  if (to == DType::Bool) {
    const KValue zero = b_.constant(t, 0);
    return {kir::is_float(t.elem) ? b_.fcmp(Pred::une, v, zero) : b_.icmp(Pred::ne, v, zero), {}};
  }
  const Elem target = exact_elem(to);
  if (!kir::is_float(target)) {
    if (!kir::is_float(t.elem)) return {integer_to(b_, v, target, is_signed(from)), {}};
    // As ATen on x86: unsigned bytes go through i64, other narrow integers through i32.
    const Elem via = to == DType::U8 || target == Elem::I64 ? Elem::I64 : Elem::I32;
    return {integer_to(b_, b_.emit(Op::fptosi, t.with(via), {v}), target, true), {}};
  }
  const Elem computing = is_half(to) ? Elem::F32 : target;
  KValue f = v;
  if (!kir::is_float(t.elem))
    f = b_.emit(is_signed(from) ? Op::sitofp : Op::uitofp, t.with(computing), {v});
  else if (kir::bit_width(t.elem) != kir::bit_width(computing))
    f = b_.emit(kir::bit_width(t.elem) < kir::bit_width(computing) ? Op::fpext : Op::fptrunc,
                t.with(computing), {v});
  if (!is_half(to)) return {f, {}};
  if (from == DType::Bool) return {{}, f};
  return {b_.emit(Op::fptrunc, t.with(target), {f}), {}};
}

void Emitter::hoist(tile::ValueId v, tile::AxisId column) {
  if (!hoisted_.emplace(v.index, 1).second || find(v) != nullptr) return;
  if ((facts_.deps(v) & ~bound_) == 0) {
    compute(v);
    return;
  }
  if (is_kept(v)) return;
  const tile::Inst* inst = facts_.def(v);
  if (inst == nullptr || is_control(*inst) || facts_.reduces(*inst)) return;
  for (tile::ValueId a : inst->args) hoist(a, column);
  if (column && inst->op == tile::Op::pointwise &&
      (facts_.deps(v) & ~bound_) == TileFacts::bit(column) &&
      divides_by_uniform(*inst, TileFacts::bit(column)))
    reciprocal(inst->args[1]);
  hoist_access(*inst, column);
}

}  // namespace poot::codegen::lowering
