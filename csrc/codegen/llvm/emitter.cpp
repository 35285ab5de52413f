// Types, values and the start of emission; the families are in emit_*.cpp.
#include "codegen/llvm/emitter.h"

namespace poot::codegen {

Emitter::Emitter(llvm::Module& module, const kir::Kernel& kernel, const TargetFeatures& features)
    : module_(module),
      kernel_(kernel),
      features_(features),
      context_(module.getContext()),
      b_(context_),
      // From two registers of f32 on.
      even_odd_(kernel, features.avx2 ? features.vector_bits / 16 : 0),
      values_(kernel.types.size()),
      rounded_(kernel.types.size()),
      narrowable_(kernel.types.size()) {
  if (features.x86) note_nans();
}

void Emitter::emit() {
  if (features_.isa == Isa::X86)
    emit_x86_entry();
  else
    emit_ptx_entry();
}

llvm::Type* Emitter::type(kir::Elem e) {
  switch (e) {
    case kir::Elem::I1:
      return b_.getInt1Ty();
    case kir::Elem::I8:
      return b_.getInt8Ty();
    case kir::Elem::I16:
    case kir::Elem::F16:
    case kir::Elem::BF16:
      return b_.getInt16Ty();
    case kir::Elem::I32:
      return b_.getInt32Ty();
    case kir::Elem::I64:
      return b_.getInt64Ty();
    case kir::Elem::F32:
      return b_.getFloatTy();
    case kir::Elem::F64:
      return b_.getDoubleTy();
  }
  throw InternalError("an element type outside the table");
}

llvm::Type* Emitter::type(kir::Type t) {
  return with_lanes(type(t.elem), t.lanes);
}

llvm::Type* Emitter::with_lanes(llvm::Type* scalar, unsigned n) const {
  return n == 1 ? scalar : llvm::FixedVectorType::get(scalar, n);
}

unsigned Emitter::lanes(Value* v) {
  auto* t = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return t ? t->getNumElements() : 1;
}

llvm::Type* Emitter::int_of(Value* v) {
  return with_lanes(b_.getIntNTy(v->getType()->getScalarSizeInBits()), lanes(v));
}

llvm::Value* Emitter::arg(const kir::Inst& i, size_t n) {
  Value* v = values_[i.args[n].index];
  return even_odd_.holds(i.args[n]) && !even_odd_.by_lane(i) ? in_order(v) : v;
}

void Emitter::set(const kir::Inst& i, Value* v) {
  const kir::ValueId result = i.results.at(0);
  values_[result.index] = even_odd_.holds(result) && !even_odd_.by_lane(i) ? evens_first(v) : v;
}

void Emitter::unsupported(const kir::Inst& i, const std::string& missing) const {
  throw Unsupported(
      "instruction " + std::string(kir::op_info(i.op).name) + " of kernel " + kernel_.name,
      "needs " + missing);
}

}  // namespace poot::codegen
