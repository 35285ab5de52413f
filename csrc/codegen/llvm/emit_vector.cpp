// Lanes: broadcast, pick, reduce, look up.
//
// A float reduction is defined as halving (lane i with lane i + n/2), so it is written out as
// shuffles and never as LLVM's reduction intrinsic, whose order is the target's. Integers and masks
// may use the intrinsic: their order cannot show.
//
// A table of at most 32 f32 or i32 entries, or 16 of f64, is kept in registers and read by a
// permute; a larger one, or another element type, by loads.
#include "codegen/llvm/emitter.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace poot::codegen {

using kir::Op;
namespace Intrinsic = llvm::Intrinsic;

llvm::Value* Emitter::by_pieces(llvm::ArrayRef<Value*> args, unsigned piece,
                                const std::function<Value*(llvm::ArrayRef<Value*>)>& f) {
  const unsigned n = lanes(args[0]);
  llvm::SmallVector<Value*, 8> done;
  for (unsigned at = 0; at < n; at += piece) {
    Values cut;
    for (Value* v : args) {
      if (n == 1) {
        auto* zero = llvm::Constant::getNullValue(llvm::FixedVectorType::get(v->getType(), piece));
        cut.push_back(b_.CreateInsertElement(zero, v, uint64_t{0}));
      } else if (n == piece) {
        cut.push_back(v);
      } else {
        llvm::SmallVector<int, 64> mask(piece);
        for (unsigned l = 0; l < piece; ++l) mask[l] = at + l < n ? int(at + l) : 0;
        cut.push_back(b_.CreateShuffleVector(v, mask));
      }
    }
    done.push_back(f(cut));
  }
  if (n == 1) return b_.CreateExtractElement(done[0], uint64_t{0});
  Value* all = done.size() == 1 ? done[0] : llvm::concatenateVectors(b_, done);
  if (lanes(all) == n) return all;
  llvm::SmallVector<int, 64> mask(n);
  for (unsigned l = 0; l < n; ++l) mask[l] = int(l);
  return b_.CreateShuffleVector(all, mask);
}

llvm::Value* Emitter::lower_half(Value* v, bool upper) {
  const unsigned half = lanes(v) / 2;
  if (half == 1) return b_.CreateExtractElement(v, uint64_t{upper});
  llvm::SmallVector<int, 32> mask(half);
  for (unsigned l = 0; l < half; ++l) mask[l] = int(l + (upper ? half : 0));
  return b_.CreateShuffleVector(v, mask);
}

bool Emitter::emit_reduce(const kir::Inst& i) {
  std::function<Value*(Value*, Value*)> step;
  switch (i.op) {
    case Op::reduce_fadd:
      step = [&](Value* a, Value* c) { return b_.CreateFAdd(a, c); };
      break;
    case Op::reduce_fmul:
      step = [&](Value* a, Value* c) { return b_.CreateFMul(a, c); };
      break;
    case Op::reduce_fmax:
      step = [&](Value* a, Value* c) {
        Value* keep = b_.CreateOr(b_.CreateFCmpOGT(a, c), b_.CreateFCmpUNO(a, a));
        return b_.CreateSelect(keep, a, c);
      };
      break;
    case Op::reduce_fmin:
      step = [&](Value* a, Value* c) {
        Value* keep = b_.CreateOr(b_.CreateFCmpOLT(a, c), b_.CreateFCmpUNO(a, a));
        return b_.CreateSelect(keep, a, c);
      };
      break;
    case Op::reduce_iadd:
      return set(i, b_.CreateAddReduce(arg(i, 0))), true;
    case Op::reduce_imul:
      return set(i, b_.CreateMulReduce(arg(i, 0))), true;
    case Op::reduce_smax:
      return set(i, b_.CreateIntMaxReduce(arg(i, 0), true)), true;
    case Op::reduce_smin:
      return set(i, b_.CreateIntMinReduce(arg(i, 0), true)), true;
    case Op::reduce_or:
      return set(i, b_.CreateOrReduce(arg(i, 0))), true;
    case Op::reduce_and:
      return set(i, b_.CreateAndReduce(arg(i, 0))), true;
    default:
      return false;
  }
  Value* v = arg(i, 0);
  while (lanes(v) > 1) v = step(lower_half(v, false), lower_half(v, true));
  set(i, v);
  return true;
}

llvm::Value* Emitter::permute_f64_table(const kir::Object& table, Value* index) {
  if (!features_.avx512 || table.size > 16) return nullptr;
  auto part = [&](unsigned from) {
    llvm::SmallVector<double, 8> c;
    for (unsigned l = from; l < from + 8; ++l)
      c.push_back(__builtin_bit_cast(double, l < table.bits.size() ? table.bits[l] : 0));
    return llvm::ConstantDataVector::get(context_, c);
  };
  Value* wide = b_.CreateZExtOrTrunc(index, with_lanes(b_.getInt64Ty(), lanes(index)));
  return by_pieces({wide}, 8, [&](llvm::ArrayRef<Value*> p) -> Value* {
    Value* low = part(0);
    if (table.size <= 8)
      return b_.CreateIntrinsic(low->getType(), Intrinsic::x86_avx512_permvar_df_512, {low, p[0]});
    return b_.CreateIntrinsic(low->getType(), Intrinsic::x86_avx512_vpermi2var_pd_512,
                              {low, p[0], part(8)});
  });
}

// A table in registers; null if it does not fit.
llvm::Value* Emitter::permute_table(const kir::Object& table, Value* index) {
  const unsigned n = lanes(index);
  if (features_.isa != Isa::X86 || n == 1) return nullptr;
  if (table.elem == kir::Elem::F64) return permute_f64_table(table, index);
  if (kir::bit_width(table.elem) != 32) return nullptr;
  const unsigned piece = features_.avx512 ? 16 : 8;
  if (!features_.avx2 || table.size > piece * (features_.avx512 ? 2 : 1)) return nullptr;
  llvm::Type* elem = type(table.elem);
  const bool is_float = elem->isFloatTy();
  auto part = [&](unsigned from) {
    llvm::SmallVector<llvm::Constant*, 16> c;
    for (unsigned l = 0; l < piece; ++l) {
      const uint64_t bits = from + l < table.bits.size() ? table.bits[from + l] : 0;
      llvm::Constant* word = b_.getInt32(static_cast<uint32_t>(bits));
      c.push_back(is_float ? llvm::ConstantExpr::getBitCast(word, elem) : word);
    }
    return llvm::ConstantVector::get(c);
  };
  llvm::Type* i32 = b_.getInt32Ty();
  Value* index32 = b_.CreateZExtOrTrunc(index, with_lanes(i32, n));
  return by_pieces({index32}, piece, [&](llvm::ArrayRef<Value*> p) -> Value* {
    Value* low = part(0);
    if (!features_.avx512) {
      const auto id = is_float ? Intrinsic::x86_avx2_permps : Intrinsic::x86_avx2_permd;
      return b_.CreateIntrinsic(low->getType(), id, {low, p[0]});
    }
    if (table.size <= 16) {
      const auto id =
          is_float ? Intrinsic::x86_avx512_permvar_sf_512 : Intrinsic::x86_avx512_permvar_si_512;
      return b_.CreateIntrinsic(low->getType(), id, {low, p[0]});
    }
    const auto id =
        is_float ? Intrinsic::x86_avx512_vpermi2var_ps_512 : Intrinsic::x86_avx512_vpermi2var_d_512;
    return b_.CreateIntrinsic(low->getType(), id, {low, p[0], part(16)});
  });
}

llvm::Value* Emitter::lookup(const kir::Inst& i) {
  const kir::Object& table = kernel_.objects[i.object.index];
  Value* index = arg(i, 0);
  if (Value* v = permute_table(table, index)) return v;
  const unsigned n = lanes(index);
  llvm::Type* elem = type(table.elem);
  const unsigned bytes = static_cast<unsigned>(kir::bit_width(table.elem) / 8);
  Value* wide = b_.CreateZExt(index, with_lanes(b_.getInt64Ty(), n));
  if (n > 1 && features_.isa == Isa::X86 && features_.avx2 && bytes >= 4) {
    Value* pointers = b_.CreateGEP(elem, objects_[i.object.index], wide);
    return b_.CreateMaskedGather(type(i.type), pointers, llvm::Align(bytes));
  }
  auto one = [&](Value* at) {
    return b_.CreateAlignedLoad(elem, address(i.object, at, true), llvm::Align(bytes));
  };
  if (n == 1) return one(wide);
  Value* all = llvm::PoisonValue::get(type(i.type));
  for (unsigned l = 0; l < n; ++l)
    all = b_.CreateInsertElement(all, one(b_.CreateExtractElement(wide, uint64_t{l})), uint64_t{l});
  return all;
}

bool Emitter::emit_vector(const kir::Inst& i) {
  switch (i.op) {
    case Op::splat:
      return set(i, b_.CreateVectorSplat(i.type.lanes, arg(i, 0))), true;
    case Op::lane_ids: {
      llvm::SmallVector<llvm::Constant*, 64> ids;
      for (unsigned l = 0; l < i.type.lanes; ++l)
        ids.push_back(llvm::ConstantInt::get(type(i.type.elem), l));
      return set(i, i.type.lanes == 1 ? ids[0] : llvm::ConstantVector::get(ids)), true;
    }
    case Op::extract:
      return set(i, b_.CreateExtractElement(arg(i, 0), i.imm)), true;
    case Op::insert:
      return set(i, b_.CreateInsertElement(arg(i, 0), arg(i, 1), i.imm)), true;
    case Op::shuffle: {
      Value* v = b_.CreateShuffleVector(arg(i, 0), arg(i, 1), i.mask);
      return set(i, i.type.lanes == 1 ? b_.CreateExtractElement(v, uint64_t{0}) : v), true;
    }
    case Op::lookup:
      return set(i, lookup(i)), true;
    default:
      return emit_reduce(i);
  }
}

}  // namespace poot::codegen
