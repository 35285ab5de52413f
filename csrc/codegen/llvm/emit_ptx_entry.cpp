// The GPU entry of a kernel and what only a GPU has: threads, barriers, exchange within a warp.
//
//   .entry poot_NAME(buffer pointers in order, metadata words (u64), status pointer)
//
// NAME is the kernel's, since profilers show it.
//
// One workgroup, or a cluster of them, runs one block. A buffer that nobody writes is a noalias
// readonly parameter, which lets LLVM use the non-coherent load path. Not so in a dependent kernel:
// kernels before it may write while it has begun. It lets the next one begin, then waits for what
// is before it to end and be visible, before it touches memory; so whatever is before that has
// ended too.
#include <cctype>

#include "codegen/llvm/emitter.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace poot::codegen {

using kir::Op;
namespace Intrinsic = llvm::Intrinsic;

namespace {

constexpr Intrinsic::ID kClusterId[3] = {Intrinsic::nvvm_read_ptx_sreg_clusterid_x,
                                         Intrinsic::nvvm_read_ptx_sreg_clusterid_y,
                                         Intrinsic::nvvm_read_ptx_sreg_clusterid_z};
constexpr Intrinsic::ID kClusterCount[3] = {Intrinsic::nvvm_read_ptx_sreg_nclusterid_x,
                                            Intrinsic::nvvm_read_ptx_sreg_nclusterid_y,
                                            Intrinsic::nvvm_read_ptx_sreg_nclusterid_z};

std::string entry_name(const std::string& kernel) {
  std::string name = "poot_" + kernel;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

}  // namespace

void Emitter::emit_ptx_entry() {
  llvm::Type* global = b_.getPtrTy(1);
  std::vector<llvm::Type*> params;
  std::vector<size_t> buffers;
  for (size_t o = 0; o < kernel_.objects.size(); ++o)
    if (kernel_.objects[o].kind == kir::ObjectKind::Buffer) buffers.push_back(o);
  params.assign(buffers.size(), global);
  params.insert(params.end(), kernel_.meta_words, b_.getInt64Ty());
  params.push_back(global);
  function_ =
      llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), params, false),
                             llvm::GlobalValue::ExternalLinkage, entry_name(kernel_.name), module_);
  function_->setCallingConv(llvm::CallingConv::PTX_Kernel);
  function_->setDoesNotThrow();
  function_->addFnAttr("nvvm.reqntid", std::to_string(kernel_.threads));
  const bool cluster = kernel_.cluster > 1;
  if (cluster) function_->addFnAttr("nvvm.cluster_dim", std::to_string(kernel_.cluster) + ",1,1");

  b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function_));
  declare_objects();
  declare_alias_scopes();
  for (size_t n = 0; n < buffers.size(); ++n) {
    const kir::Object& object = kernel_.objects[buffers[n]];
    llvm::Argument* a = function_->getArg(static_cast<unsigned>(n));
    a->setName("b" + std::to_string(n));
    if (!object.writable && object.noalias && !kernel_.dependent) {
      a->addAttr(llvm::Attribute::NoAlias);
      a->addAttr(llvm::Attribute::ReadOnly);
    }
    objects_[buffers[n]] = a;
  }
  for (uint32_t w = 0; w < kernel_.meta_words; ++w)
    meta_.push_back(function_->getArg(static_cast<unsigned>(buffers.size()) + w));
  status_ = function_->getArg(static_cast<unsigned>(params.size()) - 1);
  if (kernel_.dependent) order_launches();
  auto special = [&](Intrinsic::ID id) {
    return b_.CreateZExt(b_.CreateIntrinsic(id, {}), b_.getInt64Ty());
  };
  const Intrinsic::ID block[3] = {Intrinsic::nvvm_read_ptx_sreg_ctaid_x,
                                  Intrinsic::nvvm_read_ptx_sreg_ctaid_y,
                                  Intrinsic::nvvm_read_ptx_sreg_ctaid_z};
  const Intrinsic::ID count[3] = {Intrinsic::nvvm_read_ptx_sreg_nctaid_x,
                                  Intrinsic::nvvm_read_ptx_sreg_nctaid_y,
                                  Intrinsic::nvvm_read_ptx_sreg_nctaid_z};
  for (int a = 0; a < 3; ++a) {
    block_ids_[a] = special(cluster ? kClusterId[a] : block[a]);
    grid_[a] = special(cluster ? kClusterCount[a] : count[a]);
  }
  emit_block(kernel_.body);
  b_.CreateRetVoid();
}

// Instructions that LLVM has intrinsics for, but without the effect on memory.
void Emitter::order_launches() {
  llvm::FunctionType* plain = llvm::FunctionType::get(b_.getVoidTy(), false);
  for (const char* text : {"griddepcontrol.launch_dependents;", "griddepcontrol.wait;"})
    b_.CreateCall(llvm::InlineAsm::get(plain, text, "~{memory}", /*hasSideEffects=*/true));
}

// A value of any width through a 32-bit exchange: narrow ones widened, 64-bit ones in two halves,
// vectors lane by lane.
llvm::Value* Emitter::exchange(const kir::Inst& i, Intrinsic::ID id) {
  llvm::Type* i32 = b_.getInt32Ty();
  auto word = [&](Value* w) {
    return b_.CreateIntrinsic(
        i32, id, {b_.getInt32(-1), w, b_.getInt32(static_cast<uint32_t>(i.imm)), b_.getInt32(31)});
  };
  auto scalar = [&](Value* v) -> Value* {
    llvm::Type* t = v->getType();
    const unsigned width = t->getScalarSizeInBits();
    Value* bits = b_.CreateBitCast(v, b_.getIntNTy(width));
    if (width <= 32)
      return b_.CreateBitCast(b_.CreateTrunc(word(b_.CreateZExt(bits, i32)), b_.getIntNTy(width)),
                              t);
    Value* low = word(b_.CreateTrunc(bits, i32));
    Value* high = word(b_.CreateTrunc(b_.CreateLShr(bits, 32), i32));
    llvm::Type* i64 = b_.getInt64Ty();
    Value* both = b_.CreateOr(b_.CreateZExt(low, i64), b_.CreateShl(b_.CreateZExt(high, i64), 32));
    return b_.CreateBitCast(both, t);
  };
  Value* v = arg(i, 0);
  if (lanes(v) == 1) return scalar(v);
  Value* all = llvm::PoisonValue::get(v->getType());
  for (unsigned l = 0; l < lanes(v); ++l)
    all = b_.CreateInsertElement(all, scalar(b_.CreateExtractElement(v, uint64_t{l})), uint64_t{l});
  return all;
}

// Lane by lane: the instructions take scalars.
llvm::Value* Emitter::approximate(const kir::Inst& i, Intrinsic::ID id, bool overloaded) {
  const unsigned n = lanes(arg(i, 0));
  const auto one = [&](unsigned l) -> llvm::Value* {
    std::vector<llvm::Value*> args;
    for (size_t a = 0; a < i.args.size(); ++a) {
      Value* v = arg(i, a);
      args.push_back(n == 1 ? v : b_.CreateExtractElement(v, uint64_t{l}));
    }
    llvm::Type* f32 = b_.getFloatTy();
    return overloaded ? b_.CreateIntrinsic(id, {f32}, args) : b_.CreateIntrinsic(f32, id, args);
  };
  if (n == 1) return one(0);
  Value* all = llvm::PoisonValue::get(arg(i, 0)->getType());
  for (unsigned l = 0; l < n; ++l) all = b_.CreateInsertElement(all, one(l), uint64_t{l});
  return all;
}

// LLVM selects the instruction for tanh where an approximate function is allowed.
llvm::Value* Emitter::approximate_tanh(Value* v) {
  llvm::FastMathFlags flags;
  flags.setApproxFunc();
  return b_.CreateIntrinsic(Intrinsic::tanh, {v->getType()}, {v}, flags);
}

// Values of both types are held as bits; LLVM has the types for arithmetic.
llvm::Value* Emitter::packed(const kir::Inst& i) {
  const auto operand = [&](size_t n) {
    Value* v = arg(i, n);
    const bool bf16 = arg_type(i, n).elem == kir::Elem::BF16;
    return b_.CreateBitCast(v, with_lanes(bf16 ? b_.getBFloatTy() : b_.getHalfTy(), lanes(v)));
  };
  Value* a = operand(0);
  Value* r = nullptr;
  switch (i.op) {
    case Op::hadd:
      r = b_.CreateFAdd(a, operand(1));
      break;
    case Op::hsub:
      r = b_.CreateFSub(a, operand(1));
      break;
    case Op::hmul:
      r = b_.CreateFMul(a, operand(1));
      break;
    case Op::hneg:
      r = b_.CreateFNeg(a);
      break;
    default:
      r = unary(Intrinsic::fabs, a);
  }
  return b_.CreateBitCast(r, arg(i, 0)->getType());
}

bool Emitter::emit_workgroup(const kir::Inst& i) {
  if (features_.isa != Isa::Ptx) return false;
  switch (i.op) {
    case Op::fmaximum:
      return set(i, b_.CreateMaximum(arg(i, 0), arg(i, 1))), true;
    case Op::fminimum:
      return set(i, b_.CreateMinimum(arg(i, 0), arg(i, 1))), true;
    case Op::fexp2_approx:
      return set(i, approximate(i, Intrinsic::nvvm_ex2_approx, true)), true;
    case Op::fexp2_flush:
      return set(i, approximate(i, Intrinsic::nvvm_ex2_approx_ftz, true)), true;
    case Op::frecip_approx:
      return set(i, approximate(i, Intrinsic::nvvm_rcp_approx_ftz_f, false)), true;
    case Op::fdiv_approx:
      return set(i, approximate(i, Intrinsic::nvvm_div_full, false)), true;
    case Op::fsqrt_approx:
      return set(i, approximate(i, Intrinsic::nvvm_sqrt_approx_f, false)), true;
    case Op::ftanh_approx:
      return set(i, approximate_tanh(arg(i, 0))), true;
    case Op::hadd:
    case Op::hsub:
    case Op::hmul:
    case Op::hneg:
    case Op::habs:
      return set(i, packed(i)), true;
    case Op::thread_id:
      return set(i, b_.CreateIntrinsic(Intrinsic::nvvm_read_ptx_sreg_tid_x, {})), true;
    case Op::barrier:
      b_.CreateIntrinsic(Intrinsic::nvvm_barrier_cta_sync_aligned_all, {b_.getInt32(0)});
      return true;
    case Op::workgroup_rank:
      return set(i, b_.CreateIntrinsic(Intrinsic::nvvm_read_ptx_sreg_cluster_ctaid_x, {})), true;
    case Op::cluster_barrier:
      b_.CreateIntrinsic(Intrinsic::nvvm_barrier_cluster_arrive_aligned, {});
      b_.CreateIntrinsic(Intrinsic::nvvm_barrier_cluster_wait_aligned, {});
      return true;
    case Op::store_peer: {
      Value* own = address(i.object, arg(i, 1), true);
      Value* rank = b_.CreateTrunc(arg(i, 0), b_.getInt32Ty());
      Value* theirs = b_.CreateIntrinsic(Intrinsic::nvvm_mapa_shared_cluster, {own, rank});
      b_.CreateAlignedStore(arg(i, 2), theirs, alignment(i));
      return true;
    }
    case Op::shuffle_xor:
      return set(i, exchange(i, Intrinsic::nvvm_shfl_sync_bfly_i32)), true;
    case Op::shuffle_down:
      return set(i, exchange(i, Intrinsic::nvvm_shfl_sync_down_i32)), true;
    default:
      return false;
  }
}

}  // namespace poot::codegen
