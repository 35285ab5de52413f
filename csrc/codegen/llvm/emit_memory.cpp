// Memory: objects become pointers, accesses become loads and stores with the alignment and the
// aliasing that KIR states.
//
// Aliasing is told by scoped metadata: one scope a buffer; an access to buffer i cannot touch
// buffer j when one of them is noalias and the other is written. Private arrays and tables need no
// metadata, LLVM sees their origin.
//
// A masked access of one lane is a branch, since its address may not be touched otherwise.
#include "codegen/llvm/emitter.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/MDBuilder.h"

namespace poot::codegen {

using kir::ObjectKind;
using kir::Op;

namespace {
constexpr int64_t kPrivateLimitBytes = 1 << 20;  // a thread's stack must hold all private arrays
}

void Emitter::declare_objects() {
  int64_t private_bytes = 0;
  objects_.resize(kernel_.objects.size());
  for (size_t o = 0; o < kernel_.objects.size(); ++o) {
    const kir::Object& object = kernel_.objects[o];
    llvm::Type* elem = type(object.elem);
    const int64_t size = object.kind == ObjectKind::Private
                             ? even_odd_.array_size(kir::ObjectId(static_cast<uint32_t>(o)))
                             : object.size;
    auto* array = llvm::ArrayType::get(elem, static_cast<uint64_t>(size));
    switch (object.kind) {
      case ObjectKind::Buffer:
        break;  // the entry's
      case ObjectKind::Private: {
        private_bytes += size * kir::bit_width(object.elem) / 8;
        llvm::AllocaInst* a = b_.CreateAlloca(array);
        a->setAlignment(llvm::Align(features_.isa == Isa::X86 ? 64 : 16));
        objects_[o] = a;
        break;
      }
      case ObjectKind::Workgroup: {
        auto* g =
            new llvm::GlobalVariable(module_, array, false, llvm::GlobalValue::InternalLinkage,
                                     llvm::PoisonValue::get(array), "workgroup." + object.name,
                                     nullptr, llvm::GlobalValue::NotThreadLocal, 3);
        g->setAlignment(llvm::Align(16));
        objects_[o] = g;
        break;
      }
      case ObjectKind::Table: {
        std::vector<llvm::Constant*> words;
        llvm::Type* word = b_.getIntNTy(static_cast<unsigned>(kir::bit_width(object.elem)));
        for (uint64_t bits : object.bits) words.push_back(llvm::ConstantInt::get(word, bits));
        auto* words_type = llvm::ArrayType::get(word, words.size());
        // Global, not constant memory: that one serves a warp one address at a time.
        const unsigned space = features_.isa == Isa::Ptx ? 1 : 0;
        auto* g = new llvm::GlobalVariable(
            module_, words_type, true, llvm::GlobalValue::InternalLinkage,
            llvm::ConstantArray::get(words_type, words), "table." + object.name, nullptr,
            llvm::GlobalValue::NotThreadLocal, space);
        g->setAlignment(llvm::Align(64));
        g->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
        objects_[o] = g;
        break;
      }
    }
  }
  if (private_bytes > kPrivateLimitBytes)
    throw Unsupported("kernel " + kernel_.name, std::to_string(private_bytes) +
                                                    " bytes of private arrays, the limit is " +
                                                    std::to_string(kPrivateLimitBytes));
}

void Emitter::declare_alias_scopes() {
  llvm::MDBuilder md(context_);
  llvm::MDNode* domain = md.createAnonymousAliasScopeDomain("buffers");
  const auto& objects = kernel_.objects;
  std::vector<llvm::Metadata*> scopes(objects.size(), nullptr);
  for (size_t o = 0; o < objects.size(); ++o)
    if (objects[o].kind == ObjectKind::Buffer)
      scopes[o] = md.createAnonymousAliasScope(domain, objects[o].name);
  scope_of_.assign(objects.size(), nullptr);
  disjoint_from_.assign(objects.size(), nullptr);
  for (size_t o = 0; o < objects.size(); ++o) {
    if (!scopes[o]) continue;
    scope_of_[o] = llvm::MDNode::get(context_, {scopes[o]});
    llvm::SmallVector<llvm::Metadata*, 8> apart;
    for (size_t p = 0; p < objects.size(); ++p) {
      if (p == o || !scopes[p]) continue;
      if ((objects[o].noalias && objects[p].writable) ||
          (objects[p].noalias && objects[o].writable))
        apart.push_back(scopes[p]);
    }
    if (!apart.empty()) disjoint_from_[o] = llvm::MDNode::get(context_, apart);
  }
}

void Emitter::annotate(Value* access, kir::ObjectId o) const {
  auto* inst = llvm::dyn_cast<llvm::Instruction>(access);
  if (!inst || !scope_of_[o.index]) return;
  inst->setMetadata(llvm::LLVMContext::MD_alias_scope, scope_of_[o.index]);
  if (disjoint_from_[o.index])
    inst->setMetadata(llvm::LLVMContext::MD_noalias, disjoint_from_[o.index]);
}

llvm::Align Emitter::alignment(const kir::Inst& i) const {
  if (i.align) return llvm::Align(i.align);
  const int64_t bytes = kir::bit_width(kernel_.objects[i.object.index].elem) / 8;
  return llvm::Align(static_cast<uint64_t>(bytes));
}

llvm::Value* Emitter::address(kir::ObjectId o, Value* index, bool in_bounds) {
  llvm::Type* elem = type(kernel_.objects[o.index].elem);
  Value* base = objects_[o.index];
  return in_bounds ? b_.CreateInBoundsGEP(elem, base, index) : b_.CreateGEP(elem, base, index);
}

llvm::Value* Emitter::guarded(Value* condition, const std::function<Value*()>& then,
                              Value* otherwise) {
  auto* yes = llvm::BasicBlock::Create(context_, "", function_);
  auto* join = llvm::BasicBlock::Create(context_, "", function_);
  llvm::BasicBlock* from = b_.GetInsertBlock();
  b_.CreateCondBr(condition, yes, join);
  b_.SetInsertPoint(yes);
  Value* v = then();
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
  if (!otherwise) return nullptr;
  llvm::PHINode* phi = b_.CreatePHI(otherwise->getType(), 2);
  phi->addIncoming(v, yes);
  phi->addIncoming(otherwise, from);
  return phi;
}

// LLVM has no cache operators for PTX. A load is of a buffer that nobody writes while the kernel
// runs, so that it has no effect and no order.
llvm::Value* Emitter::load_around_cache(const kir::Inst& i) {
  llvm::Type* word = b_.getInt32Ty();
  auto* words = llvm::StructType::get(context_, {word, word, word, word});
  auto* type_of = llvm::FunctionType::get(words, {b_.getInt64Ty()}, false);
  auto* read = llvm::InlineAsm::get(type_of, "ld.global.cs.nc.v4.b32 {$0, $1, $2, $3}, [$4];",
                                    "=r,=r,=r,=r,l", false);
  Value* at = b_.CreatePtrToInt(address(i.object, arg(i, 0), true), b_.getInt64Ty());
  Value* parts = b_.CreateCall(read, {at});
  Value* all = llvm::PoisonValue::get(llvm::FixedVectorType::get(word, 4));
  for (unsigned w = 0; w < 4; ++w)
    all = b_.CreateInsertElement(all, b_.CreateExtractValue(parts, w), uint64_t{w});
  return b_.CreateBitCast(all, type(i.type));
}

void Emitter::store_around_cache(const kir::Inst& i) {
  llvm::Type* word = b_.getInt32Ty();
  auto* type_of =
      llvm::FunctionType::get(b_.getVoidTy(), {b_.getInt64Ty(), word, word, word, word}, false);
  auto* write = llvm::InlineAsm::get(type_of, "st.global.cs.v4.b32 [$0], {$1, $2, $3, $4};",
                                     "l,r,r,r,r,~{memory}", true);
  Value* all = b_.CreateBitCast(arg(i, 1), llvm::FixedVectorType::get(word, 4));
  std::vector<Value*> args = {
      b_.CreatePtrToInt(address(i.object, arg(i, 0), true), b_.getInt64Ty())};
  for (unsigned w = 0; w < 4; ++w) args.push_back(b_.CreateExtractElement(all, uint64_t{w}));
  b_.CreateCall(write, args);
}

// 16 bytes of a GPU's buffer, in one access.
bool Emitter::goes_around_cache(const kir::Inst& i, kir::Type t) const {
  const kir::Object& object = kernel_.objects[i.object.index];
  return features_.isa == Isa::Ptx && i.nontemporal && i.align == 16 &&
         t.lanes * kir::bit_width(t.elem) == 128 && object.kind == ObjectKind::Buffer &&
         (i.op == Op::store || (!object.writable && object.noalias && !kernel_.dependent));
}

llvm::Value* Emitter::load(const kir::Inst& i) {
  if (goes_around_cache(i, i.type)) return load_around_cache(i);
  Value* v = b_.CreateAlignedLoad(type(i.type), address(i.object, arg(i, 0), true), alignment(i));
  annotate(v, i.object);
  return v;
}

void Emitter::store(const kir::Inst& i) {
  if (goes_around_cache(i, arg_type(i, 1))) return store_around_cache(i);
  Value* v = arg(i, 1);
  auto* s = b_.CreateAlignedStore(v, address(i.object, arg(i, 0), true), alignment(i));
  annotate(s, i.object);
  if (!i.nontemporal || !features_.x86) return;
  nontemporal_ = true;
  s->setMetadata(llvm::LLVMContext::MD_nontemporal,
                 llvm::MDNode::get(context_, {llvm::ConstantAsMetadata::get(b_.getInt32(1))}));
}

llvm::Value* Emitter::load_masked(const kir::Inst& i) {
  const bool gather = i.op == Op::gather;
  Value *index = arg(i, 0), *mask = arg(i, 1), *other = arg(i, 2);
  if (i.type.lanes == 1)
    return guarded(
        mask,
        [&] {
          Value* v =
              b_.CreateAlignedLoad(type(i.type), address(i.object, index, true), alignment(i));
          annotate(v, i.object);
          return v;
        },
        other);
  Value* pointer = address(i.object, index, false);
  Value* v = gather ? b_.CreateMaskedGather(type(i.type), pointer, alignment(i), mask, other)
                    : b_.CreateMaskedLoad(type(i.type), pointer, alignment(i), mask, other);
  annotate(v, i.object);
  return v;
}

void Emitter::store_masked(const kir::Inst& i) {
  Value *index = arg(i, 0), *mask = arg(i, 1), *v = arg(i, 2);
  if (lanes(v) == 1) {
    guarded(
        mask,
        [&]() -> Value* {
          annotate(b_.CreateAlignedStore(v, address(i.object, index, true), alignment(i)),
                   i.object);
          return nullptr;
        },
        nullptr);
    return;
  }
  Value* pointer = address(i.object, index, false);
  annotate(i.op == Op::scatter ? b_.CreateMaskedScatter(v, pointer, alignment(i), mask)
                               : b_.CreateMaskedStore(v, pointer, alignment(i), mask),
           i.object);
}

namespace {

llvm::AtomicRMWInst::BinOp atomic_operation(Op op) {
  using Rmw = llvm::AtomicRMWInst;
  switch (op) {
    case Op::atomic_fadd:
      return Rmw::FAdd;
    case Op::atomic_fmax:
      return Rmw::FMaximum;
    case Op::atomic_fmin:
      return Rmw::FMinimum;
    case Op::atomic_iadd:
      return Rmw::Add;
    case Op::atomic_smax:
      return Rmw::Max;
    case Op::atomic_smin:
      return Rmw::Min;
    case Op::atomic_umax:
      return Rmw::UMax;
    default:
      return Rmw::UMin;
  }
}

}  // namespace

// LLVM expands what the chip has no instruction for into a loop of compare and exchange, and sums
// of f32 too, since the chip's take denormals as zero.
void Emitter::combine_atomically(const kir::Inst& i) {
  const llvm::SyncScope::ID device = context_.getOrInsertSyncScopeID("device");
  const kir::Elem elem = kernel_.objects[i.object.index].elem;
  const auto lane = [&](Value* v, unsigned l) {
    return lanes(v) == 1 ? v : b_.CreateExtractElement(v, uint64_t{l});
  };
  const auto combine = [&](Value* at, Value* v) {
    if (i.op == Op::atomic_fadd && elem == kir::Elem::F32) {
      auto* type_of =
          llvm::FunctionType::get(b_.getVoidTy(), {b_.getInt64Ty(), v->getType()}, false);
      auto* add = llvm::InlineAsm::get(type_of, "red.relaxed.gpu.global.add.f32 [$0], $1;",
                                       "l,f,~{memory}", true);
      b_.CreateCall(add, {b_.CreatePtrToInt(at, b_.getInt64Ty()), v});
      return;
    }
    // f16 and bf16 are held as integers.
    if (elem == kir::Elem::F16) v = b_.CreateBitCast(v, b_.getHalfTy());
    if (elem == kir::Elem::BF16) v = b_.CreateBitCast(v, b_.getBFloatTy());
    b_.CreateAtomicRMW(atomic_operation(i.op), at, v, alignment(i), llvm::AtomicOrdering::Monotonic,
                       device);
  };
  for (unsigned l = 0; l < lanes(arg(i, 2)); ++l)
    guarded(
        lane(arg(i, 1), l),
        [&]() -> Value* {
          combine(address(i.object, lane(arg(i, 0), l), true), lane(arg(i, 2), l));
          return nullptr;
        },
        nullptr);
}

void Emitter::fail_if(Value* condition, uint32_t code) {
  guarded(
      condition,
      [&]() -> Value* {
        b_.CreateAtomicRMW(llvm::AtomicRMWInst::Or, status_, b_.getInt32(code), llvm::Align(4),
                           llvm::AtomicOrdering::Monotonic);
        return nullptr;
      },
      nullptr);
}

bool Emitter::emit_memory(const kir::Inst& i) {
  switch (i.op) {
    case Op::load:
      return set(i, load(i)), true;
    case Op::load_masked:
    case Op::gather:
      return set(i, load_masked(i)), true;
    case Op::store:
      return store(i), true;
    case Op::store_masked:
    case Op::scatter:
      return store_masked(i), true;
    case Op::atomic_fadd:
    case Op::atomic_fmax:
    case Op::atomic_fmin:
    case Op::atomic_iadd:
    case Op::atomic_smax:
    case Op::atomic_smin:
    case Op::atomic_umax:
    case Op::atomic_umin:
      return combine_atomically(i), true;
    case Op::prefetch:
    case Op::prefetch_far: {
      const uint32_t locality = i.op == Op::prefetch ? 3 : 2;
      b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {objects_[i.object.index]->getType()},
                         {address(i.object, arg(i, 0), false), b_.getInt32(0),
                          b_.getInt32(locality), b_.getInt32(1)});
      return true;
    }
    case Op::meta:
      return set(i, meta_.at(i.imm)), true;
    case Op::block_id:
      return set(i, block_ids_[i.imm]), true;
    case Op::grid_size:
      return set(i, grid_[i.imm]), true;
    case Op::fail:
      return fail_if(arg(i, 0), static_cast<uint32_t>(i.imm)), true;
    default:
      return false;
  }
}

}  // namespace poot::codegen
