#include "codegen/kir/lexer.h"

namespace poot::kir {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.';
}
int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void Lexer::skip(size_t n) {
  at_ += n;
  column_ += static_cast<int>(n);
}

void Lexer::number() {
  size_t p = at_;
  token_.kind = Token::Number;
  token_.negative = text_[p] == '-';
  if (token_.negative) ++p;
  const bool hex = p + 1 < text_.size() && text_[p] == '0' && text_[p + 1] == 'x';
  if (hex) p += 2;
  const size_t first = p;
  const uint64_t base = hex ? 16 : 10;
  bool overflow = false;
  for (; p < text_.size(); ++p) {
    const int digit = hex ? hex_value(text_[p]) : (is_digit(text_[p]) ? text_[p] - '0' : -1);
    if (digit < 0) break;
    const unsigned __int128 next =
        static_cast<unsigned __int128>(token_.magnitude) * base + static_cast<unsigned>(digit);
    overflow = overflow || next > ~uint64_t{0};
    token_.magnitude = static_cast<uint64_t>(next);
  }
  token_.text = text_.substr(at_, p - at_);
  if (p == first || overflow || (p < text_.size() && is_word(text_[p])))
    fail("not a number of 64 bits");
  skip(p - at_);
}

void Lexer::advance() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++at_, ++line_, column_ = 1;
    } else if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') skip(1);
    } else if (c == ' ' || c == '\t' || c == '\r') {
      skip(1);
    } else {
      break;
    }
  }
  token_ = Token{};
  token_.line = line_;
  token_.column = column_;
  if (at_ >= text_.size()) return;
  const char c = text_[at_];
  const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
  if (is_digit(c) || (c == '-' && is_digit(next))) return number();
  size_t n = 1;
  if (is_word(c) || c == '%' || c == '@') {
    while (at_ + n < text_.size() && is_word(text_[at_ + n])) ++n;
    token_.kind = c == '%' ? Token::Percent : c == '@' ? Token::At : Token::Word;
    token_.text = text_.substr(at_, n);
    if (token_.kind != Token::Word) token_.text.remove_prefix(1);
    if (token_.text.empty()) fail("a name is missing");
  } else {
    n = c == '-' && next == '>' ? 2 : 1;
    token_.kind = Token::Punct;
    token_.text = text_.substr(at_, n);
  }
  skip(n);
}

}  // namespace poot::kir
