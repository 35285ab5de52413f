// The rules of KIR. One instruction's rules are in rules.cpp; scopes, blocks and declarations here.
//
// kir-C1   every value is defined once, before its uses, in a block that encloses them
// kir-C2   an instruction has the operands of its row in kir.def
// kir-C3   operands have the kinds of their letters; lane-by-lane operands have equal types
// kir-C4   results are as many and of the type that the row gives
// kir-C5   1..64 lanes; a reduction takes a power of two
// kir-C6   the ISA is in the row's targets
// kir-C7   an access names an object that is declared, of its kind and element; only outputs are
//          stored to
// kir-C8   blocks end in yield, alone; its operands are as many and of the types that the loop
//          carries or the branch yields; parameters match
// kir-C9   alignment is a power of two up to 4096
// kir-C10  immediates are in range: constants fit, lanes exist, metadata words are declared
// kir-C11  icmp takes integer predicates, fcmp float ones
// kir-C12  names are distinct; arrays have 1..2^26 elements; a table's constants are as many as its
//          size and fit its element; x86 has one thread and no workgroup arrays and depends on no
//          launch; a cluster has 1, 2, 4 or 8 workgroups, of whole warps
// kir-C13  a constant index of a table lies inside it
#include <algorithm>
#include <bit>
#include <set>

#include "codegen/kir/rules.h"

namespace poot::kir {
namespace {

constexpr int64_t kMaxArray = int64_t{1} << 26;
constexpr uint32_t kMaxCluster = 8;  // what every GPU with clusters takes

class Verifier {
 public:
  explicit Verifier(const Kernel& k) : k_(k), state_(k.types.size()), constant_(k.types.size()) {}

  std::vector<Violation> run() {
    declarations();
    block(k_.body, "body", nullptr);
    return std::move(found_);
  }

 private:
  enum class State : uint8_t { Undefined, Open, Closed };

  void report(std::string constraint, const std::string& where, std::string detail) {
    found_.push_back({std::move(constraint), where, std::move(detail)});
  }

  void declarations() {
    std::set<std::string_view> names;
    for (const Object& o : k_.objects) {
      const std::string where = "%" + o.name;
      if (o.name.empty() || !names.insert(o.name).second)
        report("kir-C12", where, "the name is empty or taken");
      if (o.elem == Elem::I1) report("kir-C12", where, "i1 has no storage: use i8");
      if (o.kind != ObjectKind::Buffer && (o.size < 1 || o.size > kMaxArray))
        report("kir-C12", where, "size " + std::to_string(o.size));
      const bool table = o.kind == ObjectKind::Table;
      if (o.bits.size() != (table ? static_cast<size_t>(std::max<int64_t>(o.size, 0)) : 0))
        report("kir-C12", where, std::to_string(o.bits.size()) + " constants");
      for (uint64_t b : o.bits)
        if (b > low_bits(bit_width(o.elem))) report("kir-C12", where, "a constant does not fit");
      if (o.kind == ObjectKind::Workgroup && k_.isa == Isa::X86)
        report("kir-C12", where, "x86 has no workgroup memory");
    }
    if (k_.threads < 1 || k_.threads > 1024 || (k_.isa == Isa::X86 && k_.threads != 1))
      report("kir-C12", "@" + k_.name, std::to_string(k_.threads) + " threads");
    if (k_.dependent && k_.isa == Isa::X86) report("kir-C12", "@" + k_.name, "a dependent launch");
    const bool whole_warps = k_.isa == Isa::Ptx && k_.threads % 32 == 0;
    if (k_.cluster != 1 &&
        (!whole_warps || k_.cluster > kMaxCluster || !std::has_single_bit(k_.cluster)))
      report("kir-C12", "@" + k_.name, "a cluster of " + std::to_string(k_.cluster));
  }

  void define(ValueId v, Type t, const std::string& where) {
    if (v.index >= k_.types.size()) return report("kir-C1", where, "a result has no type");
    if (state_[v.index] != State::Undefined)
      return report("kir-C1", where, "value " + std::to_string(v.index) + " is defined twice");
    if (k_.types[v.index] != t)
      report("kir-C4", where, "the result is recorded as " + k_.types[v.index].str());
    state_[v.index] = State::Open;
    scope_.push_back(v);
  }

  // False if an operand is not usable here.
  bool uses(const Inst& i, const std::string& where) {
    bool ok = true;
    for (ValueId v : i.args) {
      if (v.index < state_.size() && state_[v.index] == State::Open) continue;
      report("kir-C1", where, "operand " + std::to_string(v.index) + " is not defined here");
      ok = false;
    }
    return ok;
  }

  void table_index(const Inst& i, const std::string& where) {
    if (i.op != Op::lookup || !constant_[i.args[0].index]) return;
    const uint64_t index = constant_[i.args[0].index]->imm;
    if (index >= static_cast<uint64_t>(k_.objects[i.object.index].size))
      report("kir-C13", where, "index " + std::to_string(index));
  }

  void loop(const Inst& i, const std::string& where) {
    const size_t carried = i.args.size() - 3;
    if (i.blocks.size() != 1 || i.blocks[0].params.size() != carried + 1 ||
        i.results.size() != carried)
      return report("kir-C8", where, "parameters, results and carried values differ in number");
    std::vector<Type> types;
    for (size_t c = 0; c < carried; ++c) types.push_back(k_.type(i.args[c + 3]));
    const size_t outer = scope_.size();
    define(i.blocks[0].params[0], {Elem::I64, 1}, where);
    for (size_t c = 0; c < carried; ++c) define(i.blocks[0].params[c + 1], types[c], where);
    block(i.blocks[0], where, &types);
    close(outer);
    for (size_t c = 0; c < carried; ++c) define(i.results[c], types[c], where);
  }

  void branch(const Inst& i, const std::string& where) {
    if (i.blocks.size() != 2) return report("kir-C8", where, "needs two blocks");
    std::vector<Type> types;
    for (ValueId r : i.results) types.push_back(r.index < k_.types.size() ? k_.type(r) : Type{});
    for (const Block& b : i.blocks) {
      if (!b.params.empty()) report("kir-C8", where, "a branch has no parameters");
      block(b, where, &types);
    }
    for (size_t r = 0; r < i.results.size(); ++r) define(i.results[r], types[r], where);
  }

  void close(size_t outer) {
    for (; scope_.size() > outer; scope_.pop_back()) state_[scope_.back().index] = State::Closed;
  }

  void yield(const Inst& i, const std::string& where, const std::vector<Type>* types) {
    if (!types) return report("kir-C8", where, "the kernel's body yields nothing");
    if (i.args.size() != types->size())
      return report("kir-C8", where,
                    "yields " + std::to_string(i.args.size()) + " values, not " +
                        std::to_string(types->size()));
    for (size_t a = 0; a < i.args.size(); ++a)
      if (k_.type(i.args[a]) != (*types)[a])
        report("kir-C8", where,
               "yields " + k_.type(i.args[a]).str() + ", not " + (*types)[a].str());
  }

  // yields: the types that the block must yield; null for the kernel's body.
  void block(const Block& b, const std::string& path, const std::vector<Type>* yields) {
    const size_t outer = scope_.size();
    for (size_t n = 0; n < b.insts.size(); ++n) {
      const Inst& i = b.insts[n];
      const std::string where =
          path + "/" + std::to_string(n) + " " + std::string(op_info(i.op).name);
      const bool last = n + 1 == b.insts.size();
      if (i.op == Op::yield ? !last : (last && yields != nullptr))
        report("kir-C8", where, "yield ends a block and nothing else does");
      const bool structured = i.op == Op::for_ || i.op == Op::if_;
      if (!structured && !i.blocks.empty()) report("kir-C8", where, "has no blocks");
      bool ok = uses(i, where);
      if (ok)
        if (auto broken = check_inst(k_, i)) {
          report(broken->constraint, where, broken->detail);
          ok = false;
        }
      if (ok && i.op == Op::for_) loop(i, where);
      if (ok && i.op == Op::if_) branch(i, where);
      if (ok && i.op == Op::yield) yield(i, where, yields);
      if (structured) continue;
      for (ValueId r : i.results) define(r, i.type, where);
      if (ok) table_index(i, where);
      if (i.op == Op::constant && ok) constant_[i.results[0].index] = &i;
    }
    if (yields && b.insts.empty()) report("kir-C8", path, "the block is empty");
    close(outer);
  }

  const Kernel& k_;
  std::vector<State> state_;           // of each value
  std::vector<const Inst*> constant_;  // the constant that defines it, or null
  std::vector<ValueId> scope_;         // values of the open blocks
  std::vector<Violation> found_;
};

}  // namespace

std::vector<Violation> verify(const Kernel& k) {
  return Verifier(k).run();
}

void verify_or_throw(const Kernel& k) {
  const std::vector<Violation> found = verify(k);
  if (found.empty()) return;
  std::string detail = found[0].detail;
  for (size_t i = 1; i < found.size(); ++i)
    detail += "\n  " + found[i].constraint + " at " + found[i].where + ": " + found[i].detail;
  throw InvalidGraph(found[0].constraint, found[0].where, detail);
}

}  // namespace poot::kir
