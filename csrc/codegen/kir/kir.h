// KIR: the lane-level kernel IR, the last form before LLVM. Structured control flow, scalars and
// vectors, no pointers: memory is reached through named objects (buffers of the kernel ABI, private
// or workgroup arrays, constant tables) and element indices, so that every access can be checked by
// the interpreter and none can leave its object by arithmetic on addresses.
//
// Only lowering (codegen/lower) and the math library (codegen/math) build KIR. Text form, verifier
// and interpreter stand beside it; the text is what travels to the worker.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/target.h"
#include "support/errors.h"
#include "support/ids.h"

namespace poot::kir {

enum class Elem : uint8_t { I1, I8, I16, I32, I64, F16, BF16, F32, F64 };
int64_t bit_width(Elem e);
constexpr bool is_float(Elem e) {
  return e >= Elem::F16;
}
std::string_view name(Elem e);
std::optional<Elem> elem_from_name(std::string_view s);
// The low bits of an element: what a value of that type may hold.
constexpr uint64_t low_bits(int64_t width) {
  return width >= 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
}
inline constexpr int kMaxLanes = 64;

struct Type {
  Elem elem = Elem::I64;
  uint16_t lanes = 1;
  friend bool operator==(Type a, Type b) = default;
  Type with(Elem e) const { return {e, lanes}; }
  Type scalar() const { return {elem, 1}; }
  std::string str() const;  // "f32", "f32x16"
};

enum class Op : uint8_t {
#define KIR(name, ...) name,
#include "codegen/kir/kir.def"
#undef KIR
};

inline constexpr bool is_prefetch(Op op) {
  return op == Op::prefetch || op == Op::prefetch_far;
}

inline constexpr bool is_atomic(Op op) {
  return op >= Op::atomic_fadd && op <= Op::atomic_umin;
}

inline constexpr int kOpCount = 0
#define KIR(...) +1
#include "codegen/kir/kir.def"
#undef KIR
    ;

// A row of kir.def.
struct OpInfo {
  Op op;
  std::string_view name;  // as in the text: without a trailing underscore
  std::string_view operands, result, attrs, targets;
  bool has(std::string_view attr) const;  // attrs names it
  bool supports(Isa isa) const;
};
const OpInfo& op_info(Op op);
std::optional<Op> op_from_name(std::string_view name);

enum class Pred : uint8_t {
  eq,
  ne,
  slt,
  sle,
  sgt,
  sge,
  ult,
  ule,
  ugt,
  uge,  // icmp (u..: unsigned)
  oeq,
  one,
  olt,
  ole,
  ogt,
  oge,
  ord,
  uno,
  une,
  ueq,
  fult,
  fule,
  fugt,
  fuge  // fcmp (fu..: or unordered; the text drops the f)
};
constexpr bool is_float(Pred p) {
  return p >= Pred::oeq;
}
std::string_view name(Pred p);
std::optional<Pred> pred_from_name(std::string_view s, bool of_float);

using ValueId = Id<struct KirValueTag>;
using ObjectId = Id<struct KirObjectTag>;

enum class ObjectKind : uint8_t {
  Buffer,     // kernel parameter, in ABI order
  Private,    // array of one thread (CPU: of the block)
  Workgroup,  // array shared by the threads of a block (GPU)
  Table,      // constants
};
struct Object {
  std::string name;
  ObjectKind kind = ObjectKind::Buffer;
  Elem elem = Elem::F32;       // storage element; bool is I8
  bool writable = false;       // Buffer
  bool noalias = true;         // Buffer: overlaps no other buffer that is written
  int64_t size = 0;            // elements: arrays and tables
  std::vector<uint64_t> bits;  // Table: raw bits of each element
};

struct Block;

struct Inst {
  Op op;
  std::vector<ValueId> args;
  std::vector<ValueId> results;
  Type type;         // result type ("own"), else that of operand 0
  uint64_t imm = 0;  // constant bits; lane; meta word; axis; fail code
  Pred pred = Pred::eq;
  ObjectId object;     // memory ops, lookup
  uint32_t align = 0;  // bytes; 0: of one element
  bool nontemporal = false;
  std::vector<int32_t> mask;  // shuffle; tile_dot: its tiles
  std::vector<Block> blocks;  // for_: 1; if_: 2
};

struct Block {
  std::vector<ValueId> params;  // for_: induction variable (i64), then carried values
  std::vector<Inst> insts;      // last one is yield (except the body of a kernel)
};

struct Kernel {
  std::string name;
  Isa isa = Isa::X86;
  uint32_t meta_words = 0;
  uint32_t threads = 1;  // GPU: threads in a workgroup
  uint32_t cluster = 1;  // GPU: workgroups that run a block together
  // GPU: the kernel may begin while the one before it runs, and waits for its end; one behind it
  // may begin at once.
  bool dependent = false;
  std::vector<Object> objects;
  std::vector<Type> types;  // of each value
  Block body;

  Type type(ValueId v) const { return types.at(v.index); }
  std::string str() const;
};

// Throws InvalidGraph kir-… with line:column; the result is verified. print(parse(text)) == text
// for text that print made: values are numbered in the order of their definitions.
Kernel parse_kernel(std::string_view text);

struct Violation {
  std::string constraint, where, detail;
};
std::vector<Violation> verify(const Kernel& k);  // SSA, types, targets, structure; all of them
void verify_or_throw(const Kernel& k);

// Appends instructions to the innermost open block. Infers and checks result types as it goes.
class KirBuilder {
 public:
  explicit KirBuilder(Kernel& k) : kernel_(k) { open_.push_back(&k.body); }

  Kernel& kernel() { return kernel_; }
  Type type(ValueId v) const { return kernel_.type(v); }
  ObjectId add_object(Object o);
  // Interned by content: two requests for the same table share one object.
  ObjectId table(std::string_view name, Elem elem, std::span<const uint64_t> bits);

  ValueId constant(Type t, uint64_t bits);
  ValueId f32(float v, uint16_t lanes = 1);
  ValueId i32(int32_t v, uint16_t lanes = 1);
  ValueId i64(int64_t v, uint16_t lanes = 1);
  ValueId emit(Op op, std::vector<ValueId> args);             // result type follows from the table
  ValueId emit(Op op, Type type, std::vector<ValueId> args);  // "own" results
  ValueId icmp(Pred p, ValueId a, ValueId b);
  ValueId fcmp(Pred p, ValueId a, ValueId b);
  ValueId select(ValueId m, ValueId a, ValueId b);
  ValueId splat(ValueId v, uint16_t lanes);  // identity for lanes == 1
  ValueId extract(ValueId v, uint16_t lane);
  ValueId insert(ValueId into, ValueId value, uint16_t lane);
  ValueId shuffle(ValueId a, ValueId b, std::vector<int32_t> mask);
  ValueId lookup(ObjectId table, ValueId index);
  ValueId load(ObjectId o, Type t, ValueId index, uint32_t align = 0, bool nontemporal = false);
  ValueId load_masked(ObjectId o, Type t, ValueId index, ValueId mask, ValueId other);
  ValueId gather(ObjectId o, Type t, ValueId index, ValueId mask, ValueId other);
  void store(ObjectId o, ValueId index, ValueId v, uint32_t align = 0, bool nontemporal = false);
  void store_masked(ObjectId o, ValueId index, ValueId v, ValueId mask);
  void scatter(ObjectId o, ValueId index, ValueId v, ValueId mask);
  void atomic(Op op, ObjectId o, ValueId index, ValueId v, ValueId mask);
  void prefetch(ObjectId o, ValueId index, bool far = false);
  void tile_rows(ValueId rows);
  void tile_zero(uint32_t tile);
  void tile_load(uint32_t tile, ObjectId o, ValueId index, ValueId stride);
  void tile_store(uint32_t tile, ObjectId o, ValueId index, ValueId stride);
  void tile_dot(int32_t c, int32_t a, int32_t b);
  void tile_release();
  ValueId meta(uint32_t word);
  ValueId block_id(uint32_t axis);
  void fail(uint32_t code, ValueId cond);
  ValueId thread_id();
  void barrier();
  ValueId workgroup_rank();
  void cluster_barrier();
  void store_peer(ObjectId o, ValueId rank, ValueId index, ValueId v);
  ValueId shuffle_xor(ValueId v, uint32_t lane_mask);

  // for_: calls body with the induction variable and the carried values, returns what it yields.
  template <class F>  // std::vector<ValueId>(ValueId i, std::span<const ValueId> carried)
  std::vector<ValueId> for_loop(ValueId lo, ValueId hi, ValueId step, std::vector<ValueId> init,
                                F&& body) {
    begin_for(lo, hi, step, std::move(init));
    ValueId i = for_index();
    std::vector<ValueId> carried = for_carried();
    return end_for(body(i, std::span<const ValueId>(carried)));
  }
  // if_: both functions return the yielded values (equal types).
  template <class T, class E>
  std::vector<ValueId> if_else(ValueId cond, T&& then, E&& otherwise) {
    begin_if(cond);
    std::vector<ValueId> a = then();
    begin_else(a);
    return end_if(otherwise());
  }

 private:
  void begin_for(ValueId lo, ValueId hi, ValueId step, std::vector<ValueId> init);
  ValueId for_index() const;
  std::vector<ValueId> for_carried() const;
  std::vector<ValueId> end_for(std::vector<ValueId> yielded);
  void begin_if(ValueId cond);
  void begin_else(std::vector<ValueId> yielded);
  std::vector<ValueId> end_if(std::vector<ValueId> yielded);
  std::vector<ValueId> close();
  ValueId new_value(Type t);
  Inst& append(Inst inst);

  Kernel& kernel_;
  // Open blocks, innermost last. Owned by the pending instructions below until they are closed.
  std::vector<Block*> open_;
  struct Pending {
    Inst inst;
    std::vector<Type> types;
  };
  std::vector<std::unique_ptr<Pending>> pending_;
};

// Interpreter: the meaning of KIR. Runs blocks [first, last) of a grid. Buffers are byte spans; an
// access outside one, a read of an uninitialised private array, a barrier that not all threads
// reach and a write/write or read/write race between threads of a workgroup throw InvalidGraph
// kir-run-….
struct RunArgs {
  std::vector<std::span<std::byte>> buffers;
  std::vector<int64_t> meta;
  uint32_t grid[3] = {1, 1, 1};
};
uint32_t interpret(const Kernel& k, const RunArgs& args, uint32_t first_block,
                   uint32_t last_block);  // status word

}  // namespace poot::kir
