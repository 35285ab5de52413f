// Conversions of bf16 vectors that are held even lanes first while they are f32 (even_odd.h).
#include "codegen/llvm/emitter.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace poot::codegen {

using kir::Elem;
using kir::Op;
namespace Intrinsic = llvm::Intrinsic;

llvm::Value* Emitter::evens_first(Value* v) {
  const unsigned n = lanes(v);
  llvm::SmallVector<int, 64> from;
  for (unsigned l = 0; l < n; ++l) from.push_back(int(l < n / 2 ? 2 * l : 2 * l - n + 1));
  return b_.CreateShuffleVector(v, from);
}

llvm::Value* Emitter::in_order(Value* v) {
  const unsigned n = lanes(v);
  llvm::SmallVector<int, 64> from;
  for (unsigned l = 0; l < n; ++l) from.push_back(int(l / 2 + l % 2 * (n / 2)));
  return b_.CreateShuffleVector(v, from);
}

// fpext and fptrunc between bf16 and halves of f32; false for any other.
bool Emitter::convert_halves(const kir::Inst& i) {
  const bool widens = i.op == Op::fpext && arg_type(i, 0).elem == Elem::BF16;
  const bool narrows = i.op == Op::fptrunc && i.type.elem == Elem::BF16;
  if (!(widens && even_odd_.holds(i.results[0])) && !(narrows && even_odd_.holds(i.args[0])))
    return false;
  const unsigned n = i.type.lanes;
  llvm::SmallVector<int, 64> all;
  for (unsigned l = 0; l < n; ++l) all.push_back(int(l));
  llvm::Type* words = with_lanes(b_.getInt32Ty(), n / 2);
  llvm::Type* floats = with_lanes(b_.getFloatTy(), n);
  Value* upper = int_splat(words, 0xffff0000);
  const auto both = [&](Value* even, Value* odd) {
    return b_.CreateBitCast(b_.CreateShuffleVector(even, odd, all), floats);
  };
  if (widens) {
    Value*& known = rounded_[i.args[0].index];
    Value* v = known;
    if (!v) {
      Value* pairs = b_.CreateBitCast(arg(i, 0), words);
      v = both(b_.CreateShl(pairs, int_splat(words, 16)), b_.CreateAnd(pairs, upper));
    }
    values_[i.results[0].index] = v;
    return true;
  }
  Value* raised = raised_to_bf16(values_[i.args[0].index], !narrowable_[i.args[0].index]);
  Value *even = lower_half(raised, false), *odd = lower_half(raised, true);
  rounded_[i.results[0].index] = both(b_.CreateAnd(even, upper), b_.CreateAnd(odd, upper));
  Value* low = b_.CreateLShr(even, int_splat(words, 16));
  values_[i.results[0].index] = b_.CreateBitCast(low_or_upper(low, odd), type(i.type));
  return true;
}

// low | odd & 0xffff0000, in one instruction: LLVM makes a shuffle of its own of this.
llvm::Value* Emitter::low_or_upper(Value* low, Value* odd) {
  Value* upper = int_splat(low->getType(), 0xffff0000);
  if (!features_.avx512 || lanes(low) % 16 != 0) return b_.CreateOr(low, b_.CreateAnd(odd, upper));
  constexpr int kOrAnd = 0xf8;  // a | b & c
  return by_pieces({low, odd}, 16, [&](llvm::ArrayRef<Value*> p) -> Value* {
    return b_.CreateIntrinsic(
        Intrinsic::x86_avx512_pternlog_d_512, {},
        {p[0], p[1], int_splat(p[0]->getType(), 0xffff0000), b_.getInt32(kOrAnd)});
  });
}

}  // namespace poot::codegen
