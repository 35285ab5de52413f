// Tokens of the text form.
#include "ir/text_cursor.h"

#include <algorithm>
#include <charconv>

#include "ir/print.h"

namespace poot::ir {
namespace {

bool digit(char c) {
  return c >= '0' && c <= '9';
}
bool name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || digit(c) || c == '_' || c == '.';
}
int hex_value(char c) {
  if (digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

template <class T>
bool read(std::string_view s, T& v) {
  auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), v);
  return ec == std::errc() && end == s.data() + s.size();
}

}  // namespace

void TextCursor::fail_at(size_t at, const std::string& constraint,
                         const std::string& detail) const {
  at = std::min(at, text_.size());
  const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(at), '\n');
  const size_t newline = at == 0 ? text_.npos : text_.rfind('\n', at - 1);
  const size_t column = newline == text_.npos ? at + 1 : at - newline;
  throw InvalidGraph(constraint, std::to_string(line) + ":" + std::to_string(column), detail);
}

size_t TextCursor::skip() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '#')
      at_ = std::min(text_.find('\n', at_), text_.size());
    else if (c == ' ' || c == '\n' || c == '\t' || c == '\r')
      ++at_;
    else
      break;
  }
  return at_;
}

char TextCursor::peek() {
  skip();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool TextCursor::take(char c) {
  if (at_end() || text_[at_] != c) return false;
  ++at_;
  return true;
}

bool TextCursor::take(std::string_view symbol) {
  skip();
  if (!text_.substr(at_).starts_with(symbol)) return false;
  at_ += symbol.size();
  return true;
}

void TextCursor::expect(char c) {
  if (!take(c)) fail(std::string("expected '") + c + "'");
}

void TextCursor::expect(std::string_view symbol) {
  if (!take(symbol)) fail("expected '" + std::string(symbol) + "'");
}

std::string_view TextCursor::peek_word() {
  skip();
  size_t end = at_;
  while (end < text_.size() && name_char(text_[end])) ++end;
  return text_.substr(at_, end - at_);
}

std::string_view TextCursor::word() {
  const std::string_view w = peek_word();
  if (w.empty()) fail("expected a word");
  at_ += w.size();
  return w;
}

bool TextCursor::take_word(std::string_view w) {
  if (peek_word() != w) return false;
  at_ += w.size();
  return true;
}

void TextCursor::expect_word(std::string_view w) {
  if (!take_word(w)) fail("expected '" + std::string(w) + "'");
}

std::string TextCursor::name() {
  if (peek() == '"') return string();
  const std::string_view w = peek_word();
  if (!is_identifier(w)) fail("expected a name");
  at_ += w.size();
  return std::string(w);
}

std::string TextCursor::string() {
  const size_t start = skip();
  expect('"');
  std::string out;
  for (; at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n'; ++at_) {
    char c = text_[at_];
    if (c == '\\') {
      const char code = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
      if (code == 'x' && at_ + 3 < text_.size() && hex_value(text_[at_ + 2]) >= 0 &&
          hex_value(text_[at_ + 3]) >= 0) {
        c = static_cast<char>(hex_value(text_[at_ + 2]) * 16 + hex_value(text_[at_ + 3]));
        at_ += 3;
      } else if (code == 'n' || code == '"' || code == '\\') {
        c = code == 'n' ? '\n' : code;
        ++at_;
      } else {
        fail("bad escape in a string");
      }
    }
    out += c;
  }
  if (at_ >= text_.size() || text_[at_] != '"')
    fail_at(start, "parse-C1", "the string does not end");
  ++at_;
  return out;
}

std::string_view TextCursor::value_name() {
  expect('%');
  size_t end = at_;
  while (end < text_.size() && name_char(text_[end])) ++end;
  if (end == at_) fail("expected a value's name after %");
  return text_.substr(std::exchange(at_, end), end - at_);
}

std::string_view TextCursor::number() {
  skip();
  size_t end = at_;
  if (end < text_.size() && (text_[end] == '-' || text_[end] == '+')) ++end;
  while (end < text_.size() &&
         (name_char(text_[end]) ||
          ((text_[end] == '-' || text_[end] == '+') && end > at_ && text_[end - 1] == 'e')))
    ++end;
  return text_.substr(at_, end - at_);
}

int64_t TextCursor::integer() {
  const std::string_view s = number();
  int64_t v = 0;
  if (!read(s, v)) fail("expected a whole number that fits 64 bits");
  at_ += s.size();
  return v;
}

uint32_t TextCursor::index() {
  const std::string_view s = number();
  uint32_t v = 0;
  if (!read(s, v) || v == UINT32_MAX) fail("expected a number");
  at_ += s.size();
  return v;
}

int64_t TextCursor::bound() {
  const std::string_view s = number();
  if (s != "inf" && s != "-inf") return integer();
  at_ += s.size();
  return s == "inf" ? INT64_MAX : INT64_MIN;
}

double TextCursor::real() {
  const std::string_view s = number();
  double v = 0;
  if (!read(s, v)) fail("expected a number");
  at_ += s.size();
  return v;
}

bool TextCursor::boolean() {
  if (take_word("true")) return true;
  expect_word("false");
  return false;
}

DType TextCursor::dtype() {
  const auto d = dtype_from_name(peek_word());
  if (!d) fail("expected a dtype");
  word();
  return *d;
}

Dim TextCursor::dim() {
  const size_t start = skip();
  size_t end = start;
  for (int depth = 0; end < text_.size(); ++end) {
    const char c = text_[end];
    if (c == '(') ++depth;
    if (c == '\n' || c == '#' || c == ']' || c == '}') break;
    if (depth == 0 && (c == ',' || c == ')')) break;
    if (c == ')') --depth;
  }
  try {
    Dim d = Dim::parse(text_.substr(start, end - start));
    at_ = end;
    return d;
  } catch (const InvalidGraph& error) {
    size_t column = 1;  // "column 7" of the expression
    const std::string_view where = error.where();
    if (where.starts_with("column ")) read(where.substr(7), column);
    fail_at(start + column - 1, error.constraint(), error.detail());
  }
}

Shape TextCursor::dims() {
  Shape s;
  list('[', ']', [&] { s.push_back(dim()); });
  return s;
}

TensorType TextCursor::type() {
  TensorType t;
  t.dtype = dtype();
  t.shape = dims();
  return t;
}

Layout TextCursor::layout() {
  Layout l;
  expect('(');
  l.strides = dims();
  while (take(',')) {
    if (take_word("offset")) {
      l.offset = dim();
    } else {
      expect_word("align");
      l.align = index();
    }
  }
  expect(')');
  return l;
}

Scalar TextCursor::scalar() {
  const DType d = dtype();
  const std::string_view s = number();
  const auto v = Scalar::parse(d, s);
  if (!v) fail("expected a number of dtype " + std::string(poot::name(d)));
  at_ += s.size();
  return *v;
}

Attr TextCursor::attr(AttrType type) {
  switch (type) {
    case AttrType::Int:
      return integer();
    case AttrType::Float:
      return real();
    case AttrType::Bool:
      return boolean();
    case AttrType::DType:
      return dtype();
    case AttrType::Str:
      return string();
    case AttrType::Dim:
      return dim();
    case AttrType::Dims:
      return dims();
    case AttrType::Ints: {
      std::vector<int64_t> v;
      list('[', ']', [&] { v.push_back(integer()); });
      return v;
    }
    default: {
      std::vector<double> v;
      list('[', ']', [&] { v.push_back(real()); });
      return v;
    }
  }
}

Attr TextCursor::typed_attr() {
  for (int i = 0; i <= static_cast<int>(AttrType::Dims); ++i)
    if (const auto t = static_cast<AttrType>(i); take_word(ir::name(t))) return attr(t);
  expect_word("none");
  return {};
}

}  // namespace poot::ir
