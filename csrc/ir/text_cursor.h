// Reads the text form's tokens. Skips blanks and `#` comments; every failure throws InvalidGraph
// with "line:column".
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace poot::ir {

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  [[noreturn]] void fail(const std::string& detail) const { fail_at(at_, "parse-C1", detail); }
  [[noreturn]] void fail_at(size_t at, const std::string& constraint,
                            const std::string& detail) const;
  size_t position() const { return at_; }
  size_t skip();  // to the next token; returns its position
  bool at_end() { return skip() == text_.size(); }

  char peek();  // '\0' at the end
  bool take(char c);
  bool take(std::string_view symbol);
  void expect(char c);
  void expect(std::string_view symbol);
  std::string_view peek_word();  // may be empty
  std::string_view word();
  bool take_word(std::string_view w);
  void expect_word(std::string_view w);
  std::string name();             // identifier or string
  std::string string();           // "…"
  std::string_view value_name();  // %name, without the sign
  int64_t integer();
  uint32_t index();
  int64_t bound();  // integer, inf or -inf
  Dim dim();        // up to , ) ] } or the end of the line
  TensorType type();
  Layout layout();  // after the word `layout`
  Scalar scalar();  // "f32 0.5"
  Attr attr(AttrType type);
  Attr typed_attr();  // "float 0.5"

  // open item, item, … close
  template <class F>
  void list(char open, char close, F item) {
    expect(open);
    if (take(close)) return;
    do item();
    while (take(','));
    expect(close);
  }

 private:
  std::string_view number();
  double real();
  bool boolean();
  DType dtype();
  Shape dims();

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace poot::ir
