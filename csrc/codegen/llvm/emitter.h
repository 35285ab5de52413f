// KIR to LLVM IR, one instruction at a time. Split by family over emit_*.cpp; each family's
// function returns false for an instruction that is not its own.
//
// Representation: f16 and bf16 travel as i16, since LLVM's handling of short floats differs by
// target; they become floats only inside a conversion. Floating point has no fast-math flag
// anywhere. All buffer pointers, metadata words and block indices are read once at the top.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/kir/kir.h"
#include "codegen/llvm/even_odd.h"
#include "codegen/target.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"

namespace poot::codegen {

// What the emitter asks of the processor; filled from LLVM's subtarget.
struct TargetFeatures {
  Isa isa = Isa::X86;   // whose kernels: a CPU's or a GPU's
  bool x86 = false;     // the CPU has x86 instructions
  bool avx512 = false;  // F, BW, DQ, VL
  bool avx512_bf16 = false;
  bool avx512_vnni = false;
  bool amx_bf16 = false;
  bool avx2 = false;
  uint32_t vector_bits = 512;
};

inline constexpr const char* kEntryName = "poot_entry";

class Emitter {
 public:
  Emitter(llvm::Module& module, const kir::Kernel& kernel, const TargetFeatures& features);
  void emit();  // throws Unsupported

 private:
  using Value = llvm::Value;
  using Values = llvm::SmallVector<Value*, 4>;

  // emit_x86_entry.cpp, emit_ptx_entry.cpp
  void emit_x86_entry();
  void emit_ptx_entry();
  void order_launches();
  bool emit_workgroup(const kir::Inst& i);
  Value* exchange(const kir::Inst& i, llvm::Intrinsic::ID id);
  llvm::Value* approximate_tanh(llvm::Value* v);
  llvm::Value* packed(const kir::Inst& i);
  llvm::Value* approximate(const kir::Inst& i, llvm::Intrinsic::ID id, bool overloaded);

  // emit_control.cpp
  void emit_block(const kir::Block& block);
  Values emit_nested(const kir::Block& block);  // what its yield yields
  void emit_inst(const kir::Inst& i);
  bool emit_control(const kir::Inst& i);
  void emit_for(const kir::Inst& i);
  void emit_if(const kir::Inst& i);

  // emit_arith.cpp
  bool emit_float(const kir::Inst& i);
  bool emit_int(const kir::Inst& i);
  bool emit_compare(const kir::Inst& i);
  Value* dot_pairs(const kir::Inst& i);
  Value* high_product(Value* a, Value* b);

  // emit_convert.cpp
  bool emit_convert(const kir::Inst& i);
  Value* widen_float(Value* v, kir::Elem from, llvm::Type* to);
  llvm::Value* widen_pairs(llvm::Value* v, llvm::Type* to);
  Value* narrow_float(Value* v, kir::Elem to, bool any_nan);
  Value* raised_to_bf16(Value* v, bool any_nan);

  // convert_halves.cpp
  bool convert_halves(const kir::Inst& i);
  Value* evens_first(Value* v);
  Value* in_order(Value* v);
  Value* low_or_upper(Value* low, Value* odd);
  Value* float_to_signed(Value* v, llvm::Type* to);

  // nan_payloads.cpp
  void note_nans();
  void note_nans(const kir::Block& block);
  void note_nans(const kir::Inst& i);
  void note_nans_of_loop(const kir::Inst& i);
  bool nan_is_narrowable(const kir::Inst& i) const;

  // emit_scale.cpp
  bool emit_scale(const kir::Inst& i);
  Value* scale_by_power(Value* v, Value* n);
  Value* exponent_of(Value* v);
  Value* mantissa_of(Value* v);
  Value* reciprocal(Value* v);
  Value* remainder(Value* a, Value* b);

  // emit_vector.cpp
  bool emit_vector(const kir::Inst& i);
  bool emit_reduce(const kir::Inst& i);
  Value* lookup(const kir::Inst& i);
  Value* permute_table(const kir::Object& table, Value* index);
  Value* permute_f64_table(const kir::Object& table, Value* index);
  Value* lower_half(Value* v, bool upper);

  // emit_memory.cpp
  void declare_objects();
  void declare_alias_scopes();
  bool emit_memory(const kir::Inst& i);
  Value* load(const kir::Inst& i);
  bool goes_around_cache(const kir::Inst& i, kir::Type t) const;
  Value* load_around_cache(const kir::Inst& i);
  void store_around_cache(const kir::Inst& i);
  void store(const kir::Inst& i);
  Value* load_masked(const kir::Inst& i);
  void store_masked(const kir::Inst& i);
  void combine_atomically(const kir::Inst& i);
  void fail_if(Value* condition, uint32_t code);
  Value* address(kir::ObjectId o, Value* index, bool in_bounds);
  llvm::Align alignment(const kir::Inst& i) const;
  void annotate(Value* access, kir::ObjectId o) const;
  // Runs `then` only where the scalar condition holds; its value, else `otherwise`.
  Value* guarded(Value* condition, const std::function<Value*()>& then, Value* otherwise);

  // emit_tiles.cpp
  bool emit_tiles(const kir::Inst& i);
  void tile_rows(Value* rows);

  llvm::Type* type(kir::Elem e);
  llvm::Type* type(kir::Type t);
  llvm::Type* with_lanes(llvm::Type* scalar, unsigned lanes) const;
  static unsigned lanes(Value* v);
  // Operands and results in the order that the instruction wants and gives (even_odd.h).
  Value* arg(const kir::Inst& i, size_t n);
  kir::Type arg_type(const kir::Inst& i, size_t n) const { return kernel_.type(i.args[n]); }
  void set(const kir::Inst& i, Value* v);
  Value* unary(llvm::Intrinsic::ID id, Value* v) { return b_.CreateUnaryIntrinsic(id, v); }
  Value* binary(llvm::Intrinsic::ID id, Value* a, Value* c) {
    return b_.CreateBinaryIntrinsic(id, a, c);
  }
  Value* int_splat(llvm::Type* t, uint64_t bits) { return llvm::ConstantInt::get(t, bits); }
  llvm::Type* int_of(Value* v);  // integer type of the same shape and width
  // Cuts the operands into vectors of `piece` lanes, applies f to each, joins the results.
  Value* by_pieces(llvm::ArrayRef<Value*> args, unsigned piece,
                   const std::function<Value*(llvm::ArrayRef<Value*>)>& f);
  [[noreturn]] void unsupported(const kir::Inst& i, const std::string& missing) const;

  llvm::Module& module_;
  const kir::Kernel& kernel_;
  TargetFeatures features_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  llvm::Function* function_ = nullptr;
  EvenOdd even_odd_;
  std::vector<Value*> values_;
  std::vector<Value*> rounded_;         // of a bf16 value: the same as f32, in halves, if at hand
  std::vector<char> narrowable_;        // of each f32 value: what nan_is_narrowable said
  std::vector<char> narrowable_array_;  // of each private array: of all that is stored in it
  std::vector<Value*> objects_;         // base pointer of each object
  std::vector<Value*> meta_;            // value of each metadata word
  Value* status_ = nullptr;
  Value* block_ids_[3] = {};
  Value* grid_[3] = {};
  std::vector<llvm::MDNode*> scope_of_, disjoint_from_;  // of each buffer
  bool nontemporal_ = false;
  Value* tile_shapes_ = nullptr;  // what tile_rows loads from
};

}  // namespace poot::codegen
