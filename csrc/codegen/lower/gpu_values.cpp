// What a GPU computes otherwise than value by value.
//
// Sums, differences, products and signs of f16 and bf16 on a GPU that computes with two in a
// register. The results are those of f32 rounded once more: f32 has more than twice the digits, so
// that the second rounding changes nothing (below the normal numbers a product may differ in its
// last digit).
#include <charconv>
#include <cmath>

#include "codegen/lower/emitter.h"
#include "codegen/math/math.h"
#include "codegen/math/softmax.h"

namespace poot::codegen::lowering {

using ir::OpCode;
using kir::Op;
using KValue = kir::ValueId;

namespace {

std::optional<Op> packed_op(OpCode op) {
  switch (op) {
    case OpCode::add:
      return Op::hadd;
    case OpCode::sub:
      return Op::hsub;
    case OpCode::mul:
      return Op::hmul;
    case OpCode::neg:
      return Op::hneg;
    case OpCode::abs:
      return Op::habs;
    default:
      return std::nullopt;
  }
}

// f16 everywhere, bf16 from compute capability 9.0 on.
bool packs(const Target& target, DType dtype) {
  constexpr std::string_view kPrefix = "sm_";
  if (target.isa != Isa::Ptx || !target.cpu.starts_with(kPrefix)) return false;
  int capability = 0;
  std::from_chars(target.cpu.data() + kPrefix.size(), target.cpu.data() + target.cpu.size(),
                  capability);
  return dtype == DType::F16 || (dtype == DType::BF16 && capability >= 90);
}

}  // namespace

std::optional<Reg> Emitter::eval_packed(const tile::Inst& inst, uint16_t lanes) {
  const std::optional<Op> op = packed_op(inst.pointwise);
  if (!op || lanes == 1 || !packs(target_, inst.dtype)) return std::nullopt;
  for (const tile::ValueId a : inst.args)
    if (program().type(a).dtype != inst.dtype) return std::nullopt;
  // A sign is not worth rounding for.
  if (inst.args.size() == 1 && !eval(inst.args[0]).narrow) return std::nullopt;
  std::vector<KValue> args;
  for (const tile::ValueId a : inst.args) args.push_back(exact(a, lanes));
  return Reg{b_.emit(*op, std::move(args)), {}};
}

// A quotient of two bf16 may lie exactly between two others: it is rounded once, as in eager.
math::Accuracy Emitter::accuracy(const tile::Inst& inst, DType from) const {
  if (inst.results[0] == cheap_) return math::Accuracy::Term;
  const bool half = is_half(inst.dtype) && inst.pointwise != OpCode::div;
  if (!half && !facts_.ends_narrow(inst.results[0])) return math::Accuracy::Full;
  return half && inst.dtype == DType::BF16 && from == inst.dtype ? math::Accuracy::Rounded
                                                                 : math::Accuracy::Half;
}

namespace {

const tile::Inst* pointwise(const TileFacts& facts, tile::ValueId v, OpCode op) {
  const tile::Inst* d = facts.def(v);
  return d != nullptr && d->op == tile::Op::pointwise && d->pointwise == op ? d : nullptr;
}

// The operand beside the constant `value` (as f32 has it) of a sum or product.
std::optional<tile::ValueId> beside(const TileFacts& facts, const tile::Inst* inst, double value) {
  if (inst == nullptr) return std::nullopt;
  for (const size_t side : {0u, 1u}) {
    const tile::Inst* c = facts.def(inst->args[1 - side]);
    if (c != nullptr && c->op == tile::Op::constant &&
        static_cast<float>(c->value->as_double()) == static_cast<float>(value))
      return inst->args[side];
  }
  return std::nullopt;
}

// x of 1 + erf x.
std::optional<tile::ValueId> under_one_plus_erf(const TileFacts& facts, const tile::Inst* sum) {
  const auto erf = beside(facts, sum, 1);
  const tile::Inst* d = erf ? facts.def(*erf) : nullptr;
  if (d == nullptr || d->op != tile::Op::pointwise || !math::is_error_function(d->pointwise))
    return std::nullopt;
  return d->args[0];
}

}  // namespace

// 1 + erf x, as in GELU, where it ends as f16 or bf16: it needs no care near 0, where erf alone
// does. x / 2 (1 + erf(x / sqrt 2)) is cheaper as a whole.
std::optional<Reg> Emitter::eval_with_erf(const tile::Inst& inst, uint16_t lanes) {
  if (target_.isa != Isa::Ptx || inst.dtype != DType::F32 || !facts_.ends_narrow(inst.results[0]))
    return std::nullopt;
  if (inst.pointwise == OpCode::add) {
    const auto x = under_one_plus_erf(facts_, &inst);
    if (!x) return std::nullopt;
    return Reg{math::one_plus_erf_half(b_, compute(*x, lanes)), {}};
  }
  if (inst.pointwise != OpCode::mul) return std::nullopt;
  for (const size_t side : {0u, 1u}) {
    const auto x = beside(facts_, pointwise(facts_, inst.args[side], OpCode::mul), 0.5);
    const auto scaled =
        under_one_plus_erf(facts_, pointwise(facts_, inst.args[1 - side], OpCode::add));
    if (x && scaled && beside(facts_, pointwise(facts_, *scaled, OpCode::mul), std::sqrt(0.5)) == x)
      return Reg{math::gelu_half(b_, compute(*x, lanes)), {}};
  }
  return std::nullopt;
}

// e^(v - m) with m the largest v, where it ends as f16 or bf16.
std::optional<Reg> Emitter::eval_below_maximum(const tile::Inst& inst, uint16_t lanes) {
  if (target_.isa != Isa::Ptx || !math::is_exponential(inst.pointwise) ||
      inst.dtype != DType::F32 || accuracy(inst, DType::F32) != math::Accuracy::Half)
    return std::nullopt;
  const tile::Inst* difference = pointwise(facts_, inst.args[0], OpCode::sub);
  if (difference == nullptr) return std::nullopt;
  const tile::Inst* largest = facts_.def(difference->args[1]);
  while (largest != nullptr && largest->op == tile::Op::broadcast)
    largest = facts_.def(largest->args[0]);
  if (largest == nullptr || largest->op != tile::Op::reduce ||
      largest->pointwise != OpCode::reduce_max || largest->args[0] != difference->args[0])
    return std::nullopt;
  return Reg{math::exp_below_maximum_half(b_, compute(inst.args[0], lanes)), {}};
}

}  // namespace poot::codegen::lowering
