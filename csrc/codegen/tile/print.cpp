// Text of a tile program, one instruction a line:
//
//   tile @relu {
//     buffer in0 f32 align 4
//     buffer out0 f32 align 4 out
//     meta "s0"
//     grid "floordiv(s0 + 4095, 4096)" "1" "1"
//     elems 4096
//     %0 = block_id 0
//     axis c 4096 = min($0 + %0*4096*-1, 4096)
//     %1 = load in0[%0*4096 + c] : f32[c]
//     %2 = constant f32 0 : f32[]
//     %3 = maximum %1, %2 : f32[c]
//     store out0[%0*4096 + c] %3
//   }
//
//   scan %identity, %start, %4 axis 0 by (%6 : f32[], %7 : f32[]) {
//     %8 = add %6, %7 : f32[]
//     yield %8
//   } -> %9 : f32[c], %10 : f32[-]
//
// In an index, a bare word is an axis' coordinate, $n a metadata word, %n a scalar, [%n] an element
// of an integer tile. A unit axis prints as "-". Values are numbered in the order of this text, so
// printing a parsed text gives the text back.
#include <set>

#include "codegen/tile/op_table.h"
#include "ir/op.h"

namespace poot::tile {
namespace {

class Printer {
 public:
  explicit Printer(const Program& p) : p_(p), numbers_(p.types.size(), 0) {}

  std::string run() {
    out_ = "tile @" + p_.name + " {\n";
    for (const Buffer& b : p_.buffers)
      out_ += "  buffer " + b.name + " " + std::string(name(b.dtype)) + " align " +
              std::to_string(b.align) + (b.written ? " out" : "") + (b.shared ? " shared" : "") +
              "\n";
    for (const Dim& d : p_.meta) out_ += "  meta \"" + d.str() + "\"\n";
    out_ += "  grid";
    for (const Dim& d : p_.grid) out_ += " \"" + d.str() + "\"";
    out_ += "\n  elems " + std::to_string(p_.block_elems) + "\n";
    if (p_.schedule.streaming_rows) out_ += "  streaming\n";
    if (p_.schedule.nontemporal) out_ += "  nontemporal\n";
    block(p_.body, 1);
    return out_ + "}\n";
  }

 private:
  std::string define(ValueId v) {
    numbers_.at(v.index) = next_++;
    return value(v);
  }
  std::string value(ValueId v) const { return "%" + std::to_string(numbers_.at(v.index)); }

  std::string type(ValueId v) const {
    const Type& t = p_.type(v);
    if (t.scalar) return "scalar";
    std::string s(name(t.dtype));
    s += "[";
    for (size_t i = 0; i < t.axes.size(); i++) {
      if (i) s += ", ";
      s += t.axes[i] ? p_.axes.at(t.axes[i].index).name : "-";
    }
    return s + "]";
  }

  // `tight`: an operand of a product, or the right one of a sum.
  std::string index(IndexId i, bool tight = false) const {
    const IndexNode& n = p_.index.at(i.index);
    const auto call = [&](const char* f) {
      return std::string(f) + "(" + index(n.a) + ", " + index(n.b) + ")";
    };
    switch (n.op) {
      case IndexOp::Const:
        return std::to_string(n.value);
      case IndexOp::Coord:
        return p_.axes.at(n.ref).name;
      case IndexOp::Scalar:
        return value(ValueId(n.ref));
      case IndexOp::Loaded:
        return "[" + value(ValueId(n.ref)) + "]";
      case IndexOp::Meta:
        return "$" + std::to_string(n.value);
      case IndexOp::Add: {
        const std::string s = index(n.a) + " + " + index(n.b, true);
        return tight ? "(" + s + ")" : s;
      }
      case IndexOp::Mul: {
        const bool nested = p_.index.at(n.b.index).op == IndexOp::Mul;
        const std::string b = index(n.b, true);
        return index(n.a, true) + "*" + (nested ? "(" + b + ")" : b);
      }
      case IndexOp::Div:
        return call("floordiv");
      case IndexOp::Mod:
        return call("mod");
      case IndexOp::Min:
        return call("min");
      case IndexOp::Max:
        return call("max");
    }
    return "";
  }

  std::string mask(const Mask& m) const {
    std::string s;
    for (size_t i = 0; i < m.size(); i++)
      s += (i ? " and " : " where ") + index(m[i].lo) + " <= " + index(m[i].index) + " < " +
           index(m[i].hi);
    return s;
  }

  void block(const Block& b, int depth) {
    // An axis is printed as soon as the scalars of its extent are defined.
    size_t next_axis = 0;
    const auto axes = [&] {
      while (next_axis < b.axis_ids.size()) {
        const Axis& a = p_.axes.at(b.axis_ids[next_axis].index);
        if (!ready(a.extent)) break;
        out_ += std::string(static_cast<size_t>(depth) * 2, ' ') + "axis " + a.name + " " +
                std::to_string(a.capacity) + " = " + index(a.extent) + "\n";
        next_axis++;
      }
    };
    axes();
    for (const Inst& inst : b.insts) {
      instruction(inst, depth);
      axes();
    }
  }
  bool ready(IndexId i) const {
    const IndexNode& n = p_.index.at(i.index);
    if (n.op == IndexOp::Scalar) return known_.count(n.ref) > 0;
    return n.op <= IndexOp::Meta || (ready(n.a) && ready(n.b));
  }

  void instruction(const Inst& inst, int depth) {
    const std::string indent(static_cast<size_t>(depth) * 2, ' ');
    if (inst.op == Op::for_) return loop(inst, depth);
    if (inst.op == Op::scan) return scan(inst, depth);
    std::string s = inst.op == Op::pointwise ? std::string(ir::op_info(inst.pointwise).name)
                                             : std::string(facts(inst.op).name);
    switch (inst.op) {
      case Op::block_id:
        s += " " + std::to_string(inst.axis);
        break;
      case Op::scalar_index:
      case Op::index_tile:
        s += " " + index(inst.index);
        break;
      case Op::constant:
        s += " " + inst.value->str();
        break;
      case Op::reduce:
        s += " " + std::string(ir::op_info(inst.pointwise).name) + " " + value(inst.args[0]) +
             " axis " + std::to_string(inst.axis);
        if (inst.order != ir::ReduceOrder::any) s += " order " + std::string(name(inst.order));
        break;
      case Op::dot:
        s += " " + value(inst.args[0]) + ", " + value(inst.args[1]);
        if (inst.args.size() > 2) s += " from " + value(inst.args[2]);
        s += " axis " + std::to_string(inst.axis);
        break;
      case Op::check:
        s += " " + value(inst.args[0]) + " " + std::to_string(inst.code);
        break;
      case Op::load:
        s += " " + p_.buffers.at(inst.buffer.index).name + "[" + index(inst.index) + "]" +
             mask(inst.mask);
        if (inst.value) s += " else " + inst.value->str();
        break;
      case Op::combine:
        s += " " + std::string(ir::op_info(inst.pointwise).name);
        [[fallthrough]];
      case Op::store:
        s += " " + p_.buffers.at(inst.buffer.index).name + "[" + index(inst.index) + "] " +
             value(inst.args[0]) + mask(inst.mask);
        break;
      default:
        for (size_t i = 0; i < inst.args.size(); i++) s += (i ? ", " : " ") + value(inst.args[i]);
    }
    if (!inst.results.empty()) {
      known_.insert(inst.results[0].index);
      s = define(inst.results[0]) + " = " + s;
      if (facts(inst.op).result == ResultKind::tile) s += " : " + type(inst.results[0]);
    }
    out_ += indent + s + "\n";
  }

  void loop(const Inst& inst, int depth) {
    const std::string indent(static_cast<size_t>(depth) * 2, ' ');
    const Block& body = inst.blocks.at(0);
    known_.insert(body.params[0].index);
    out_ += indent + "for " + define(body.params[0]) + " = " + index(inst.index) + " to " +
            index(inst.index_hi) + " carry (";
    for (size_t i = 0; i < inst.args.size(); i++) {
      const std::string init = value(inst.args[i]);
      out_ += (i ? ", " : "") + define(body.params[i + 1]) + " = " + init;
    }
    out_ += ") {\n";
    block(body, depth + 1);
    out_ += indent + "}";
    for (size_t i = 0; i < inst.results.size(); i++)
      out_ += (i ? ", " : " -> ") + define(inst.results[i]);
    out_ += "\n";
  }

  void scan(const Inst& inst, int depth) {
    const std::string indent(static_cast<size_t>(depth) * 2, ' ');
    const auto list = [](auto&& values, auto&& text) {
      std::string s;
      for (const ValueId v : values) s += (s.empty() ? "" : ", ") + text(v);
      return s;
    };
    const auto used = [&](ValueId v) { return value(v); };
    const auto made = [&](ValueId v) { return define(v) + " : " + type(v); };
    const Block& body = inst.blocks.at(0);
    out_ += indent + "scan " + list(inst.args, used) + " axis " + std::to_string(inst.axis);
    out_ += " by (" + list(body.params, made) + ") {\n";
    block(body, depth + 1);
    out_ += indent + "} -> " + list(inst.results, made) + "\n";
  }

  const Program& p_;
  std::vector<uint32_t> numbers_;
  std::set<uint32_t> known_;
  uint32_t next_ = 0;
  std::string out_;
};

}  // namespace

std::string Program::str() const {
  return Printer(*this).run();
}

}  // namespace poot::tile
