// Text of size expressions: `4*s0*s1 + floordiv(s0 + 1, 2) - 3`. Printing follows the canonical
// order, so equal Dims have equal text; the parser takes any nesting of + - * ( ) and the four
// functions, with a bound on its depth.
#include <charconv>
#include <string>

#include "support/dim.h"
#include "support/dim_expr.h"
#include "support/errors.h"

namespace poot {
namespace {

struct Function {
  char op;
  std::string_view name;
};
constexpr Function kFunctions[] = {{'/', "floordiv"}, {'%', "mod"}, {'M', "max"}, {'m', "min"}};

std::string atom_text(const DimExpr::Atom& a) {
  if (a.op == 's') return "s" + std::to_string(a.symbol);
  std::string s;
  for (const Function& f : kFunctions)
    if (f.op == a.op) s = f.name;
  s += "(";
  for (size_t i = 0; i < a.args.size(); ++i) s += (i ? ", " : "") + a.args[i].str();
  return s + ")";
}

class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}

  Dim run() {
    Dim d = sum(0);
    if (peek() != '\0') fail("unexpected character");
    return d;
  }

 private:
  static constexpr int kMaxDepth = 100;

  [[noreturn]] void fail(const std::string& what) const {
    throw InvalidGraph("dim-C1", "column " + std::to_string(at_ + 1),
                       what + " in the size expression '" + std::string(text_) + "'");
  }
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("expected '") + c + "'");
  }
  static bool digit(char c) { return c >= '0' && c <= '9'; }
  static bool letter(char c) { return c >= 'a' && c <= 'z'; }

  template <class T>
  T number() {
    T v{};
    const char* first = text_.data() + at_;
    auto [end, ec] = std::from_chars(first, text_.data() + text_.size(), v);
    if (ec != std::errc()) fail("expected a number that fits");
    at_ += static_cast<size_t>(end - first);
    return v;
  }

  Dim sum(int depth) {
    if (depth > kMaxDepth) fail("too deep nesting");
    Dim d = product(depth);
    for (;;) {
      if (take('+'))
        d += product(depth);
      else if (take('-'))
        d = d - product(depth);
      else
        return d;
    }
  }

  Dim product(int depth) {
    Dim d = factor(depth);
    while (take('*')) d *= factor(depth);
    return d;
  }

  Dim factor(int depth) {
    if (depth > kMaxDepth) fail("too deep nesting");
    const char c = peek();
    const bool number_follows = at_ + 1 < text_.size() && digit(text_[at_ + 1]);
    if (c == '-' && !number_follows) {
      ++at_;
      return factor(depth + 1) * Dim(-1);
    }
    if (digit(c) || c == '-') return Dim(number<int64_t>());
    if (take('(')) {
      Dim d = sum(depth + 1);
      expect(')');
      return d;
    }
    if (c == 's' && at_ + 1 < text_.size() && digit(text_[at_ + 1])) {
      ++at_;
      return Dim::symbol(number<uint32_t>());
    }
    return call(depth);
  }

  Dim call(int depth) {
    const size_t start = at_;
    while (at_ < text_.size() && letter(text_[at_])) ++at_;
    const std::string_view word = text_.substr(start, at_ - start);
    for (const Function& f : kFunctions) {
      if (f.name != word) continue;
      expect('(');
      Dim d = sum(depth + 1);
      bool more = false;
      while (take(',')) {
        if (more && (f.op == '/' || f.op == '%')) fail("too many operands");
        const Dim e = sum(depth + 1);
        d = f.op == '/'   ? Dim::floordiv(d, e)
            : f.op == '%' ? Dim::mod(d, e)
            : f.op == 'M' ? Dim::max(d, e)
                          : Dim::min(d, e);
        more = true;
      }
      if (!more) fail("expected two operands");
      expect(')');
      return d;
    }
    at_ = start;
    fail("expected a number, a symbol s0, s1, … or a function");
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Dim Dim::parse(std::string_view text) {
  return DimParser(text).run();
}

std::string Dim::str() const {
  if (!expr_) return std::to_string(value_);
  std::string s;
  for (const DimExpr::Term& t : expr_->terms) {
    // The least integer has no magnitude to subtract.
    const bool negative = t.coeff < 0 && (s.empty() || t.coeff != INT64_MIN);
    s += s.empty() ? (negative ? "-" : "") : (negative ? " - " : " + ");
    std::string magnitude = std::to_string(t.coeff);
    if (negative) magnitude.erase(0, 1);
    std::string product;
    if (magnitude != "1" || t.factors.empty()) product = magnitude;
    for (const auto& f : t.factors) product += (product.empty() ? "" : "*") + atom_text(*f);
    s += product;
  }
  return s;
}

std::string str(const Shape& shape) {
  std::string s = "[";
  for (size_t i = 0; i < shape.size(); ++i) s += (i ? ", " : "") + shape[i].str();
  return s + "]";
}

}  // namespace poot
