// Recursive descent over the text that print.cpp describes. Attributes follow the columns of
// kir.def, so a new instruction needs no code here. Each instruction is checked as it is read:
// errors carry the line and column of its name.
#include <unordered_map>

#include "codegen/kir/lexer.h"
#include "codegen/kir/rules.h"

namespace poot::kir {
namespace {

constexpr int kMaxDepth = 64;

class Parser {
 public:
  explicit Parser(std::string_view text) : lex_(text) {}

  Kernel run() {
    lex_.expect("kernel");
    k_.name = lex_.expect(Token::At, "@name").text;
    if (lex_.accept("ptx")) {
      k_.isa = Isa::Ptx;
    } else {
      lex_.expect("x86");
    }
    k_.meta_words = header_number("meta");
    k_.threads = header_number("threads");
    if (lex_.at("cluster")) k_.cluster = header_number("cluster");
    k_.dependent = lex_.accept("dependent");
    lex_.expect("{");
    while (declaration()) {
    }
    block(k_.body, 0);
    if (lex_.peek().kind != Token::End) lex_.fail("expected the end of the text");
    verify_or_throw(k_);
    return std::move(k_);
  }

 private:
  uint32_t header_number(std::string_view what) {
    lex_.expect(what);
    lex_.expect("=");
    return static_cast<uint32_t>(lex_.expect_unsigned(1u << 16, what));
  }

  Elem elem() {
    const Token t = lex_.expect(Token::Word, "an element type");
    const auto e = elem_from_name(t.text);
    if (!e) Lexer::fail("not an element type", t);
    return *e;
  }

  Type type() {
    const Token t = lex_.expect(Token::Word, "a type");
    const size_t x = t.text.rfind('x');
    Type result;
    const auto e = elem_from_name(t.text.substr(0, x));
    if (!e) Lexer::fail("not a type", t);
    result.elem = *e;
    if (x == std::string_view::npos) return result;
    int lanes = 0;
    for (char c : t.text.substr(x + 1)) {
      if (c < '0' || c > '9' || lanes > kMaxLanes) Lexer::fail("not a type", t);
      lanes = 10 * lanes + (c - '0');
    }
    if (lanes < 2 || lanes > kMaxLanes)
      throw InvalidGraph("kir-C5", t.where(), "'" + std::string(t.text) + "' has bad lanes");
    result.lanes = static_cast<uint16_t>(lanes);
    return result;
  }

  // An immediate: any 64-bit pattern in hex, or a signed decimal that the element holds.
  uint64_t bits_of(const Token& t, Elem e) {
    const int64_t width = bit_width(e);
    const uint64_t limit = t.negative ? uint64_t{1} << (width - 1) : low_bits(width);
    if (t.magnitude > limit)
      throw InvalidGraph("kir-C10", t.where(),
                         std::string(t.text) + " does not fit " + std::string(name(e)));
    return (t.negative ? ~t.magnitude + 1 : t.magnitude) & low_bits(width);
  }

  bool declaration() {
    Object o;
    std::string_view declared;
    if (lex_.accept("buffer")) {
      declared = lex_.expect(Token::Percent, "%name").text;
      o.elem = elem();
      o.writable = lex_.accept("out");
      o.noalias = !lex_.accept("alias");
    } else if (lex_.accept("array")) {
      declared = lex_.expect(Token::Percent, "%name").text;
      o.kind = lex_.accept("workgroup") ? ObjectKind::Workgroup : ObjectKind::Private;
      if (o.kind == ObjectKind::Private) lex_.expect("private");
      o.elem = elem();
      o.size = static_cast<int64_t>(lex_.expect_unsigned(INT64_MAX, "a size"));
    } else if (lex_.accept("table")) {
      declared = lex_.expect(Token::Percent, "%name").text;
      o.kind = ObjectKind::Table;
      o.elem = elem();
      lex_.expect("[");
      while (!lex_.accept("]")) {
        if (!o.bits.empty()) lex_.expect(",");
        o.bits.push_back(bits_of(lex_.expect(Token::Number, "a constant"), o.elem));
      }
      o.size = static_cast<int64_t>(o.bits.size());
    } else {
      return false;
    }
    o.name = declared;
    objects_.emplace(declared, ObjectId(static_cast<uint32_t>(k_.objects.size())));
    k_.objects.push_back(std::move(o));
    return true;
  }

  ValueId new_value(const Token& t, Type type) {
    if (!seen_.emplace(t.text, true).second)
      throw InvalidGraph("kir-C1", t.where(), "%" + std::string(t.text) + " is defined twice");
    k_.types.push_back(type);
    return ValueId(static_cast<uint32_t>(k_.types.size() - 1));
  }
  void enter_scope(const Token& t, ValueId v) {
    scope_.emplace(t.text, v);
    names_.push_back(t.text);
  }
  void leave_scope(size_t size) {
    for (; names_.size() > size; names_.pop_back()) scope_.erase(names_.back());
  }
  ValueId use() {
    const Token t = lex_.expect(Token::Percent, "a value");
    const auto it = scope_.find(t.text);
    if (it == scope_.end())
      throw InvalidGraph("kir-C1", t.where(), "%" + std::string(t.text) + " is not defined here");
    return it->second;
  }

  // Instructions up to '}'.
  void block(Block& b, int depth) {
    if (depth > kMaxDepth)
      throw InvalidGraph("kir-P2", lex_.peek().where(), "blocks nest too deeply");
    const size_t scope = names_.size();
    while (!lex_.accept("}")) {
      if (lex_.at("for")) {
        loop(b, depth);
      } else if (lex_.at("if")) {
        branch(b, depth);
      } else {
        line(b);
      }
    }
    leave_scope(scope);
  }

  void check(const Inst& i, const Token& at) {
    if (auto broken = check_inst(k_, i))
      throw InvalidGraph(broken->constraint, at.where(), broken->detail);
  }

  void loop(Block& parent, int depth) {
    const Token at = lex_.take();
    Inst i;
    i.op = Op::for_;
    i.blocks.resize(1);
    const Token index = lex_.expect(Token::Percent, "the loop's index");
    lex_.expect("=");
    i.args.push_back(use());
    lex_.expect("to");
    i.args.push_back(use());
    lex_.expect("step");
    i.args.push_back(use());
    i.blocks[0].params.push_back(new_value(index, {Elem::I64, 1}));
    std::vector<Token> params = {index}, results;
    if (lex_.accept("carry")) {
      lex_.expect("(");
      do {
        params.push_back(lex_.expect(Token::Percent, "a carried value"));
        lex_.expect("=");
        i.args.push_back(use());
        lex_.expect(":");
        i.blocks[0].params.push_back(new_value(params.back(), type()));
      } while (lex_.accept(","));
      lex_.expect(")");
      lex_.expect("->");
      lex_.expect("(");
      do {
        results.push_back(lex_.expect(Token::Percent, "a result"));
        if (results.size() >= params.size())
          Lexer::fail("more results than carried", results.back());
        const ValueId like = i.blocks[0].params[results.size()];
        i.results.push_back(new_value(results.back(), k_.type(like)));
      } while (lex_.accept(","));
      lex_.expect(")");
    }
    check(i, at);
    lex_.expect("{");
    const size_t scope = names_.size();
    for (size_t p = 0; p < params.size(); ++p) enter_scope(params[p], i.blocks[0].params[p]);
    block(i.blocks[0], depth + 1);
    leave_scope(scope);
    for (size_t r = 0; r < results.size(); ++r) enter_scope(results[r], i.results[r]);
    parent.insts.push_back(std::move(i));
  }

  void branch(Block& parent, int depth) {
    const Token at = lex_.take();
    Inst i;
    i.op = Op::if_;
    i.blocks.resize(2);
    i.args.push_back(use());
    std::vector<Token> results;
    if (lex_.accept("->")) {
      lex_.expect("(");
      do {
        results.push_back(lex_.expect(Token::Percent, "a result"));
        lex_.expect(":");
        i.results.push_back(new_value(results.back(), type()));
      } while (lex_.accept(","));
      lex_.expect(")");
    }
    check(i, at);
    lex_.expect("{");
    block(i.blocks[0], depth + 1);
    lex_.expect("else");
    lex_.expect("{");
    block(i.blocks[1], depth + 1);
    for (size_t r = 0; r < results.size(); ++r) enter_scope(results[r], i.results[r]);
    parent.insts.push_back(std::move(i));
  }

  void operands(Inst& i) {
    if (op_info(i.op).operands.empty() || lex_.peek().kind != Token::Percent) return;
    do i.args.push_back(use());
    while (lex_.accept(","));
  }

  void access(Inst& i) {
    const Token t = lex_.expect(Token::Percent, "an object");
    const auto it = objects_.find(t.text);
    if (it == objects_.end())
      throw InvalidGraph("kir-C7", t.where(), "%" + std::string(t.text) + " is not declared");
    i.object = it->second;
    lex_.expect("[");
    operands(i);
    lex_.expect("]");
  }

  void shuffle_mask(Inst& i) {
    lex_.expect("[");
    while (!lex_.accept("]")) {
      if (!i.mask.empty()) lex_.expect(",");
      i.mask.push_back(static_cast<int32_t>(lex_.expect_unsigned(1u << 16, "a lane")));
    }
  }

  void line(Block& b) {
    Token result;
    if (lex_.peek().kind == Token::Percent) {
      result = lex_.take();
      lex_.expect("=");
    }
    const Token at = lex_.expect(Token::Word, "an instruction");
    const auto op = op_from_name(at.text);
    if (!op || *op == Op::for_ || *op == Op::if_) Lexer::fail("no such instruction", at);
    const OpInfo& info = op_info(*op);
    Inst i;
    i.op = *op;
    Token value;
    if (info.has("pred")) {
      const Token t = lex_.expect(Token::Word, "a predicate");
      const auto p = pred_from_name(t.text, i.op == Op::fcmp);
      if (!p) throw InvalidGraph("kir-C11", t.where(), "no predicate " + std::string(t.text));
      i.pred = *p;
    }
    if (info.has("value")) value = lex_.expect(Token::Number, "a constant");
    for (const char* attr : {"lane", "word", "axis", "code"})
      if (info.has(attr)) i.imm = lex_.expect_unsigned(~uint64_t{0}, attr);
    if (info.has("object") || info.has("table")) {
      access(i);
    } else {
      operands(i);
    }
    if (info.has("mask")) shuffle_mask(i);
    if (result.kind != Token::End) {
      if (info.result == "none") Lexer::fail("has no result", at);
      i.type = type();
    } else if (info.result != "none") {
      Lexer::fail("needs a result", at);
    }
    if (info.has("value")) i.imm = bits_of(value, i.type.elem);
    if (info.has("align") && lex_.accept("align"))
      i.align = static_cast<uint32_t>(lex_.expect_unsigned(UINT32_MAX, "an alignment"));
    if (info.has("nontemporal")) i.nontemporal = lex_.accept("nontemporal");
    if (result.kind != Token::End) i.results.push_back(new_value(result, i.type));
    check(i, at);
    if (result.kind != Token::End) enter_scope(result, i.results[0]);
    b.insts.push_back(std::move(i));
  }

  Lexer lex_;
  Kernel k_;
  std::unordered_map<std::string_view, ObjectId> objects_;
  std::unordered_map<std::string_view, bool> seen_;
  std::unordered_map<std::string_view, ValueId> scope_;  // names of the open blocks
  std::vector<std::string_view> names_;                  // the same, in order of definition
};

}  // namespace

Kernel parse_kernel(std::string_view text) {
  return Parser(text).run();
}

}  // namespace poot::kir
