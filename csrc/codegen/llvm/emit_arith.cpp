// Arithmetic, comparison and selection: the instructions that LLVM IR has as such.
//
// Nothing here may change a bit against KIR's table: no fast-math flags, minimum and maximum by
// compare and select (LLVM's minnum and minimum treat NaN and zeros otherwise), shifts and
// divisions under the table's preconditions.
#include <algorithm>

#include "codegen/llvm/emitter.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace poot::codegen {

using kir::Op;
using llvm::CmpInst;
namespace Intrinsic = llvm::Intrinsic;

// Whole vectors of the instruction; the operands' lanes are cut to match the accumulator's.
llvm::Value* Emitter::dot_pairs(const kir::Inst& i) {
  if (!features_.avx512_bf16) unsupported(i, "AVX512-BF16");
  const unsigned n = lanes(arg(i, 0)), piece = std::min(n, 16u);
  const Intrinsic::ID id = piece == 16  ? Intrinsic::x86_avx512bf16_dpbf16ps_512
                           : piece == 8 ? Intrinsic::x86_avx512bf16_dpbf16ps_256
                                        : Intrinsic::x86_avx512bf16_dpbf16ps_128;
  llvm::Type* pairs = with_lanes(b_.getBFloatTy(), 2 * piece);
  llvm::SmallVector<Value*, 4> done;
  for (unsigned at = 0; at < n; at += piece) {
    const auto cut = [&](size_t operand, unsigned factor) {
      Value* v = arg(i, operand);
      if (n == piece) return v;
      llvm::SmallVector<int, 32> mask;
      for (unsigned l = 0; l < factor * piece; ++l) mask.push_back(int(factor * at + l));
      return b_.CreateShuffleVector(v, mask);
    };
    done.push_back(b_.CreateIntrinsic(
        id, {},
        {cut(0, 1), b_.CreateBitCast(cut(1, 2), pairs), b_.CreateBitCast(cut(2, 2), pairs)}));
  }
  return done.size() == 1 ? done[0] : llvm::concatenateVectors(b_, done);
}

bool Emitter::emit_float(const kir::Inst& i) {
  auto a = [&] { return arg(i, 0); };
  auto b = [&] { return arg(i, 1); };
  switch (i.op) {
    case Op::fadd:
      return set(i, b_.CreateFAdd(a(), b())), true;
    case Op::fsub:
      return set(i, b_.CreateFSub(a(), b())), true;
    case Op::fmul:
      return set(i, b_.CreateFMul(a(), b())), true;
    case Op::fdiv:
      return set(i, b_.CreateFDiv(a(), b())), true;
    case Op::fma: {
      Value* ops[] = {a(), b(), arg(i, 2)};
      return set(i, b_.CreateIntrinsic(Intrinsic::fma, {ops[0]->getType()}, ops)), true;
    }
    case Op::dot_pairs:
      return set(i, dot_pairs(i)), true;
    case Op::fneg:
      return set(i, b_.CreateFNeg(a())), true;
    case Op::fabs:
      return set(i, unary(Intrinsic::fabs, a())), true;
    case Op::fsqrt:
      return set(i, unary(Intrinsic::sqrt, a())), true;
    case Op::ffloor:
      return set(i, unary(Intrinsic::floor, a())), true;
    case Op::fceil:
      return set(i, unary(Intrinsic::ceil, a())), true;
    case Op::ftrunc:
      return set(i, unary(Intrinsic::trunc, a())), true;
    case Op::frint:
      return set(i, unary(Intrinsic::roundeven, a())), true;
    case Op::fcopysign:
      return set(i, binary(Intrinsic::copysign, a(), b())), true;
    case Op::fmin: {
      Value *x = a(), *y = b();
      return set(i, b_.CreateSelect(b_.CreateFCmpOLT(x, y), x, y)), true;
    }
    case Op::fmax: {
      Value *x = a(), *y = b();
      return set(i, b_.CreateSelect(b_.CreateFCmpOGT(x, y), x, y)), true;
    }
    default:
      return false;
  }
}

llvm::Value* Emitter::high_product(Value* a, Value* c) {
  const unsigned bits = a->getType()->getScalarSizeInBits();
  llvm::Type* wide = with_lanes(b_.getIntNTy(2 * bits), lanes(a));
  Value* product = b_.CreateMul(b_.CreateZExt(a, wide), b_.CreateZExt(c, wide));
  return b_.CreateTrunc(b_.CreateLShr(product, int_splat(wide, bits)), a->getType());
}

bool Emitter::emit_int(const kir::Inst& i) {
  switch (i.op) {
    case Op::iadd:
      return set(i, b_.CreateAdd(arg(i, 0), arg(i, 1))), true;
    case Op::isub:
      return set(i, b_.CreateSub(arg(i, 0), arg(i, 1))), true;
    case Op::imul:
      return set(i, b_.CreateMul(arg(i, 0), arg(i, 1))), true;
    case Op::sdiv:
      return set(i, b_.CreateSDiv(arg(i, 0), arg(i, 1))), true;
    case Op::srem:
      return set(i, b_.CreateSRem(arg(i, 0), arg(i, 1))), true;
    case Op::udiv:
      return set(i, b_.CreateUDiv(arg(i, 0), arg(i, 1))), true;
    case Op::urem:
      return set(i, b_.CreateURem(arg(i, 0), arg(i, 1))), true;
    case Op::umulh:
      return set(i, high_product(arg(i, 0), arg(i, 1))), true;
    case Op::smin:
      return set(i, binary(Intrinsic::smin, arg(i, 0), arg(i, 1))), true;
    case Op::smax:
      return set(i, binary(Intrinsic::smax, arg(i, 0), arg(i, 1))), true;
    case Op::umin:
      return set(i, binary(Intrinsic::umin, arg(i, 0), arg(i, 1))), true;
    case Op::umax:
      return set(i, binary(Intrinsic::umax, arg(i, 0), arg(i, 1))), true;
    case Op::band:
      return set(i, b_.CreateAnd(arg(i, 0), arg(i, 1))), true;
    case Op::bor:
      return set(i, b_.CreateOr(arg(i, 0), arg(i, 1))), true;
    case Op::bxor:
      return set(i, b_.CreateXor(arg(i, 0), arg(i, 1))), true;
    case Op::shl:
      return set(i, b_.CreateShl(arg(i, 0), arg(i, 1))), true;
    case Op::lshr:
      return set(i, b_.CreateLShr(arg(i, 0), arg(i, 1))), true;
    case Op::ashr:
      return set(i, b_.CreateAShr(arg(i, 0), arg(i, 1))), true;
    case Op::ctlz:
      return set(i, binary(Intrinsic::ctlz, arg(i, 0), b_.getFalse())), true;
    default:
      return false;
  }
}

namespace {

CmpInst::Predicate predicate(kir::Pred p) {
  using kir::Pred;
  switch (p) {
    case Pred::eq:
      return CmpInst::ICMP_EQ;
    case Pred::ne:
      return CmpInst::ICMP_NE;
    case Pred::slt:
      return CmpInst::ICMP_SLT;
    case Pred::sle:
      return CmpInst::ICMP_SLE;
    case Pred::sgt:
      return CmpInst::ICMP_SGT;
    case Pred::sge:
      return CmpInst::ICMP_SGE;
    case Pred::ult:
      return CmpInst::ICMP_ULT;
    case Pred::ule:
      return CmpInst::ICMP_ULE;
    case Pred::ugt:
      return CmpInst::ICMP_UGT;
    case Pred::uge:
      return CmpInst::ICMP_UGE;
    case Pred::oeq:
      return CmpInst::FCMP_OEQ;
    case Pred::one:
      return CmpInst::FCMP_ONE;
    case Pred::olt:
      return CmpInst::FCMP_OLT;
    case Pred::ole:
      return CmpInst::FCMP_OLE;
    case Pred::ogt:
      return CmpInst::FCMP_OGT;
    case Pred::oge:
      return CmpInst::FCMP_OGE;
    case Pred::ord:
      return CmpInst::FCMP_ORD;
    case Pred::uno:
      return CmpInst::FCMP_UNO;
    case Pred::une:
      return CmpInst::FCMP_UNE;
    case Pred::ueq:
      return CmpInst::FCMP_UEQ;
    case Pred::fult:
      return CmpInst::FCMP_ULT;
    case Pred::fule:
      return CmpInst::FCMP_ULE;
    case Pred::fugt:
      return CmpInst::FCMP_UGT;
    case Pred::fuge:
      return CmpInst::FCMP_UGE;
  }
  return CmpInst::BAD_ICMP_PREDICATE;
}

}  // namespace

bool Emitter::emit_compare(const kir::Inst& i) {
  switch (i.op) {
    case Op::constant: {
      const kir::Type t = i.type;
      const llvm::APInt bits(static_cast<unsigned>(kir::bit_width(t.elem)), i.imm, false, true);
      llvm::Type* ty = type(t.elem);
      llvm::Constant* c = ty->isFloatingPointTy()
                              ? static_cast<llvm::Constant*>(llvm::ConstantFP::get(
                                    context_, llvm::APFloat(ty->getFltSemantics(), bits)))
                              : llvm::ConstantInt::get(context_, bits);
      if (t.lanes > 1) c = llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(t.lanes), c);
      return set(i, c), true;
    }
    case Op::icmp:
      return set(i, b_.CreateICmp(predicate(i.pred), arg(i, 0), arg(i, 1))), true;
    case Op::fcmp:
      return set(i, b_.CreateFCmp(predicate(i.pred), arg(i, 0), arg(i, 1))), true;
    case Op::select:
      return set(i, b_.CreateSelect(arg(i, 0), arg(i, 1), arg(i, 2))), true;
    default:
      return false;
  }
}

}  // namespace poot::codegen
