// What a GPU computes otherwise than value by value.
//
// Sums, differences, products and signs of f16 and bf16 on a GPU that computes with two in a
// register. The results are those of f32 rounded once more: f32 has more than twice the digits, so
// that the second rounding changes nothing (below the normal numbers a product may differ in its
// last digit).
#include <charconv>

#include "codegen/lower/emitter.h"
#include "codegen/math/math.h"

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
  const bool half = is_half(inst.dtype) && inst.pointwise != OpCode::div;
  if (!half && !facts_.ends_narrow(inst.results[0]) && inst.results[0] != cheap_)
    return math::Accuracy::Full;
  return half && inst.dtype == DType::BF16 && from == inst.dtype ? math::Accuracy::Rounded
                                                                 : math::Accuracy::Half;
}

// 1 + erf x, as in GELU, where it ends as f16 or bf16: it needs no care near 0, where erf alone
// does.
std::optional<Reg> Emitter::eval_one_plus_erf(const tile::Inst& inst, uint16_t lanes) {
  if (target_.isa != Isa::Ptx || inst.pointwise != OpCode::add || inst.dtype != DType::F32 ||
      !facts_.ends_narrow(inst.results[0]))
    return std::nullopt;
  for (const size_t side : {0u, 1u}) {
    const tile::Inst* erf = facts_.def(inst.args[side]);
    const tile::Inst* one = facts_.def(inst.args[1 - side]);
    if (erf == nullptr || one == nullptr || erf->op != tile::Op::pointwise ||
        !math::is_error_function(erf->pointwise) || one->op != tile::Op::constant ||
        one->value->as_double() != 1)
      continue;
    return Reg{math::one_plus_erf_half(b_, compute(erf->args[0], lanes)), {}};
  }
  return std::nullopt;
}

}  // namespace poot::codegen::lowering
