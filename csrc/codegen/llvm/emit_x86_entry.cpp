// The CPU entry of a kernel (program/kernel_abi.h): a loop over the blocks [first, last) of the
// flattened grid with the kernel's body inside.
//
//   void poot_entry(const Args* args, u32 first, u32 last)
//
// The coordinates of the first block come from two divisions; after that they count up like an
// odometer, so a block costs no division. Non-temporal stores are fenced once at the end: another
// thread may read them after the host's barrier.
#include <cstddef>

#include "codegen/llvm/emitter.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "program/kernel_abi.h"

namespace poot::codegen {

void Emitter::emit_x86_entry() {
  llvm::Type* ptr = b_.getPtrTy();
  auto* ft =
      llvm::FunctionType::get(b_.getVoidTy(), {ptr, b_.getInt32Ty(), b_.getInt32Ty()}, false);
  function_ = llvm::Function::Create(ft, llvm::GlobalValue::ExternalLinkage, kEntryName, module_);
  function_->setVisibility(llvm::GlobalValue::HiddenVisibility);
  function_->setDSOLocal(true);
  function_->setDoesNotThrow();
  function_->addFnAttr("no-builtins");
  function_->addFnAttr("prefer-vector-width", std::to_string(features_.vector_bits));
  Value *args = function_->getArg(0), *first = function_->getArg(1), *last = function_->getArg(2);

  b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function_));
  declare_objects();
  declare_alias_scopes();
  auto invariant = [&](llvm::Type* t, Value* p, unsigned align) {
    llvm::LoadInst* l = b_.CreateAlignedLoad(t, p, llvm::Align(align));
    l->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
    return l;
  };
  auto field = [&](llvm::Type* t, size_t offset, unsigned align) {
    return invariant(t, b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), args, offset), align);
  };
  Value* buffers = field(ptr, offsetof(program::Args, buffers), 8);
  Value* meta = field(ptr, offsetof(program::Args, meta), 8);
  status_ = field(ptr, offsetof(program::Args, status), 8);
  Value* grid32[3];
  for (size_t a = 0; a < 3; ++a) {
    grid32[a] = field(b_.getInt32Ty(), offsetof(program::Args, grid) + 4 * a, 4);
    grid_[a] = b_.CreateZExt(grid32[a], b_.getInt64Ty());
  }
  uint64_t slot = 0;
  for (size_t o = 0; o < kernel_.objects.size(); ++o)
    if (kernel_.objects[o].kind == kir::ObjectKind::Buffer)
      objects_[o] = invariant(ptr, b_.CreateConstInBoundsGEP1_64(ptr, buffers, slot++), 8);
  for (uint32_t w = 0; w < kernel_.meta_words; ++w)
    meta_.push_back(
        invariant(b_.getInt64Ty(), b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), meta, w), 8));

  auto* start = llvm::BasicBlock::Create(context_, "start", function_);
  auto* block = llvm::BasicBlock::Create(context_, "block", function_);
  auto* done = llvm::BasicBlock::Create(context_, "done", function_);
  b_.CreateCondBr(b_.CreateICmpULT(first, last), start, done);
  b_.SetInsertPoint(start);
  Value* row = b_.CreateUDiv(first, grid32[0]);
  Value* init[4] = {first, b_.CreateURem(first, grid32[0]), b_.CreateURem(row, grid32[1]),
                    b_.CreateUDiv(row, grid32[1])};
  b_.CreateBr(block);

  b_.SetInsertPoint(block);
  llvm::PHINode* phi[4];  // flat index, x, y, z
  for (int p = 0; p < 4; ++p) {
    phi[p] = b_.CreatePHI(b_.getInt32Ty(), 2);
    phi[p]->addIncoming(init[p], start);
  }
  for (int a = 0; a < 3; ++a) block_ids_[a] = b_.CreateZExt(phi[a + 1], b_.getInt64Ty());
  emit_block(kernel_.body);
  Value* zero = b_.getInt32(0);
  Value* next[4];
  next[0] = b_.CreateAdd(phi[0], b_.getInt32(1));
  Value* x = b_.CreateAdd(phi[1], b_.getInt32(1));
  Value* wrap_x = b_.CreateICmpEQ(x, grid32[0]);
  next[1] = b_.CreateSelect(wrap_x, zero, x);
  Value* y = b_.CreateAdd(phi[2], b_.CreateZExt(wrap_x, b_.getInt32Ty()));
  Value* wrap_y = b_.CreateICmpEQ(y, grid32[1]);
  next[2] = b_.CreateSelect(wrap_y, zero, y);
  next[3] = b_.CreateAdd(phi[3], b_.CreateZExt(wrap_y, b_.getInt32Ty()));
  for (int p = 0; p < 4; ++p) phi[p]->addIncoming(next[p], b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpULT(next[0], last), block, done);

  b_.SetInsertPoint(done);
  if (nontemporal_) b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {});
  b_.CreateRetVoid();
}

}  // namespace poot::codegen
