// Tokens of KIR text. Space and line ends separate tokens and mean nothing else; '#' begins a
// comment that runs to the end of the line. Errors are InvalidGraph kir-P1 at line:column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "support/errors.h"

namespace poot::kir {

struct Token {
  enum Kind { End, Word, Percent, At, Number, Punct } kind = End;
  std::string_view text;  // Percent and At: without the sign
  bool negative = false;  // Number
  uint64_t magnitude = 0;
  int line = 1, column = 1;
  std::string where() const { return std::to_string(line) + ":" + std::to_string(column); }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { advance(); }

  const Token& peek() const { return token_; }
  Token take() {
    Token t = token_;
    advance();
    return t;
  }
  bool at(std::string_view punct_or_word) const {
    return (token_.kind == Token::Punct || token_.kind == Token::Word) &&
           token_.text == punct_or_word;
  }
  bool accept(std::string_view s) {
    if (!at(s)) return false;
    advance();
    return true;
  }
  Token expect(std::string_view s) {
    if (!at(s)) fail("expected '" + std::string(s) + "'");
    return take();
  }
  Token expect(Token::Kind kind, std::string_view what) {
    if (token_.kind != kind) fail("expected " + std::string(what));
    return take();
  }
  uint64_t expect_unsigned(uint64_t limit, std::string_view what) {
    const Token t = expect(Token::Number, what);
    if (t.negative || t.magnitude > limit) fail(std::string(what) + " is out of range", t);
    return t.magnitude;
  }
  [[noreturn]] void fail(const std::string& detail) const { fail(detail, token_); }
  [[noreturn]] static void fail(const std::string& detail, const Token& t) {
    throw InvalidGraph("kir-P1", t.where(),
                       detail + (t.kind == Token::End ? ", not the end of the text"
                                                      : ", at '" + std::string(t.text) + "'"));
  }

 private:
  void advance();
  void number();
  void skip(size_t n);

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1, column_ = 1;
  Token token_;
};

}  // namespace poot::kir
