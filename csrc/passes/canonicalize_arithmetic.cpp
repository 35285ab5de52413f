// Identities of arithmetic that keep every bit.
//
//   x * 1, x / 1, x - 0.0, x + -0.0        x (an integer also x + 0)
//   x / 2^k                                x * 2^-k (both are the one real number, rounded once)
//   neg(neg x), not(not x), select(c, a, a), cast to the same type
//   cast(cast(x: A to B) to C)             cast(x to C), if B holds every value of A
//   literal (op) x                         x (op) literal, for operations that commute bit by bit
//
// Refused, and recorded: x + 0.0 (turns -0.0 into 0.0), x * 0 (NaN, infinities and signs), x / c as
// x * (1/c) for other c (rounds twice).
#include <cmath>

#include "passes/canonicalize.h"

namespace poot::passes {
namespace {

using ir::OpCode;

bool is_number(const std::optional<ir::Scalar>& c, double v) {
  if (!c || is_complex(c->dtype)) return false;
  if (!is_float(c->dtype)) return c->as_int() == static_cast<int64_t>(v);
  return c->as_double() == v && std::signbit(c->as_double()) == std::signbit(v);
}

// The operand itself, if it already has the result's type.
Rewrite becomes(const CanonicalSweep& sweep, const ir::Eqn& eqn, const ir::Operand& o) {
  if (!ir::is_value(o)) return Rewrite::none();
  const auto v = std::get<ir::ValueId>(o);
  return sweep.edit.type(v) == sweep.edit.type(eqn.outs[0]) ? Rewrite::value(v) : Rewrite::none();
}

bool commutes(OpCode op) {
  switch (op) {
    case OpCode::add:
    case OpCode::mul:
    case OpCode::bit_and:
    case OpCode::bit_or:
    case OpCode::bit_xor:
    case OpCode::eq:
    case OpCode::ne:
      return true;
    default:
      return false;
  }
}

Rewrite divide(CanonicalSweep& sweep, ir::Eqn& eqn, const std::optional<ir::Scalar>& c) {
  if (is_number(c, 1)) return becomes(sweep, eqn, eqn.inputs[0]);
  if (!c || ir::is_value(eqn.inputs[1])) return Rewrite::none();
  int exponent = 0;
  const double v = c->as_double();
  const bool power = std::isfinite(v) && v != 0 && std::fabs(std::frexp(v, &exponent)) == 0.5;
  // 1/c must be a normal number of the type, and c too.
  const ir::Scalar inverse = ir::Scalar::of(c->dtype, 1.0 / v);
  const int limit = c->dtype == DType::F16 ? 14 : c->dtype == DType::F64 ? 1021 : 125;
  if (!power || std::abs(exponent) > limit || inverse.as_double() * v != 1.0) {
    sweep.decline(eqn, "x / c is not x * (1 / c): both the reciprocal and the product round");
    return Rewrite::none();
  }
  eqn.op = OpCode::mul;
  eqn.inputs[1] = inverse;
  return Rewrite::in_place();
}

Rewrite add(CanonicalSweep& sweep, ir::Eqn& eqn, const std::optional<ir::Scalar>& c, bool minus) {
  const bool floating = is_float(sweep.dtype(eqn.inputs[0]));
  if (!c || c->as_double() != 0) return Rewrite::none();
  if (!floating || is_number(c, minus ? 0.0 : -0.0)) return becomes(sweep, eqn, eqn.inputs[0]);
  sweep.decline(eqn, "adding 0.0 is no identity: it turns -0.0 into 0.0");
  return Rewrite::none();
}

Rewrite binary(CanonicalSweep& sweep, ir::Eqn& eqn) {
  if (commutes(eqn.op) && !ir::is_value(eqn.inputs[0]) && ir::is_value(eqn.inputs[1])) {
    std::swap(eqn.inputs[0], eqn.inputs[1]);
    return Rewrite::in_place();
  }
  const auto c = sweep.constant(eqn.inputs[1]);
  if (c && is_complex(c->dtype)) return Rewrite::none();
  const bool boolean = sweep.dtype(eqn.inputs[0]) == DType::Bool;
  switch (eqn.op) {
    case OpCode::mul:
      if (is_number(c, 1)) return becomes(sweep, eqn, eqn.inputs[0]);
      if (c && is_float(c->dtype) && c->as_double() == 0)
        sweep.decline(eqn, "x * 0 is not 0 for NaN, infinities and negative numbers");
      return Rewrite::none();
    case OpCode::div:
      return divide(sweep, eqn, c);
    case OpCode::add:
      return add(sweep, eqn, c, false);
    case OpCode::sub:
      return add(sweep, eqn, c, true);
    case OpCode::pow:
      return is_number(c, 1) ? becomes(sweep, eqn, eqn.inputs[0]) : Rewrite::none();
    case OpCode::maximum:
    case OpCode::minimum:
      return eqn.inputs[0] == eqn.inputs[1] && !is_float(sweep.dtype(eqn.inputs[0]))
                 ? becomes(sweep, eqn, eqn.inputs[0])
                 : Rewrite::none();
    case OpCode::bit_and:
    case OpCode::bit_or:
      if (eqn.inputs[0] == eqn.inputs[1]) return becomes(sweep, eqn, eqn.inputs[0]);
      return boolean && is_number(c, eqn.op == OpCode::bit_and ? 1 : 0)
                 ? becomes(sweep, eqn, eqn.inputs[0])
                 : Rewrite::none();
    case OpCode::floor_div:
    case OpCode::trunc_div:
      return !is_float(sweep.dtype(eqn.inputs[0])) && is_number(c, 1)
                 ? becomes(sweep, eqn, eqn.inputs[0])
                 : Rewrite::none();
    case OpCode::shift_left:
    case OpCode::shift_right:
      return is_number(c, 0) ? becomes(sweep, eqn, eqn.inputs[0]) : Rewrite::none();
    default:
      return Rewrite::none();
  }
}

// Every value of `from` is a value of `to`.
bool embeds(DType from, DType to) {
  if (from == to) return true;
  if (is_complex(from) || is_complex(to)) return false;
  if (from == DType::Bool) return true;
  if (is_float(from))
    return is_float(to) && (to == DType::F64 || (to == DType::F32 && from != DType::F64));
  const int64_t bits = byte_size(from) * 8 - (is_signed(from) ? 1 : 0);
  if (is_float(to)) {
    const int64_t precision = to == DType::F64   ? 53
                              : to == DType::F32 ? 24
                              : to == DType::F16 ? 11
                                                 : 8;
    return bits <= precision;
  }
  if (to == DType::Bool || (is_signed(from) && !is_signed(to))) return false;
  return byte_size(to) * 8 - (is_signed(to) ? 1 : 0) >= bits;
}

}  // namespace

Rewrite simplify_cast(CanonicalSweep& sweep, ir::Eqn& eqn) {
  if (eqn.op != OpCode::cast) return Rewrite::none();
  const ir::Operand& x = eqn.inputs[0];
  const DType to = sweep.edit.type(eqn.outs[0]).dtype;
  if (sweep.dtype(x) == to) return becomes(sweep, eqn, x);
  const ir::Eqn* inner = sweep.def(x);
  if (!inner || inner->op != OpCode::cast || !embeds(sweep.dtype(inner->inputs[0]), sweep.dtype(x)))
    return Rewrite::none();
  eqn.inputs[0] = ir::Operand(inner->inputs[0]);
  return Rewrite::in_place();
}

Rewrite simplify_arithmetic(CanonicalSweep& sweep, ir::Eqn& eqn) {
  switch (eqn.info().kind) {
    case ir::OpKind::Unary: {
      const ir::Eqn* inner = sweep.def(eqn.inputs[0]);
      const bool undone = eqn.op == OpCode::neg || eqn.op == OpCode::bit_not;
      if (undone && inner && inner->op == eqn.op) return becomes(sweep, eqn, inner->inputs[0]);
      return Rewrite::none();
    }
    case ir::OpKind::Binary:
    case ir::OpKind::Compare:
      return binary(sweep, eqn);
    case ir::OpKind::Ternary: {
      if (eqn.op != OpCode::select) return Rewrite::none();
      if (eqn.inputs[1] == eqn.inputs[2]) return becomes(sweep, eqn, eqn.inputs[1]);
      const auto c = sweep.constant(eqn.inputs[0]);
      return c ? becomes(sweep, eqn, eqn.inputs[c->as_int() != 0 ? 1 : 2]) : Rewrite::none();
    }
    default:
      return Rewrite::none();
  }
}

}  // namespace poot::passes
