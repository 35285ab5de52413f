#include "ir/cost_class.h"

namespace poot::ir {

CostClass cost_class(OpCode op) {
  switch (op) {
    case OpCode::exp:
    case OpCode::exp2:
    case OpCode::expm1:
    case OpCode::log:
    case OpCode::log_vector:
    case OpCode::log2:
    case OpCode::log10:
    case OpCode::log1p:
    case OpCode::sin:
    case OpCode::cos:
    case OpCode::tanh:
    case OpCode::sigmoid:
    case OpCode::erf:
    case OpCode::gelu_erf:
      return CostClass::Transcendental;
    case OpCode::tan:
    case OpCode::asin:
    case OpCode::acos:
    case OpCode::sinh:
    case OpCode::cosh:
    case OpCode::asinh:
    case OpCode::acosh:
    case OpCode::atanh:
    case OpCode::erfc:
    case OpCode::pow:
    case OpCode::atan2:
      return CostClass::Power;
    case OpCode::sqrt:
    case OpCode::rsqrt:
    case OpCode::reciprocal:
    case OpCode::div:
      return CostClass::Divide;
    case OpCode::floor_div:
    case OpCode::trunc_div:
    case OpCode::remainder:
    case OpCode::fmod:
      return CostClass::Modulo;
    default:
      return CostClass::Simple;
  }
}

}  // namespace poot::ir
