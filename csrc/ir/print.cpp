// The text form. One equation a line, attributes in the order of the op's row, results numbered in
// order, so that equal graphs have equal text whatever their ids are:
//
//   graph @rms(s0 in [2, 1024] hint 128, %x: f16[s0,4096],
//              %w: f16[4096] weight "norm.weight") -> (f16[s0,4096]) {
//     %0 = cast %x {to=f32} : f32[s0,4096]
//     %1 = mul %0, f32 0.5 : f32[s0,4096]
//     %2 = fused %1, %w body(%a0: f32[s0,4096], %a1: f16[4096]) {
//       %0 = cast %a1 {to=f32} : f32[4096]
//       %1 = add %a0, %0 : f32[s0,4096]
//       return %1
//     } : f32[s0,4096] @0 loc(0)
//     group @0 sdpa(%x, f32 2) {float 0.125} size 4 -> (%2)
//     origin 0 "mul_1" "model.py:12"
//     return %2
//   }
//
// An input with a Named identity is written by that name; one with another identity keeps the
// spelling it was parsed with, which is no part of the hash; others are %a0, %a1, …
#include "ir/print.h"

#include <charconv>
#include <unordered_map>

namespace poot::ir {
namespace {

std::string text(double v) {
  if (v != v) return "nan";
  char buffer[40];
  auto [end, ec] = std::to_chars(buffer, buffer + sizeof buffer, v);
  return {buffer, end};
}
std::string text(int64_t v) {
  return std::to_string(v);
}
std::string text(bool v) {
  return v ? "true" : "false";
}
std::string text(DType v) {
  return std::string(name(v));
}
std::string text(const std::string& v) {
  return quoted(v);
}
std::string text(const Dim& v) {
  return v.str();
}
std::string text(std::monostate) {
  return "none";
}
template <class T>
std::string text(const std::vector<T>& list) {
  std::string s = "[";
  for (size_t i = 0; i < list.size(); ++i) s += (i ? "," : "") + text(list[i]);
  return s + "]";
}
std::string text(const Attr& a) {
  return std::visit([](const auto& v) { return text(v); }, a);
}

// "ints [0,1]": an attribute whose type no row tells.
std::string typed_text(const Attr& a) {
  if (a.index() == 0) return "none";
  return std::string(name(static_cast<AttrType>(a.index() - 1))) + " " + text(a);
}

std::string text(const Layout& l) {
  std::string s = " layout(" + text(l.strides);
  if (!l.offset.is_const(0)) s += ", offset " + l.offset.str();
  if (l.align != 1) s += ", align " + std::to_string(l.align);
  return s + ")";
}

std::string text(const Symbol& s) {
  auto bound = [](int64_t v) {
    return v == INT64_MAX ? "inf" : v == INT64_MIN ? "-inf" : std::to_string(v);
  };
  return "[" + bound(s.range.lo) + ", " + bound(s.range.hi) + "] hint " + std::to_string(s.hint);
}

std::string_view own_name(const ValueMeta& meta, bool spelling) {
  if (const Named* n = std::get_if<Named>(&meta.identity)) return n->name;
  return spelling ? std::string_view(meta.spelling) : std::string_view();
}

std::vector<std::string> make_names(const Graph& g, bool spelling) {
  std::vector<std::string> names(g.value_count(), "%?");
  std::unordered_map<std::string_view, int> count;
  for (ValueId v : g.inputs())
    if (v.index < names.size()) ++count[own_name(g.value(v), spelling)];
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const ValueId v = g.inputs()[i];
    if (v.index >= names.size()) continue;
    const std::string_view own = own_name(g.value(v), spelling);
    const bool usable = is_identifier(own) && !is_reserved_input_name(own) && count[own] == 1;
    names[v.index] = "%" + (usable ? std::string(own) : "a" + std::to_string(i));
  }
  size_t next = 0;
  for (const Eqn& e : g.eqns())
    for (ValueId v : e.outs)
      if (v.index < names.size()) names[v.index] = "%" + std::to_string(next++);
  return names;
}

struct Style {
  bool origins = true;
  bool spelling = true;
  bool bodies = true;
};

class Printer {
 public:
  Printer(const Graph& graph, Style style, std::string indent)
      : g_(graph),
        style_(style),
        indent_(std::move(indent)),
        names_(make_names(graph, style.spelling)) {}

  std::string graph() {
    std::string s = "graph @" + (is_identifier(g_.name()) ? g_.name() : quoted(g_.name()));
    std::vector<std::string> params;
    for (size_t i = 0; i < g_.symbols().size(); ++i)
      params.push_back("s" + std::to_string(i) + " in " + text(g_.symbols()[i]));
    for (ValueId v : g_.inputs()) params.push_back(input(v));
    s += list(params) + " -> " + list(outputs()) + " {\n" + lines();
    return s + "}\n";
  }

  std::string body() {
    std::string s = "body";
    if (g_.name() != "graph")
      s += " @" + (is_identifier(g_.name()) ? g_.name() : quoted(g_.name()));
    std::vector<std::string> params;
    bool plain = true;
    for (ValueId v : g_.inputs()) params.push_back(input(v));
    for (const GraphOutput& o : g_.outputs())
      plain = plain && o.kind == OutputKind::Result && !o.layout;
    s += list(params);
    if (!plain) s += " -> " + list(outputs());
    return s + " {\n" + lines() + indent_ + "}";
  }

  std::string equation(const Eqn& e) {
    std::string s;
    for (ValueId v : e.outs) s += (s.empty() ? "" : ", ") + value(v);
    if (!s.empty()) s += " = ";
    s += e.info().name;
    for (size_t i = 0; i < e.inputs.size(); ++i) s += (i ? ", " : " ") + operand(e.inputs[i]);
    s += attrs(e);
    if (e.body && style_.bodies) s += " " + Printer(*e.body, style_, indent_ + "  ").body();
    s += " : ";
    for (size_t i = 0; i < e.outs.size(); ++i)
      s += (i ? ", " : "") +
           (e.outs[i].index < g_.value_count() ? g_.type(e.outs[i]).str() : std::string("?"));
    if (e.outs.empty()) s += "()";
    if (e.group) s += " @" + std::to_string(e.group.index);
    if (style_.origins && !e.origins.empty()) {
      s += " loc(";
      for (size_t i = 0; i < e.origins.size(); ++i)
        s += (i ? "," : "") + std::to_string(e.origins[i]);
      s += ")";
    }
    return s;
  }

 private:
  std::string value(ValueId v) const {
    if (!v) return "_";
    return v.index < names_.size() ? names_[v.index] : "%?";
  }
  std::string operand(const Operand& o) const {
    const ValueId* v = std::get_if<ValueId>(&o);
    return v ? value(*v) : std::get<Scalar>(o).str();
  }

  // On one line if it is short, else one item a line.
  std::string list(const std::vector<std::string>& items) const {
    size_t width = 0;
    for (const std::string& i : items) width += i.size() + 2;
    const bool wrap = width > 80 && items.size() > 1;
    std::string s = "(";
    for (size_t i = 0; i < items.size(); ++i) {
      if (wrap) s += (i ? ",\n" : "\n") + indent_ + "    ";
      if (!wrap && i) s += ", ";
      s += items[i];
    }
    return s + ")";
  }

  std::string input(ValueId v) const {
    const ValueMeta& m = g_.value(v);
    std::string s = value(v) + ": " + m.type.str();
    if (m.storage != Storage::Device) {
      s += ' ';
      s += storage_name(m.storage);
    }
    if (const Named* n = std::get_if<Named>(&m.identity);
        n && ("%" + n->name != value(v) || is_reserved_input_name(n->name)))
      s += " named " + quoted(n->name);
    if (const WeightRef* w = std::get_if<WeightRef>(&m.identity)) s += " weight " + quoted(w->path);
    if (const SlotKey* k = std::get_if<SlotKey>(&m.identity)) s += " key " + quoted(k->kind);
    if (m.layout) s += text(*m.layout);
    return s;
  }

  std::vector<std::string> outputs() const {
    std::vector<std::string> out;
    for (const GraphOutput& o : g_.outputs()) {
      std::string s = o.value.index < g_.value_count() ? g_.type(o.value).str() : "?";
      if (o.kind == OutputKind::Witness) s += " witness";
      if (o.kind == OutputKind::Export) s += " export";
      if (o.kind == OutputKind::StateNext) s += " state_next(" + value(o.state_input) + ")";
      if (o.layout) s += text(*o.layout);
      out.push_back(std::move(s));
    }
    return out;
  }

  std::string attrs(const Eqn& e) const {
    std::string s;
    for (size_t i = 0; i < e.attrs.size() && i < e.info().attrs.size(); ++i) {
      if (std::holds_alternative<std::monostate>(e.attrs[i])) continue;
      s += (s.empty() ? " {" : ", ") + std::string(e.info().attrs[i].name) + "=" + text(e.attrs[i]);
    }
    return s.empty() ? s : s + "}";
  }

  std::string group(size_t i) const {
    const Group& g = g_.groups()[i];
    std::string s = "group @" + std::to_string(i) + " " +
                    (is_identifier(g.kind) ? g.kind : quoted(g.kind)) + "(";
    for (size_t k = 0; k < g.inputs.size(); ++k) s += (k ? ", " : "") + operand(g.inputs[k]);
    s += ")";
    for (size_t k = 0; k < g.attrs.size(); ++k) s += (k ? ", " : " {") + typed_text(g.attrs[k]);
    if (!g.attrs.empty()) s += "}";
    s += " size " + std::to_string(g.size) + " -> (";
    for (size_t k = 0; k < g.results.size(); ++k) s += (k ? ", " : "") + value(g.results[k]);
    return s + ")";
  }

  std::string lines() {
    const std::string margin = indent_ + "  ";
    std::string s;
    for (const Eqn& e : g_.eqns()) {
      s += margin;
      s += equation(e);
      s += '\n';
    }
    for (size_t i = 0; i < g_.groups().size(); ++i) s += margin + group(i) + "\n";
    if (style_.origins)
      for (size_t i = 0; i < g_.origins().size(); ++i)
        s += margin + "origin " + std::to_string(i) + " " + quoted(g_.origins()[i].node) + " " +
             quoted(g_.origins()[i].source) + "\n";
    s += margin + "return";
    for (size_t i = 0; i < g_.outputs().size(); ++i)
      s += (i ? ", " : " ") + value(g_.outputs()[i].value);
    return s + "\n";
  }

  const Graph& g_;
  Style style_;
  std::string indent_;
  std::vector<std::string> names_;
};

}  // namespace

bool is_identifier(std::string_view s) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (s.empty() || !letter(s[0])) return false;
  for (char c : s)
    if (!letter(c) && !(c >= '0' && c <= '9') && c != '.') return false;
  return true;
}

bool is_reserved_input_name(std::string_view s) {
  return s.size() > 1 && s[0] == 'a' && s.find_first_not_of("0123456789", 1) == s.npos;
}

std::string_view storage_name(Storage s) {
  constexpr std::string_view kNames[] = {"device", "const", "slot", "state", "computed"};
  return kNames[static_cast<size_t>(s)];
}

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\x";
      out += "0123456789abcdef"[byte >> 4];
      out += "0123456789abcdef"[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::vector<std::string> value_names(const Graph& graph) {
  return make_names(graph, true);
}

std::string eqn_text(const Graph& graph, size_t eqn) {
  return Printer(graph, {.bodies = false}, "").equation(graph.eqns()[eqn]);
}

std::string Graph::str() const {
  return Printer(*this, {}, "").graph();
}

Hash128 Graph::hash() const {
  return content_hash(Printer(*this, {.origins = false, .spelling = false}, "").graph());
}

}  // namespace poot::ir
