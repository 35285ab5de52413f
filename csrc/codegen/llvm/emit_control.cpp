// Structured control flow, and the dispatch over the families.
//
// A loop is emitted already rotated (guard, body, latch test), the form that LLVM's loop passes
// want, so that no rotation pass is needed:
//
//   before: br (lo < hi), body, after
//   body:   i = phi [lo], [i + step]; … ; br (i + step < hi), body, after
//   after:  results = phi [init], [yielded]
#include "codegen/llvm/emitter.h"

namespace poot::codegen {

using kir::Op;

void Emitter::emit_inst(const kir::Inst& i) {
  if (emit_memory(i) || emit_float(i) || emit_int(i) || emit_compare(i) || emit_convert(i) ||
      emit_vector(i) || emit_control(i) || emit_scale(i) || emit_tiles(i) || emit_workgroup(i))
    return;
  unsupported(i, "an emitter");
}

void Emitter::emit_block(const kir::Block& block) {
  for (const kir::Inst& i : block.insts)
    if (i.op != Op::yield) emit_inst(i);
}

Emitter::Values Emitter::emit_nested(const kir::Block& block) {
  emit_block(block);
  Values yielded;
  if (!block.insts.empty() && block.insts.back().op == Op::yield)
    for (kir::ValueId v : block.insts.back().args) yielded.push_back(values_[v.index]);
  return yielded;
}

void Emitter::emit_for(const kir::Inst& i) {
  const kir::Block& body = i.blocks.at(0);
  Value *lo = arg(i, 0), *hi = arg(i, 1), *step = arg(i, 2);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(context_, "", function_);
  auto* after = llvm::BasicBlock::Create(context_, "", function_);
  b_.CreateCondBr(b_.CreateICmpSLT(lo, hi), loop, after);

  b_.SetInsertPoint(loop);
  llvm::PHINode* index = b_.CreatePHI(lo->getType(), 2);
  index->addIncoming(lo, before);
  values_[body.params.at(0).index] = index;
  llvm::SmallVector<llvm::PHINode*, 4> carried;
  for (size_t c = 1; c < body.params.size(); ++c) {
    Value* init = arg(i, c + 2);
    carried.push_back(b_.CreatePHI(init->getType(), 2));
    carried.back()->addIncoming(init, before);
    values_[body.params[c].index] = carried.back();
  }
  const Values next = emit_nested(body);
  Value* next_index = b_.CreateAdd(index, step);
  llvm::BasicBlock* latch = b_.GetInsertBlock();
  index->addIncoming(next_index, latch);
  for (size_t c = 0; c < carried.size(); ++c) carried[c]->addIncoming(next[c], latch);
  b_.CreateCondBr(b_.CreateICmpSLT(next_index, hi), loop, after);

  b_.SetInsertPoint(after);
  for (size_t c = 0; c < carried.size(); ++c) {
    llvm::PHINode* result = b_.CreatePHI(carried[c]->getType(), 2);
    result->addIncoming(arg(i, c + 3), before);
    result->addIncoming(next[c], latch);
    values_[i.results[c].index] = result;
  }
}

void Emitter::emit_if(const kir::Inst& i) {
  auto* yes = llvm::BasicBlock::Create(context_, "", function_);
  auto* no = llvm::BasicBlock::Create(context_, "", function_);
  auto* join = llvm::BasicBlock::Create(context_, "", function_);
  b_.CreateCondBr(arg(i, 0), yes, no);
  Values yielded[2];
  llvm::BasicBlock* from[2];
  for (int side = 0; side < 2; ++side) {
    b_.SetInsertPoint(side == 0 ? yes : no);
    yielded[side] = emit_nested(i.blocks.at(static_cast<size_t>(side)));
    from[side] = b_.GetInsertBlock();
    b_.CreateBr(join);
  }
  b_.SetInsertPoint(join);
  for (size_t r = 0; r < i.results.size(); ++r) {
    llvm::PHINode* phi = b_.CreatePHI(yielded[0][r]->getType(), 2);
    for (int side = 0; side < 2; ++side) phi->addIncoming(yielded[side][r], from[side]);
    values_[i.results[r].index] = phi;
  }
}

bool Emitter::emit_control(const kir::Inst& i) {
  switch (i.op) {
    case Op::for_:
      return emit_for(i), true;
    case Op::if_:
      return emit_if(i), true;
    default:
      return false;
  }
}

}  // namespace poot::codegen
