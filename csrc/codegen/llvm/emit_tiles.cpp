// The matrix unit's instructions, by the intrinsics that name tiles by number: nothing here is
// allocated or spilled by LLVM, which sees them as calls that may read and write any memory.
#include "codegen/llvm/emitter.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace poot::codegen {

using kir::Op;
namespace Intrinsic = llvm::Intrinsic;

// The 64 bytes that ldtilecfg reads: the palette, the bytes a row of eight tiles (u16, from byte
// 16), their rows (u8, from byte 48).
void Emitter::tile_rows(Value* rows) {
  constexpr uint64_t kFirstFive = 0x0000000101010101, kLastThree = 0x1010100000000000;
  if (!tile_shapes_) {
    llvm::IRBuilder<> entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
    llvm::AllocaInst* a = entry.CreateAlloca(llvm::ArrayType::get(b_.getInt64Ty(), 8));
    a->setAlignment(llvm::Align(64));
    tile_shapes_ = a;
  }
  const auto set = [&](unsigned word, Value* v) {
    Value* at = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), tile_shapes_, word);
    b_.CreateAlignedStore(v, at, llvm::Align(8));
  };
  set(0, b_.getInt64(1));
  for (const unsigned word : {1u, 4u, 5u, 7u}) set(word, b_.getInt64(0));
  for (const unsigned word : {2u, 3u}) set(word, b_.getInt64(0x0040004000400040));
  set(6, b_.CreateOr(b_.CreateMul(rows, b_.getInt64(kFirstFive)), b_.getInt64(kLastThree)));
  b_.CreateIntrinsic(Intrinsic::x86_ldtilecfg, {}, {tile_shapes_});
}

bool Emitter::emit_tiles(const kir::Inst& i) {
  if (i.op < Op::tile_rows || i.op > Op::tile_release) return false;
  if (!features_.amx_bf16) unsupported(i, "AMX");
  const auto tile = [&](uint64_t number) { return b_.getInt8(static_cast<uint8_t>(number)); };
  const auto access = [&](Intrinsic::ID id) {
    const int64_t bytes = kir::bit_width(kernel_.objects[i.object.index].elem) / 8;
    Value* stride = b_.CreateMul(arg(i, 1), b_.getInt64(static_cast<uint64_t>(bytes)));
    b_.CreateIntrinsic(id, {}, {tile(i.imm), address(i.object, arg(i, 0), true), stride});
  };
  switch (i.op) {
    case Op::tile_rows:
      tile_rows(arg(i, 0));
      break;
    case Op::tile_zero:
      b_.CreateIntrinsic(Intrinsic::x86_tilezero, {}, {tile(i.imm)});
      break;
    case Op::tile_load:
      access(Intrinsic::x86_tileloadd64);
      break;
    case Op::tile_store:
      access(Intrinsic::x86_tilestored64);
      break;
    case Op::tile_dot: {
      const auto named = [&](size_t n) { return tile(static_cast<uint64_t>(i.mask[n])); };
      b_.CreateIntrinsic(Intrinsic::x86_tdpbf16ps, {}, {named(0), named(1), named(2)});
      break;
    }
    default:
      b_.CreateIntrinsic(Intrinsic::x86_tilerelease, {});
  }
  return true;
}

}  // namespace poot::codegen
