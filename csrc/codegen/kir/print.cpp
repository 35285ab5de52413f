// Text of a kernel, one instruction a line:
//
//   kernel @scale x86 meta=1 threads=1 {
//     buffer %x f32
//     buffer %y f32 out
//     table %t f32 [0x3f800000, 0x40000000]
//     array %a private f32 4096
//     %0 = meta 0 i64
//     %1 = load %x[%0] f32x16 align 4
//     for %2 = %3 to %0 step %4 carry (%5 = %1 : f32x16) -> (%6) {
//       ...
//       yield %7
//     }
//     store %y[%0, %6] align 4 nontemporal
//   }
//
// Values are numbered in the order of this text, whatever their ids: printing a parsed text gives
// the text back. Floats are raw bits.
#include <cstdio>

#include "codegen/kir/kir.h"

namespace poot::kir {
namespace {

class Printer {
 public:
  explicit Printer(const Kernel& k) : k_(k), numbers_(k.types.size(), 0) {}

  std::string run() {
    out_ = "kernel @" + k_.name + (k_.isa == Isa::X86 ? " x86" : " ptx") +
           " meta=" + std::to_string(k_.meta_words) + " threads=" + std::to_string(k_.threads);
    if (k_.cluster != 1) out_ += " cluster=" + std::to_string(k_.cluster);
    if (k_.dependent) out_ += " dependent";
    out_ += " {\n";
    for (const Object& o : k_.objects) object(o);
    block(k_.body, 1);
    return out_ + "}\n";
  }

 private:
  void object(const Object& o) {
    const std::string elem(name(o.elem));
    switch (o.kind) {
      case ObjectKind::Buffer:
        out_ += "  buffer %" + o.name + " " + elem + (o.writable ? " out" : "") +
                (o.noalias ? "" : " alias");
        break;
      case ObjectKind::Private:
      case ObjectKind::Workgroup:
        out_ += "  array %" + o.name +
                (o.kind == ObjectKind::Private ? " private " : " workgroup ") + elem + " " +
                std::to_string(o.size);
        break;
      case ObjectKind::Table:
        out_ += "  table %" + o.name + " " + elem + " [";
        for (size_t i = 0; i < o.bits.size(); ++i) {
          if (i) out_ += ", ";
          number(o.elem, o.bits[i]);
        }
        out_ += "]";
        break;
    }
    out_ += "\n";
  }

  void number(Elem e, uint64_t bits) {
    if (is_float(e)) {
      char text[24];
      std::snprintf(text, sizeof text, "0x%0*llx", static_cast<int>(bit_width(e) / 4),
                    static_cast<unsigned long long>(bits));
      out_ += text;
    } else if (e == Elem::I1) {
      out_ += bits ? "1" : "0";
    } else {
      const int unused = 64 - static_cast<int>(bit_width(e));
      out_ += std::to_string(static_cast<int64_t>(bits << unused) >> unused);
    }
  }

  std::string define(ValueId v) {
    if (v.index >= numbers_.size()) return "%?";
    numbers_[v.index] = ++next_;
    return value(v);
  }
  std::string value(ValueId v) const {
    if (v.index >= numbers_.size() || numbers_[v.index] == 0) return "%?";
    return "%" + std::to_string(numbers_[v.index] - 1);
  }
  std::string type_text(ValueId v) const {
    return v.index < k_.types.size() ? k_.types[v.index].str() : "?";
  }
  std::string values(const std::vector<ValueId>& list) const {
    std::string s;
    for (size_t i = 0; i < list.size(); ++i) s += (i ? ", " : "") + value(list[i]);
    return s;
  }

  void block(const Block& b, int depth) {
    for (const Inst& i : b.insts) {
      out_.append(static_cast<size_t>(2 * depth), ' ');
      if (!i.blocks.empty() && i.op == Op::for_ && i.args.size() >= 3) {
        loop(i, depth);
      } else if (i.blocks.size() == 2) {
        branch(i, depth);
      } else {
        line(i);
      }
      out_ += "\n";
    }
  }

  void loop(const Inst& i, int depth) {
    const auto& params = i.blocks[0].params;
    const std::string index = params.empty() ? "%?" : define(params[0]);
    out_ += "for " + index + " = " + value(i.args[0]) + " to " + value(i.args[1]) + " step " +
            value(i.args[2]);
    if (params.size() > 1) {
      std::string carry;
      for (size_t p = 1; p < params.size(); ++p) {
        const std::string init = p + 2 < i.args.size() ? value(i.args[p + 2]) : "%?";
        carry +=
            (p > 1 ? ", " : "") + define(params[p]) + " = " + init + " : " + type_text(params[p]);
      }
      out_ += " carry (" + carry + ") -> (";
      for (size_t r = 0; r < i.results.size(); ++r) out_ += (r ? ", " : "") + define(i.results[r]);
      out_ += ")";
    }
    body(i.blocks[0], depth);
  }

  void branch(const Inst& i, int depth) {
    out_ += "if " + values(i.args);
    if (!i.results.empty()) {
      out_ += " -> (";
      for (size_t r = 0; r < i.results.size(); ++r) {
        out_ += (r ? ", " : "") + define(i.results[r]) + " : " + type_text(i.results[r]);
      }
      out_ += ")";
    }
    body(i.blocks[0], depth);
    out_ += " else";
    body(i.blocks[1], depth);
  }

  void body(const Block& b, int depth) {
    out_ += " {\n";
    block(b, depth + 1);
    out_.append(static_cast<size_t>(2 * depth), ' ');
    out_ += "}";
  }

  void line(const Inst& i) {
    const OpInfo& info = op_info(i.op);
    const std::string args = values(i.args);
    if (!i.results.empty()) out_ += define(i.results[0]) + " = ";
    out_ += info.name;
    if (info.has("pred")) out_ += " " + std::string(name(i.pred));
    if (info.has("value")) {
      out_ += " ";
      number(i.type.elem, i.imm);
    }
    for (const char* attr : {"lane", "word", "axis", "code"})
      if (info.has(attr)) out_ += " " + std::to_string(i.imm);
    if (info.has("object") || info.has("table")) {
      out_ += i.object.index < k_.objects.size() ? " %" + k_.objects[i.object.index].name : " %?";
      out_ += "[" + args + "]";
    } else if (!args.empty()) {
      out_ += " " + args;
    }
    if (info.has("mask")) {
      out_ += " [";
      for (size_t m = 0; m < i.mask.size(); ++m)
        out_ += (m ? ", " : "") + std::to_string(i.mask[m]);
      out_ += "]";
    }
    if (!i.results.empty()) out_ += " " + i.type.str();
    if (i.align) out_ += " align " + std::to_string(i.align);
    if (i.nontemporal) out_ += " nontemporal";
  }

  const Kernel& k_;
  std::vector<uint32_t> numbers_;  // of each value, plus one; 0: not met yet
  uint32_t next_ = 0;
  std::string out_;
};

}  // namespace

std::string Kernel::str() const {
  return Printer(*this).run();
}

}  // namespace poot::kir
