// Conversions. Two of them LLVM does not give as KIR defines them:
//
// - f32 to bf16 by integer arithmetic: add half of the last kept unit; what lay exactly between two
//   has no bits left below, and loses its last kept bit, which makes it even. The AVX-512
//   instruction flushes denormals, and elsewhere LLVM calls a runtime function.
// - float to signed integer: LLVM's fptosi is poison out of range; KIR wants the minimum, which is
//   what x86's cvtt instructions answer.
#include <cmath>

#include "codegen/llvm/emitter.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace poot::codegen {

using kir::Elem;
using kir::Op;
namespace Intrinsic = llvm::Intrinsic;

llvm::Value* Emitter::widen_float(Value* v, Elem from, llvm::Type* to) {
  const unsigned n = lanes(v);
  if (from == Elem::F32) return b_.CreateFPExt(v, to);
  if (from == Elem::F16)
    return b_.CreateFPExt(b_.CreateBitCast(v, with_lanes(b_.getHalfTy(), n)), to);
  if (features_.isa == Isa::Ptx && n % 2 == 0) return widen_pairs(v, to);
  llvm::Type* i32 = with_lanes(b_.getInt32Ty(), n);
  return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(v, i32), int_splat(i32, 16)), to);
}

// Two bf16 of a register, by one instruction each.
llvm::Value* Emitter::widen_pairs(Value* v, llvm::Type* to) {
  const unsigned n = lanes(v);
  llvm::Type* i32 = with_lanes(b_.getInt32Ty(), n / 2);
  Value* pairs = b_.CreateBitCast(v, i32);
  llvm::Type* f32 = with_lanes(b_.getFloatTy(), n / 2);
  Value* even = b_.CreateBitCast(b_.CreateShl(pairs, int_splat(i32, 16)), f32);
  Value* odd = b_.CreateBitCast(b_.CreateAnd(pairs, int_splat(i32, 0xffff0000)), f32);
  Value* all = llvm::PoisonValue::get(to);
  for (unsigned l = 0; l < n; ++l) {
    Value* half = l % 2 == 0 ? even : odd;
    Value* one = n == 2 ? half : b_.CreateExtractElement(half, uint64_t{l / 2});
    all = b_.CreateInsertElement(all, one, uint64_t{l});
  }
  return all;
}

// `any_nan`: v may hold a NaN that this arithmetic would not keep (nan_payloads.cpp).
llvm::Value* Emitter::narrow_float(Value* v, Elem to, bool any_nan) {
  const unsigned n = lanes(v);
  if (to == Elem::F32) return b_.CreateFPTrunc(v, with_lanes(b_.getFloatTy(), n));
  llvm::Type* i16 = with_lanes(b_.getInt16Ty(), n);
  if (to == Elem::F16)
    return b_.CreateBitCast(b_.CreateFPTrunc(v, with_lanes(b_.getHalfTy(), n)), i16);
  if (features_.isa == Isa::Ptx)
    return b_.CreateBitCast(b_.CreateFPTrunc(v, with_lanes(b_.getBFloatTy(), n)), i16);
  Value* raised = raised_to_bf16(v, any_nan);
  return b_.CreateTrunc(b_.CreateLShr(raised, int_splat(raised->getType(), 16)), i16);
}

// The bits of f32 whose upper halves are those of v, rounded to bf16; the lower halves say nothing.
// With the multiply-adds of 16-bit words that is two instructions: 0x7fff and the last kept bit,
// as words, times 1 and 1, are added to the bits.
llvm::Value* Emitter::raised_to_bf16(Value* v, bool any_nan) {
  const unsigned n = lanes(v);
  llvm::Type* i32 = with_lanes(b_.getInt32Ty(), n);
  Value* bits = b_.CreateBitCast(v, i32);
  Value* raised = nullptr;
  if (features_.avx512_vnni && n % 16 == 0) {
    Value* words = b_.CreateOr(b_.CreateAnd(bits, int_splat(i32, 0x10000)), int_splat(i32, 0x7fff));
    raised = by_pieces({bits, words}, 16, [&](llvm::ArrayRef<Value*> p) -> Value* {
      llvm::Function* f =
          llvm::Intrinsic::getOrInsertDeclaration(&module_, Intrinsic::x86_avx512_vpdpwssd_512);
      llvm::Type* operand = f->getFunctionType()->getParamType(1);
      Value* ones = int_splat(p[0]->getType(), 0x10001);
      return b_.CreateCall(
          f, {p[0], b_.CreateBitCast(p[1], operand), b_.CreateBitCast(ones, operand)});
    });
  } else {
    raised = b_.CreateAdd(bits, int_splat(i32, 0x8000));
    Value* tie = b_.CreateICmpEQ(b_.CreateAnd(raised, int_splat(i32, 0xffff)), int_splat(i32, 0));
    raised = b_.CreateSelect(tie, b_.CreateAnd(raised, int_splat(i32, 0xfffeffff)), raised);
  }
  if (!any_nan) return raised;
  return b_.CreateSelect(b_.CreateFCmpUNO(v, v), b_.CreateOr(bits, int_splat(i32, 0x400000)),
                         raised);
}

// v is f32 or f64. In range: -2^(w-1) - 1 < v < 2^(w-1); where the lower bound has no exact form,
// nothing lies between it and -2^(w-1).
llvm::Value* Emitter::float_to_signed(Value* v, llvm::Type* to) {
  const bool f32 = v->getType()->getScalarType()->isFloatTy();
  const unsigned width = to->getScalarSizeInBits(), n = lanes(v);
  auto call = [&](Intrinsic::ID id, llvm::Type* result, bool masked, unsigned mask_bits) {
    return [=, this](llvm::ArrayRef<Value*> p) -> Value* {
      if (!masked) return b_.CreateIntrinsic(result, id, {p[0]});
      return b_.CreateIntrinsic(result, id,
                                {p[0], llvm::PoisonValue::get(result),
                                 b_.getIntN(mask_bits, (1u << mask_bits) - 1), b_.getInt32(4)});
    };
  };
  auto vec = [&](llvm::Type* t, unsigned k) { return llvm::FixedVectorType::get(t, k); };
  if (features_.x86 && width == 32 && f32) {
    llvm::Type* i32 = b_.getInt32Ty();
    if (n > 8 && features_.avx512)
      return by_pieces({v}, 16,
                       call(Intrinsic::x86_avx512_mask_cvttps2dq_512, vec(i32, 16), true, 16));
    if (n > 4 && features_.avx2)
      return by_pieces({v}, 8, call(Intrinsic::x86_avx_cvtt_ps2dq_256, vec(i32, 8), false, 0));
    return by_pieces({v}, 4, call(Intrinsic::x86_sse2_cvttps2dq, vec(i32, 4), false, 0));
  }
  if (features_.avx512 && n > 1 && (width == 32 || width == 64)) {
    llvm::Type* out = vec(to->getScalarType(), 8);
    const Intrinsic::ID id = width == 32 ? Intrinsic::x86_avx512_mask_cvttpd2dq_512
                             : f32       ? Intrinsic::x86_avx512_mask_cvttps2qq_512
                                         : Intrinsic::x86_avx512_mask_cvttpd2qq_512;
    return by_pieces({v}, 8, call(id, out, true, 8));
  }
  const double limit = std::ldexp(1.0, static_cast<int>(width) - 1);
  const bool exact = width < (f32 ? 24u : 53u);
  Value* lower = llvm::ConstantFP::get(v->getType(), exact ? -limit - 1 : -limit);
  Value* above = exact ? b_.CreateFCmpOGT(v, lower) : b_.CreateFCmpOGE(v, lower);
  Value* inside =
      b_.CreateAnd(above, b_.CreateFCmpOLT(v, llvm::ConstantFP::get(v->getType(), limit)));
  Value* safe = b_.CreateSelect(inside, v, llvm::ConstantFP::get(v->getType(), 0.0));
  Value* minimum = llvm::ConstantInt::get(to, llvm::APInt::getSignedMinValue(width));
  return b_.CreateSelect(inside, b_.CreateFPToSI(safe, to), minimum);
}

bool Emitter::emit_convert(const kir::Inst& i) {
  if (convert_halves(i)) return true;
  llvm::Type* to = type(i.type);
  switch (i.op) {
    case Op::fpext:
      return set(i, widen_float(arg(i, 0), arg_type(i, 0).elem, to)), true;
    case Op::fptrunc:
      return set(i, narrow_float(arg(i, 0), i.type.elem, !narrowable_[i.args[0].index])), true;
    case Op::sitofp:
      return set(i, b_.CreateSIToFP(arg(i, 0), to)), true;
    case Op::uitofp:
      return set(i, b_.CreateUIToFP(arg(i, 0), to)), true;
    case Op::fptosi:
      return set(i, float_to_signed(arg(i, 0), to)), true;
    case Op::sext:
      return set(i, b_.CreateSExt(arg(i, 0), to)), true;
    case Op::zext:
      return set(i, b_.CreateZExt(arg(i, 0), to)), true;
    case Op::itrunc:
      return set(i, b_.CreateTrunc(arg(i, 0), to)), true;
    case Op::bitcast:
      return set(i, b_.CreateBitCast(arg(i, 0), to)), true;
    default:
      return false;
  }
}

}  // namespace poot::codegen
