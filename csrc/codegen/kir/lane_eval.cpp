// One lane of each instruction. Floats are computed by the host in their own width (this file is
// compiled without contraction and without fast-math, so that a * b + c keeps its two roundings).
#include "codegen/kir/lane_eval.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace poot::kir {
namespace {

[[noreturn]] void undefined(const Inst& i, const std::string& why) {
  throw InvalidGraph("kir-run-C5", std::string(op_info(i.op).name), why);
}

template <class F>
F as_float(uint64_t bits) {
  if constexpr (sizeof(F) == 4) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if constexpr (sizeof(F) == 8) return std::bit_cast<double>(bits);
}
uint64_t bits_of(float v) {
  return std::bit_cast<uint32_t>(v);
}
uint64_t bits_of(double v) {
  return std::bit_cast<uint64_t>(v);
}

float widen_f16(uint64_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t exponent = (h >> 10) & 31, fraction = h & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                        : std::ldexp(static_cast<float>(1024 + fraction),
                                                     static_cast<int>(exponent) - 25);
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

uint64_t narrow_f16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  const uint64_t sign = (bits >> 16) & 0x8000;
  if (std::isnan(v)) return sign | 0x7e00;
  const float magnitude = std::fabs(v);
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  if (magnitude < 0x1p-14f)  // denormal: the unit is 2^-24, and rounding up reaches the normals
    return sign | static_cast<uint64_t>(std::nearbyint(magnitude * 0x1p24f));
  const uint32_t m = bits & 0x7fffffff;
  return sign | ((m + 0xfff + (m >> 13 & 1) - (112u << 23)) >> 13);
}

uint64_t narrow_bf16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  if (std::isnan(v)) return (bits >> 16) | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

template <class F>
bool compare(Pred p, F a, F b) {
  const bool unordered = std::isnan(a) || std::isnan(b);
  switch (p) {
    case Pred::oeq:
      return a == b;
    case Pred::one:
      return !unordered && a != b;
    case Pred::olt:
      return a < b;
    case Pred::ole:
      return a <= b;
    case Pred::ogt:
      return a > b;
    case Pred::oge:
      return a >= b;
    case Pred::ord:
      return !unordered;
    case Pred::uno:
      return unordered;
    case Pred::une:
      return a != b;
    case Pred::ueq:
      return unordered || a == b;
    case Pred::fult:
      return !(a >= b);
    case Pred::fule:
      return !(a > b);
    case Pred::fugt:
      return !(a <= b);
    case Pred::fuge:
      return !(a < b);
    default:
      throw InternalError("an integer predicate of fcmp");
  }
}

bool compare_ints(Pred p, uint64_t a, uint64_t b, int64_t width) {
  const int64_t sa = sign_extend(a, width), sb = sign_extend(b, width);
  switch (p) {
    case Pred::eq:
      return a == b;
    case Pred::ne:
      return a != b;
    case Pred::slt:
      return sa < sb;
    case Pred::sle:
      return sa <= sb;
    case Pred::sgt:
      return sa > sb;
    case Pred::sge:
      return sa >= sb;
    case Pred::ult:
      return a < b;
    case Pred::ule:
      return a <= b;
    case Pred::ugt:
      return a > b;
    case Pred::uge:
      return a >= b;
    default:
      throw InternalError("a float predicate of icmp");
  }
}

// x86's cvtt: what does not fit becomes the minimum.
template <class F>
uint64_t to_int(F v, int64_t width) {
  const F limit = std::ldexp(F{1}, static_cast<int>(width) - 1);
  if (!(v < limit && v >= -limit)) return uint64_t{1} << (width - 1);
  return static_cast<uint64_t>(static_cast<int64_t>(v)) & low_bits(width);
}

template <class F>
uint64_t split_exponent(F v) {
  if (v == 0 || !std::isfinite(v)) return uint64_t{1} << 31;
  return static_cast<uint32_t>(std::ilogb(v));
}
template <class F>
F split_mantissa(F v) {
  if (v == 0 || !std::isfinite(v)) return F{1};
  int exponent = 0;
  return 2 * std::frexp(std::fabs(v), &exponent);
}

template <class F>
F float_op(const Inst& i, F a, F b, F c, int32_t n) {
  switch (i.op) {
    case Op::fadd:
      return a + b;
    case Op::fsub:
      return a - b;
    case Op::fmul:
      return a * b;
    case Op::fdiv:
      return a / b;
    case Op::frem:
      return std::fmod(a, b);
    case Op::fma:
      return std::fma(a, b, c);
    case Op::fsqrt:
      return std::sqrt(a);
    case Op::ffloor:
      return std::floor(a);
    case Op::fceil:
      return std::ceil(a);
    case Op::ftrunc:
      return std::trunc(a);
    case Op::frint:
      return std::nearbyint(a);
    case Op::fmin:
      return a < b ? a : b;
    case Op::fmax:
      return a > b ? a : b;
    case Op::fscale:
      return std::ldexp(a, n);
    case Op::fscale_whole:
      return std::ldexp(a, static_cast<int>(std::clamp<F>(std::isnan(b) ? 0 : b, -5000, 5000)));
    case Op::fmantissa:
      return split_mantissa(a);
    case Op::frecip:
    case Op::frecip_approx:
      return F{1} / a;
    case Op::fmaximum:
      return std::isnan(a) ? a : a > b ? a : b;
    case Op::fminimum:
      return std::isnan(a) ? a : a < b ? a : b;
    case Op::fexp2_approx:
      return std::exp2(a);
    case Op::fexp2_flush: {
      const F power = std::exp2(a);
      return power < std::numeric_limits<F>::min() ? F{0} : power;
    }
    case Op::fdiv_approx:
      return a / b;
    case Op::fsqrt_approx:
      return std::sqrt(a);
    case Op::ftanh_approx:
      return std::tanh(a);
    default:
      throw InternalError("no lane of " + std::string(op_info(i.op).name));
  }
}

uint64_t divide(const Inst& i, uint64_t a, uint64_t b, int64_t width) {
  if (b == 0) undefined(i, "division by zero");
  if (i.op == Op::udiv) return a / b;
  if (i.op == Op::urem) return a % b;
  if (b == low_bits(width) && a == uint64_t{1} << (width - 1)) undefined(i, "minimum / -1");
  const int64_t sa = sign_extend(a, width), sb = sign_extend(b, width);
  return static_cast<uint64_t>(i.op == Op::sdiv ? sa / sb : sa % sb);
}

uint64_t shift(const Inst& i, uint64_t a, uint64_t b, int64_t width) {
  if (b >= static_cast<uint64_t>(width)) undefined(i, "shift by " + std::to_string(b));
  if (i.op == Op::shl) return a << b;
  if (i.op == Op::lshr) return a >> b;
  return static_cast<uint64_t>(sign_extend(a, width) >> b);
}

uint64_t int_op(const Inst& i, uint64_t a, uint64_t b, int64_t width) {
  const int64_t sa = sign_extend(a, width), sb = sign_extend(b, width);
  switch (i.op) {
    case Op::iadd:
      return a + b;
    case Op::isub:
      return a - b;
    case Op::imul:
      return a * b;
    case Op::sdiv:
    case Op::srem:
    case Op::udiv:
    case Op::urem:
      return divide(i, a, b, width);
    case Op::umulh:
      return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> width);
    case Op::smin:
      return sa < sb ? a : b;
    case Op::smax:
      return sa > sb ? a : b;
    case Op::umin:
      return a < b ? a : b;
    case Op::umax:
      return a > b ? a : b;
    case Op::band:
      return a & b;
    case Op::bor:
      return a | b;
    case Op::bxor:
      return a ^ b;
    case Op::shl:
    case Op::lshr:
    case Op::ashr:
      return shift(i, a, b, width);
    case Op::ctlz:
      return static_cast<uint64_t>(std::countl_zero(a) - (64 - width));
    default:
      throw InternalError("no lane of " + std::string(op_info(i.op).name));
  }
}

// Rounding an f32 result once more is harmless: f32 has more than twice the digits.
uint64_t half_op(const Inst& i, Elem e, uint64_t a, uint64_t b) {
  const auto wide = [e](uint64_t v) {
    return e == Elem::F16 ? widen_f16(v) : as_float<float>(v << 16);
  };
  const float x = wide(a), y = wide(b);
  const float r = i.op == Op::hadd ? x + y : i.op == Op::hsub ? x - y : x * y;
  return e == Elem::F16 ? narrow_f16(r) : narrow_bf16(r);
}

uint64_t convert(const Inst& i, Elem from, Elem to, uint64_t a) {
  const int64_t width = bit_width(from);
  switch (i.op) {
    case Op::fpext:
      if (from == Elem::F32) return bits_of(static_cast<double>(as_float<float>(a)));
      return from == Elem::F16 ? bits_of(widen_f16(a)) : a << 16;
    case Op::fptrunc:
      if (from == Elem::F64) return bits_of(static_cast<float>(as_float<double>(a)));
      return to == Elem::F16 ? narrow_f16(as_float<float>(a)) : narrow_bf16(as_float<float>(a));
    case Op::sitofp:
      return to == Elem::F32 ? bits_of(static_cast<float>(sign_extend(a, width)))
                             : bits_of(static_cast<double>(sign_extend(a, width)));
    case Op::uitofp:
      return to == Elem::F32 ? bits_of(static_cast<float>(a)) : bits_of(static_cast<double>(a));
    case Op::fptosi:
      return from == Elem::F32 ? to_int(as_float<float>(a), bit_width(to))
                               : to_int(as_float<double>(a), bit_width(to));
    case Op::sext:
      return static_cast<uint64_t>(sign_extend(a, width));
    default:  // zext, itrunc, bitcast
      return a;
  }
}

}  // namespace

int64_t sign_extend(uint64_t bits, int64_t width) {
  const int unused = static_cast<int>(64 - width);
  return static_cast<int64_t>(bits << unused) >> unused;
}

uint64_t eval_lane(const Inst& i, Elem from, Elem to, uint64_t a, uint64_t b, uint64_t c) {
  const int64_t width = bit_width(from);
  const uint64_t sign = uint64_t{1} << (width - 1);
  switch (i.op) {
    case Op::constant:
      return i.imm;
    case Op::fneg:
    case Op::hneg:
      return a ^ sign;
    case Op::fabs:
    case Op::habs:
      return a & ~sign;
    case Op::hadd:
    case Op::hsub:
    case Op::hmul:
      return half_op(i, from, a, b);
    case Op::fcopysign:
      return (a & ~sign) | (b & sign);
    case Op::fexponent:
      return from == Elem::F32 ? split_exponent(as_float<float>(a))
                               : split_exponent(as_float<double>(a));
    case Op::icmp:
      return compare_ints(i.pred, a, b, width);
    case Op::fcmp:
      return from == Elem::F32 ? compare(i.pred, as_float<float>(a), as_float<float>(b))
                               : compare(i.pred, as_float<double>(a), as_float<double>(b));
    case Op::select:
      return a ? b : c;
    case Op::fpext:
    case Op::fptrunc:
    case Op::sitofp:
    case Op::uitofp:
    case Op::fptosi:
    case Op::sext:
    case Op::zext:
    case Op::itrunc:
    case Op::bitcast:
      return convert(i, from, to, a) & low_bits(bit_width(to));
    default:
      break;
  }
  const auto n = static_cast<int32_t>(b);
  if (from == Elem::F32)
    return bits_of(float_op(i, as_float<float>(a), as_float<float>(b), as_float<float>(c), n));
  if (from == Elem::F64)
    return bits_of(float_op(i, as_float<double>(a), as_float<double>(b), as_float<double>(c), n));
  return int_op(i, a, b, width) & low_bits(width);
}

uint64_t dot_pair(uint64_t acc, const uint64_t* a, const uint64_t* b) {
  const auto flush = [](float v) { return std::fabs(v) < 0x1p-126f ? std::copysign(0.0f, v) : v; };
  const auto bf16 = [&](uint64_t bits) { return flush(as_float<float>(bits << 16)); };
  float sum = flush(as_float<float>(acc));
  for (int i : {1, 0}) sum = flush(std::fma(bf16(a[i]), bf16(b[i]), sum));
  return bits_of(sum);
}

uint64_t combine_lanes(Op reduction, Elem e, uint64_t a, uint64_t b) {
  Inst step;
  switch (reduction) {
    case Op::reduce_fadd:
      step.op = Op::fadd;
      break;
    case Op::reduce_fmul:
      step.op = Op::fmul;
      break;
    case Op::reduce_fmax:
    case Op::reduce_fmin:
      if (e == Elem::F32 ? std::isnan(as_float<float>(a)) : std::isnan(as_float<double>(a)))
        return a;
      step.op = reduction == Op::reduce_fmax ? Op::fmax : Op::fmin;
      break;
    case Op::reduce_iadd:
      step.op = Op::iadd;
      break;
    case Op::reduce_imul:
      step.op = Op::imul;
      break;
    case Op::reduce_smax:
      step.op = Op::smax;
      break;
    case Op::reduce_smin:
      step.op = Op::smin;
      break;
    case Op::reduce_or:
      step.op = Op::bor;
      break;
    default:
      step.op = Op::band;
  }
  return eval_lane(step, e, e, a, b, 0);
}

uint64_t combine_atomically(Op atomic, Elem e, uint64_t there, uint64_t operand) {
  Inst step{};
  step.type = {e, 1};
  switch (atomic) {
    case Op::atomic_fadd:
      step.op = e == Elem::F16 || e == Elem::BF16 ? Op::hadd : Op::fadd;
      break;
    case Op::atomic_fmax:
      return combine_lanes(Op::reduce_fmax, e, there, operand);
    case Op::atomic_fmin:
      return combine_lanes(Op::reduce_fmin, e, there, operand);
    case Op::atomic_iadd:
      step.op = Op::iadd;
      break;
    case Op::atomic_smax:
      step.op = Op::smax;
      break;
    case Op::atomic_smin:
      step.op = Op::smin;
      break;
    case Op::atomic_umax:
      step.op = Op::umax;
      break;
    default:
      step.op = Op::umin;
  }
  return eval_lane(step, e, e, there, operand, 0);
}

}  // namespace poot::kir
