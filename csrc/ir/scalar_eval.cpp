// Pointwise ops on one element. Three evaluators, chosen by the operands' dtype: floats in opmath
// (f32 or f64), integers modulo 2^n, bools. Transcendental functions of f32 are taken in double and
// rounded once, so that the reference is (nearly always) the correctly rounded result; + - * /
// sqrt and what ATen composes of them run in opmath itself, because each of their steps rounds.
//
// Where C++ leaves a case open, ATen's vector loops decide: maximum and minimum return operand 1
// if the operands are equal (-0 and 0 are), a float outside the range of an integer type becomes
// that of x86's cvtt (the minimum of i32 or i64, then the low bits).
#include "ir/scalar_eval.h"

#include <bit>
#include <cmath>
#include <limits>

namespace poot::ir {
namespace {

// floor(a / b) that agrees with fmod: 1.0 // 0.1 is 9, as 0.1 is above one tenth.
template <class T>
T floor_div_float(T a, T b) {
  if (b == 0) return a / b;
  const T mod = std::fmod(a, b);
  T div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
  if (div == 0) return std::copysign(T(0), a / b);
  T result = std::floor(div);
  if (div - result > T(0.5)) result += 1;
  return result;
}

template <class T>
T remainder_float(T a, T b) {
  T mod = std::fmod(a, b);
  if (mod != 0 && (b < 0) != (mod < 0)) mod += b;
  return mod;
}

template <class T>
T larger(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  return a > b ? a : b;
}

template <class T>
T smaller(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  return a < b ? a : b;
}

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

template <class T>
T unary_float(OpCode op, T x) {
  const double d = x;
  switch (op) {
    case OpCode::neg:
      return -x;
    case OpCode::abs:
      return std::fabs(x);
    case OpCode::sign:
      return static_cast<T>((x > 0) - (x < 0));
    case OpCode::exp:
      return static_cast<T>(std::exp(d));
    case OpCode::exp2:
      return static_cast<T>(std::exp2(d));
    case OpCode::expm1:
      return static_cast<T>(std::expm1(d));
    case OpCode::log:
    case OpCode::log_vector:
      return static_cast<T>(std::log(d));
    case OpCode::log2:
      return static_cast<T>(std::log2(d));
    case OpCode::log10:
      return static_cast<T>(std::log10(d));
    case OpCode::log1p:
      return static_cast<T>(std::log1p(d));
    case OpCode::sqrt:
      return std::sqrt(x);
    case OpCode::rsqrt:
      return T(1) / std::sqrt(x);
    case OpCode::reciprocal:
      return T(1) / x;
    case OpCode::sin:
      return static_cast<T>(std::sin(d));
    case OpCode::cos:
      return static_cast<T>(std::cos(d));
    case OpCode::tan:
      return static_cast<T>(std::tan(d));
    case OpCode::asin:
      return static_cast<T>(std::asin(d));
    case OpCode::acos:
      return static_cast<T>(std::acos(d));
    case OpCode::sinh:
      return static_cast<T>(std::sinh(d));
    case OpCode::cosh:
      return static_cast<T>(std::cosh(d));
    case OpCode::asinh:
      return static_cast<T>(std::asinh(d));
    case OpCode::acosh:
      return static_cast<T>(std::acosh(d));
    case OpCode::atanh:
      return static_cast<T>(std::atanh(d));
    case OpCode::tanh:
      return static_cast<T>(std::tanh(d));
    case OpCode::sigmoid:
      return static_cast<T>(sigmoid(d));
    case OpCode::erf:
      return static_cast<T>(std::erf(d));
    case OpCode::erfc:
      return static_cast<T>(std::erfc(d));
    case OpCode::gelu_erf:
      return static_cast<T>(std::isinf(d) ? std::nan("") : std::erf(d / std::sqrt(2.0)));
    case OpCode::floor:
      return std::floor(x);
    case OpCode::ceil:
      return std::ceil(x);
    case OpCode::trunc:
      return std::trunc(x);
    case OpCode::round:
      return std::nearbyint(x);
    default:
      throw InternalError("no float meaning for " + std::string(op_info(op).name));
  }
}

template <class T>
T binary_float(OpCode op, T a, T b) {
  switch (op) {
    case OpCode::add:
      return a + b;
    case OpCode::sub:
      return a - b;
    case OpCode::mul:
      return a * b;
    case OpCode::div:
      return a / b;
    case OpCode::floor_div:
      return floor_div_float(a, b);
    case OpCode::trunc_div:
      return std::trunc(a / b);
    case OpCode::remainder:
      return remainder_float(a, b);
    case OpCode::fmod:
      return std::fmod(a, b);
    case OpCode::pow:
      return static_cast<T>(std::pow(static_cast<double>(a), static_cast<double>(b)));
    case OpCode::atan2:
      return static_cast<T>(std::atan2(static_cast<double>(a), static_cast<double>(b)));
    case OpCode::maximum:
      return larger(a, b);
    case OpCode::minimum:
      return smaller(a, b);
    default:
      throw InternalError("no float meaning for " + std::string(op_info(op).name));
  }
}

int64_t wrap(uint64_t v) {
  return static_cast<int64_t>(v);
}

int64_t power_int(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return 0;
  }
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  for (; exponent > 0; exponent >>= 1, square *= square)
    if (exponent & 1) result *= square;
  return wrap(result);
}

// Division by zero faults and yields 0; the minimum by -1 wraps (quotient) or leaves 0 (remainder).
int64_t divide_int(OpCode op, int64_t a, int64_t b, ScalarFault* fault) {
  if (b == 0) {
    if (fault) *fault = ScalarFault::DivideByZero;
    return 0;
  }
  const int64_t quotient = b == -1 ? wrap(0 - static_cast<uint64_t>(a)) : a / b;
  const int64_t rest = b == -1 ? 0 : a % b;
  const bool crossed = rest != 0 && (rest < 0) != (b < 0);
  switch (op) {
    case OpCode::trunc_div:
      return quotient;
    case OpCode::floor_div:
      return crossed ? quotient - 1 : quotient;
    case OpCode::fmod:
      return rest;
    default:
      return crossed ? rest + b : rest;
  }
}

int64_t shift_left_int(int64_t a, int64_t b, DType d) {
  const int64_t width = byte_size(d) * 8;
  return b < 0 || b >= width ? 0 : wrap(static_cast<uint64_t>(a) << b);
}

int64_t shift_right_int(int64_t a, int64_t b, DType d) {
  const int64_t most = byte_size(d) * 8 - (is_signed(d) ? 1 : 0);
  return a >> (b < 0 || b >= most ? most : b);
}

int64_t unary_int(OpCode op, int64_t x) {
  switch (op) {
    case OpCode::neg:
      return wrap(0 - static_cast<uint64_t>(x));
    case OpCode::abs:
      return x < 0 ? wrap(0 - static_cast<uint64_t>(x)) : x;
    case OpCode::sign:
      return (x > 0) - (x < 0);
    case OpCode::bit_not:
      return ~x;
    case OpCode::floor:
    case OpCode::ceil:
    case OpCode::trunc:
    case OpCode::round:
      return x;
    default:
      throw InternalError("no integer meaning for " + std::string(op_info(op).name));
  }
}

int64_t binary_int(OpCode op, int64_t a, int64_t b, DType d, ScalarFault* fault) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (op) {
    case OpCode::add:
      return wrap(ua + ub);
    case OpCode::sub:
      return wrap(ua - ub);
    case OpCode::mul:
      return wrap(ua * ub);
    case OpCode::floor_div:
    case OpCode::trunc_div:
    case OpCode::remainder:
    case OpCode::fmod:
      return divide_int(op, a, b, fault);
    case OpCode::pow:
      return power_int(a, b);
    case OpCode::maximum:
      return a > b ? a : b;
    case OpCode::minimum:
      return a < b ? a : b;
    case OpCode::bit_and:
      return a & b;
    case OpCode::bit_or:
      return a | b;
    case OpCode::bit_xor:
      return a ^ b;
    case OpCode::shift_left:
      return shift_left_int(a, b, d);
    case OpCode::shift_right:
      return shift_right_int(a, b, d);
    default:
      throw InternalError("no integer meaning for " + std::string(op_info(op).name));
  }
}

template <class T>
bool compare(OpCode op, T a, T b) {
  switch (op) {
    case OpCode::eq:
      return a == b;
    case OpCode::ne:
      return a != b;
    case OpCode::lt:
      return a < b;
    case OpCode::le:
      return a <= b;
    case OpCode::gt:
      return a > b;
    default:
      return a >= b;
  }
}

// bool's own arithmetic: a value is 0 or 1, so `not` is not the integer complement.
Bits bool_result(OpCode op, std::span<const Bits> args) {
  if (op == OpCode::bit_not) return args[0] == 0;
  if (args.size() == 1) return unary_int(op, static_cast<int64_t>(args[0])) != 0;
  return binary_int(op, static_cast<int64_t>(args[0]), static_cast<int64_t>(args[1]), DType::Bool,
                    nullptr) != 0;
}

template <class T>
Bits float_result(OpCode op, DType dtype, DType to, std::span<const Bits> args) {
  const auto x = [&](size_t i) { return static_cast<T>(to_double(args[i], dtype)); };
  if (op == OpCode::fma) return from_double(std::fma(x(0), x(1), x(2)), to);
  return from_double(args.size() == 1 ? unary_float<T>(op, x(0)) : binary_float<T>(op, x(0), x(1)),
                     to);
}

// x86 cvtt to i32 (for i8, i16, i32) or i64 (u8, i64); ATen's CPU kernels convert so.
Bits cast_float_to_int(double v, DType to) {
  const bool wide = to == DType::I64 || to == DType::U8;
  const double limit = wide ? 0x1p63 : 0x1p31;
  const double whole = std::trunc(v);
  const int64_t lowest = wide ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << 31);
  if (!(whole >= -limit && whole < limit)) return from_int(lowest, to);
  return from_int(static_cast<int64_t>(whole), to);
}

Bits cast(Bits b, DType from, DType to) {
  if (from == to) return b;
  if (to == DType::Bool) return is_float(from) ? to_double(b, from) != 0 : to_int(b, from) != 0;
  if (is_float(from))
    return is_float(to) ? from_double(to_double(b, from), to)
                        : cast_float_to_int(to_double(b, from), to);
  return from_int(to_int(b, from), to);
}

Bits sign_bit(DType d) {
  return Bits{1} << (byte_size(d) * 8 - 1);
}

}  // namespace

Bits eval_pointwise(OpCode op, DType dtype, DType to, std::span<const Bits> args,
                    ScalarFault* fault) {
  const OpKind kind = op_info(op).kind;
  if (op == OpCode::select) return (args[0] & 0xFFu) != 0 ? args[1] : args[2];
  if (kind == OpKind::Cast) return cast(args[0], dtype, to);
  if (op == OpCode::copysign) return (args[0] & ~sign_bit(dtype)) | (args[1] & sign_bit(dtype));
  if (op == OpCode::is_nan) return is_float(dtype) && std::isnan(to_double(args[0], dtype));
  if (kind == OpKind::Compare) {
    if (is_float(dtype)) return compare(op, to_double(args[0], dtype), to_double(args[1], dtype));
    return compare(op, to_int(args[0], dtype), to_int(args[1], dtype));
  }
  if (dtype == DType::Bool) return bool_result(op, args);
  if (dtype == DType::F64) return float_result<double>(op, dtype, to, args);
  if (is_float(dtype)) return float_result<float>(op, dtype, to, args);
  if (args.size() == 1) return from_int(unary_int(op, to_int(args[0], dtype)), to);
  return from_int(binary_int(op, to_int(args[0], dtype), to_int(args[1], dtype), dtype, fault), to);
}

Bits reduce_identity(OpCode op, DType a) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const int64_t highest = a == DType::U8     ? 255
                          : a == DType::Bool ? 1
                                             : wrap((uint64_t{1} << (byte_size(a) * 8 - 1)) - 1);
  switch (op) {
    case OpCode::reduce_sum:
    case OpCode::reduce_any:
      return from_int(0, a);
    case OpCode::reduce_prod:
    case OpCode::reduce_all:
      return from_int(1, a);
    case OpCode::reduce_max:
      return is_float(a) ? from_double(-inf, a) : from_int(is_signed(a) ? -highest - 1 : 0, a);
    case OpCode::reduce_min:
      return is_float(a) ? from_double(inf, a) : from_int(highest, a);
    default:
      throw InternalError("not a reduction: " + std::string(op_info(op).name));
  }
}

Bits reduce_step(OpCode op, DType accumulate, Bits a, Bits b) {
  const Bits args[] = {a, b};
  const auto step = [&](OpCode pointwise) {
    return eval_pointwise(pointwise, accumulate, accumulate, args, nullptr);
  };
  switch (op) {
    case OpCode::reduce_sum:
      return step(OpCode::add);
    case OpCode::reduce_prod:
      return step(OpCode::mul);
    case OpCode::reduce_max:
      return step(OpCode::maximum);
    case OpCode::reduce_min:
      return step(OpCode::minimum);
    case OpCode::reduce_any:
      return step(OpCode::bit_or);
    case OpCode::reduce_all:
      return step(OpCode::bit_and);
    default:
      throw InternalError("not a reduction: " + std::string(op_info(op).name));
  }
}

}  // namespace poot::ir
