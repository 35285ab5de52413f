// Powers of two, splitting a float, reciprocal estimate and remainder: one AVX-512 instruction
// where there is one, else a plain sequence of exact steps.
//
// a * 2^n without double rounding: multiply in steps. Upward steps are exact until they overflow
// for good. Downward, the step is 2^-102 (f32), which keeps a guard of 24 bits: a product that is
// already denormal after it lies below half the smallest denormal at the end, so its rounding
// cannot show (the method of C's scalbn).
//
// Remainder: |a| and |b| become integers m * 2^e with m normalised; then one conditional subtract
// and shift for each step of exponent difference, exact as C's fmod. Vector lanes run together
// until the widest difference is done.
#include <cmath>

#include "codegen/llvm/emitter.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace poot::codegen {

using kir::Op;
namespace Intrinsic = llvm::Intrinsic;

namespace {

// Layout of f32 or f64.
struct Format {
  unsigned width, mantissa;  // bits, stored mantissa bits
  int bias;
  uint64_t mantissa_mask, exponent_mask, sign_mask;
  static Format of(llvm::Type* t) {
    const bool d = t->getScalarType()->isDoubleTy();
    Format f{d ? 64u : 32u, d ? 52u : 23u, d ? 1023 : 127, 0, 0, 0};
    f.mantissa_mask = (uint64_t{1} << f.mantissa) - 1;
    f.exponent_mask = d ? 0x7ff : 0xff;
    f.sign_mask = uint64_t{1} << (f.width - 1);
    return f;
  }
};

}  // namespace

llvm::Value* Emitter::scale_by_power(Value* v, Value* n) {
  const bool f32 = v->getType()->getScalarType()->isFloatTy();
  if (features_.avx512) {
    const unsigned k = lanes(v), unit = f32 ? 16 : 8;
    const unsigned piece = k > unit / 2 ? unit : k > unit / 4 ? unit / 2 : unit / 4;
    const Intrinsic::ID ids[2][3] = {
        {Intrinsic::x86_avx512_mask_scalef_pd_128, Intrinsic::x86_avx512_mask_scalef_pd_256,
         Intrinsic::x86_avx512_mask_scalef_pd_512},
        {Intrinsic::x86_avx512_mask_scalef_ps_128, Intrinsic::x86_avx512_mask_scalef_ps_256,
         Intrinsic::x86_avx512_mask_scalef_ps_512}};
    const Intrinsic::ID id = ids[f32][piece == unit ? 2 : piece == unit / 2 ? 1 : 0];
    Value* power = n->getType()->isFPOrFPVectorTy() ? n : b_.CreateSIToFP(n, v->getType());
    return by_pieces({v, power}, piece, [&](llvm::ArrayRef<Value*> p) -> Value* {
      llvm::Type* t = p[0]->getType();
      Value* mask = piece > 8 ? b_.getInt16(0xffff) : b_.getInt8(0xff);
      llvm::SmallVector<Value*, 5> ops{p[0], p[1], llvm::PoisonValue::get(t), mask};
      if (piece == unit) ops.push_back(b_.getInt32(4));
      return b_.CreateIntrinsic(t, id, ops);
    });
  }
  const Format f = Format::of(v->getType());
  llvm::Type* ft = v->getType();
  if (n->getType()->isFPOrFPVectorTy()) {
    Value* most = llvm::ConstantFP::get(ft, 4096);  // any finite v is infinite or 0 before that
    n = float_to_signed(b_.CreateSelect(b_.CreateFCmpOLT(n, most), n, most),
                        with_lanes(b_.getInt32Ty(), lanes(n)));
  }
  llvm::Type* nt = n->getType();
  auto number = [&](int x) { return llvm::ConstantInt::getSigned(nt, x); };
  const int up = f.bias, down = f.bias - 1 - static_cast<int>(f.mantissa + 1);
  for (int step = 0; step < 2; ++step) {
    Value* high = b_.CreateICmpSGT(n, number(up));
    Value* low = b_.CreateICmpSLT(n, number(1 - f.bias));
    Value* factor =
        b_.CreateSelect(high, llvm::ConstantFP::get(ft, std::ldexp(1.0, up)),
                        b_.CreateSelect(low, llvm::ConstantFP::get(ft, std::ldexp(1.0, -down)),
                                        llvm::ConstantFP::get(ft, 1.0)));
    v = b_.CreateFMul(v, factor);
    Value* rest = b_.CreateSelect(high, b_.CreateSub(n, number(up)), n);
    n = b_.CreateSelect(low, b_.CreateAdd(n, number(down)), rest);
  }
  n = binary(Intrinsic::smax, binary(Intrinsic::smin, n, number(up)), number(1 - f.bias));
  llvm::Type* it = int_of(v);
  Value* biased = b_.CreateSExtOrTrunc(b_.CreateAdd(n, number(f.bias)), it);
  return b_.CreateFMul(v, b_.CreateBitCast(b_.CreateShl(biased, int_splat(it, f.mantissa)), ft));
}

// The estimate instruction where there is one; a correctly rounded quotient meets the bound
// everywhere else.
llvm::Value* Emitter::reciprocal(Value* v) {
  if (!features_.avx512 || !v->getType()->getScalarType()->isFloatTy())
    return b_.CreateFDiv(llvm::ConstantFP::get(v->getType(), 1.0), v);
  const unsigned n = lanes(v), piece = n > 8 ? 16 : n > 4 ? 8 : 4;
  const Intrinsic::ID id = piece == 16  ? Intrinsic::x86_avx512_rcp14_ps_512
                           : piece == 8 ? Intrinsic::x86_avx512_rcp14_ps_256
                                        : Intrinsic::x86_avx512_rcp14_ps_128;
  return by_pieces({v}, piece, [&](llvm::ArrayRef<Value*> p) -> Value* {
    Value* mask = piece > 8 ? b_.getInt16(0xffff) : b_.getInt8(0xff);
    llvm::Type* t = p[0]->getType();
    return b_.CreateIntrinsic(t, id, {p[0], llvm::PoisonValue::get(t), mask});
  });
}

// i32 floor(log2|v|) of a finite nonzero v.
llvm::Value* Emitter::exponent_of(Value* v) {
  const Format f = Format::of(v->getType());
  if (features_.avx512 && lanes(v) > 1) {
    const bool f32 = f.width == 32;
    const unsigned piece = f32 ? 16 : 8;
    Value* e = by_pieces({v}, piece, [&](llvm::ArrayRef<Value*> p) -> Value* {
      llvm::Type* t = p[0]->getType();
      const auto id =
          f32 ? Intrinsic::x86_avx512_mask_getexp_ps_512 : Intrinsic::x86_avx512_mask_getexp_pd_512;
      Value* mask = b_.getIntN(piece, (1u << piece) - 1);
      return b_.CreateIntrinsic(t, id, {p[0], llvm::PoisonValue::get(t), mask, b_.getInt32(4)});
    });
    return float_to_signed(e, with_lanes(b_.getInt32Ty(), lanes(v)));
  }
  llvm::Type* it = int_of(v);
  Value* magnitude = b_.CreateAnd(b_.CreateBitCast(v, it), int_splat(it, f.sign_mask - 1));
  Value* field = b_.CreateLShr(magnitude, int_splat(it, f.mantissa));
  Value* normal = b_.CreateSub(field, int_splat(it, f.bias));
  // A denormal m * 2^(1 - bias - mantissa): its top bit is at width - 1 - ctlz(m).
  Value* zeros = binary(Intrinsic::ctlz, magnitude, b_.getFalse());
  const int64_t top = static_cast<int64_t>(f.width) - 1 + 1 - f.bias - f.mantissa;
  Value* denormal = b_.CreateSub(llvm::ConstantInt::getSigned(it, top), zeros);
  Value* e = b_.CreateSelect(b_.CreateICmpEQ(field, int_splat(it, 0)), denormal, normal);
  return b_.CreateSExtOrTrunc(e, with_lanes(b_.getInt32Ty(), lanes(v)));
}

llvm::Value* Emitter::mantissa_of(Value* v) {
  const Format f = Format::of(v->getType());
  if (features_.isa == Isa::X86 && features_.avx512 && lanes(v) > 1) {
    const bool f32 = f.width == 32;
    const unsigned piece = f32 ? 16 : 8;
    return by_pieces({v}, piece, [&](llvm::ArrayRef<Value*> p) -> Value* {
      llvm::Type* t = p[0]->getType();
      const auto id = f32 ? Intrinsic::x86_avx512_mask_getmant_ps_512
                          : Intrinsic::x86_avx512_mask_getmant_pd_512;
      const int unsigned_from_one_to_two = 1 << 2;
      return b_.CreateIntrinsic(
          t, id,
          {p[0], b_.getInt32(unsigned_from_one_to_two), llvm::PoisonValue::get(t),
           b_.getIntN(piece, (1u << piece) - 1), b_.getInt32(4)});
    });
  }
  llvm::Type* it = int_of(v);
  Value* magnitude = b_.CreateAnd(b_.CreateBitCast(v, it), int_splat(it, f.sign_mask - 1));
  Value* zeros = binary(Intrinsic::ctlz, magnitude, b_.getFalse());
  Value* is_denormal = b_.CreateICmpULE(magnitude, int_splat(it, f.mantissa_mask));
  // Shift that brings the top bit of a denormal to the implicit position; 0 for a normal number.
  Value* shift = b_.CreateSelect(
      is_denormal, b_.CreateSub(zeros, int_splat(it, f.width - 1 - f.mantissa)), int_splat(it, 0));
  shift = b_.CreateAnd(shift, int_splat(it, f.width - 1));
  Value* fraction = b_.CreateAnd(b_.CreateShl(magnitude, shift), int_splat(it, f.mantissa_mask));
  Value* one = int_splat(it, static_cast<uint64_t>(f.bias) << f.mantissa);
  return b_.CreateBitCast(b_.CreateOr(fraction, one), v->getType());
}

llvm::Value* Emitter::remainder(Value* a, Value* b) {
  const Format f = Format::of(a->getType());
  llvm::Type* it = int_of(a);
  auto c = [&](uint64_t bits) { return int_splat(it, bits); };
  auto magnitude = [&](Value* v) {
    return b_.CreateAnd(b_.CreateBitCast(v, it), c(f.sign_mask - 1));
  };
  Value *ia = magnitude(a), *ib = magnitude(b);
  // m with its top bit at the implicit position and the exponent field that belongs to it.
  auto split = [&](Value* bits, Value*& m, Value*& e) {
    Value* field = b_.CreateLShr(bits, c(f.mantissa));
    Value* zeros = binary(Intrinsic::ctlz, bits, b_.getFalse());
    Value* shift = b_.CreateSub(zeros, c(f.width - 1 - f.mantissa));
    Value* tiny = b_.CreateICmpEQ(field, c(0));
    Value* safe_shift = b_.CreateAnd(shift, c(f.width - 1));
    Value* implicit = b_.CreateOr(b_.CreateAnd(bits, c(f.mantissa_mask)), c(f.mantissa_mask + 1));
    m = b_.CreateSelect(tiny, b_.CreateShl(bits, safe_shift), implicit);
    e = b_.CreateSelect(tiny, b_.CreateSub(c(1), shift), field);
  };
  Value *ma, *ea, *mb, *eb;
  split(ia, ma, ea);
  split(ib, mb, eb);
  const uint64_t infinity = f.exponent_mask << f.mantissa;
  Value* undefined = b_.CreateOr(
      b_.CreateICmpEQ(ib, c(0)),
      b_.CreateOr(b_.CreateICmpUGE(ia, c(infinity)), b_.CreateICmpUGT(ib, c(infinity))));
  Value* unchanged = b_.CreateICmpULT(ia, ib);
  Value* idle = b_.CreateOr(undefined, unchanged);
  Value* steps = b_.CreateSelect(idle, c(0), b_.CreateSub(ea, eb));
  Value* most = lanes(steps) > 1 ? b_.CreateIntMaxReduce(steps, /*IsSigned=*/false) : steps;

  auto reduce = [&](Value* m) {
    return b_.CreateSelect(b_.CreateICmpUGE(m, mb), b_.CreateSub(m, mb), m);
  };
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(context_, "", function_);
  auto* after = llvm::BasicBlock::Create(context_, "", function_);
  llvm::Type* st = most->getType();
  b_.CreateCondBr(b_.CreateICmpNE(most, llvm::ConstantInt::get(st, 0)), loop, after);
  b_.SetInsertPoint(loop);
  llvm::PHINode* k = b_.CreatePHI(st, 2);
  llvm::PHINode* m = b_.CreatePHI(it, 2);
  Value* active = b_.CreateICmpULT(lanes(a) > 1 ? b_.CreateVectorSplat(lanes(a), k) : k, steps);
  Value* shifted = b_.CreateShl(reduce(m), c(1));
  Value* next_m = b_.CreateSelect(active, shifted, m);
  Value* next_k = b_.CreateAdd(k, llvm::ConstantInt::get(st, 1));
  k->addIncoming(llvm::ConstantInt::get(st, 0), before);
  k->addIncoming(next_k, loop);
  m->addIncoming(ma, before);
  m->addIncoming(next_m, loop);
  b_.CreateCondBr(b_.CreateICmpULT(next_k, most), loop, after);
  b_.SetInsertPoint(after);
  llvm::PHINode* last = b_.CreatePHI(it, 2);
  last->addIncoming(ma, before);
  last->addIncoming(next_m, loop);

  // Back to a float: the result has at most b's exponent, so it is exact, denormals too.
  Value* r = reduce(last);
  Value* shift =
      b_.CreateSub(binary(Intrinsic::ctlz, r, b_.getFalse()), c(f.width - 1 - f.mantissa));
  shift = b_.CreateAnd(shift, c(f.width - 1));
  Value* norm = b_.CreateShl(r, shift);
  Value* e = b_.CreateSub(eb, shift);
  Value* is_normal = b_.CreateICmpSGT(e, c(0));
  Value* normal = b_.CreateOr(b_.CreateAnd(norm, c(f.mantissa_mask)),
                              b_.CreateShl(b_.CreateSelect(is_normal, e, c(0)), c(f.mantissa)));
  Value* down = b_.CreateSelect(is_normal, c(0), b_.CreateSub(c(1), e));
  Value* denormal = b_.CreateLShr(norm, b_.CreateAnd(down, c(f.width - 1)));
  Value* bits = b_.CreateSelect(is_normal, normal, denormal);
  bits = b_.CreateSelect(b_.CreateICmpEQ(r, c(0)), c(0), bits);
  bits = b_.CreateSelect(unchanged, ia, bits);
  Value* sign = b_.CreateAnd(b_.CreateBitCast(a, it), c(f.sign_mask));
  bits = b_.CreateSelect(undefined, c(infinity | ((f.mantissa_mask + 1) >> 1)),
                         b_.CreateOr(bits, sign));
  return b_.CreateBitCast(bits, a->getType());
}

bool Emitter::emit_scale(const kir::Inst& i) {
  switch (i.op) {
    case Op::fscale:
    case Op::fscale_whole:
      return set(i, scale_by_power(arg(i, 0), arg(i, 1))), true;
    case Op::fexponent:
      return set(i, exponent_of(arg(i, 0))), true;
    case Op::fmantissa:
      return set(i, mantissa_of(arg(i, 0))), true;
    case Op::frecip:
      return set(i, reciprocal(arg(i, 0))), true;
    case Op::frem:
      return set(i, remainder(arg(i, 0), arg(i, 1))), true;
    default:
      return false;
  }
}

}  // namespace poot::codegen
