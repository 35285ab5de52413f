// Symbolic integers: a size, stride or offset is a constant or an expression over size symbols.
//
// A Dim is an immutable value in canonical form: a sum of products of atoms, where an atom is a
// symbol or floordiv/mod/max/min of canonical Dims. Equality is structural, so `a == b` proves
// equality; its failure proves nothing. Arithmetic is exact over int64; overflow at evaluation
// throws. Division and modulo round toward minus infinity, as Python's do.
//
// Symbols are numbered within one graph and print as s0, s1, …; their ranges live in SymbolTable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace poot {

struct DimExpr;  // canonical expression node, private to dim.cpp

struct Range {
  int64_t lo = 0;
  int64_t hi = INT64_MAX;  // inclusive; INT64_MAX means unbounded
  bool contains(int64_t v) const { return lo <= v && v <= hi; }
};

struct Symbol {
  Range range;
  int64_t hint = 0;  // the size met when the graph was traced; schedules are chosen for it
};
using SymbolTable = std::vector<Symbol>;

class Dim {
 public:
  Dim() = default;  // 0
  Dim(int64_t value) : value_(value) {}
  Dim(int value) : value_(value) {}
  static Dim symbol(uint32_t index);
  // "4*s0 + floordiv(s1, 2)"; throws InvalidGraph dim-C1 with the column of the first bad
  // character.
  static Dim parse(std::string_view text);

  bool is_const() const { return expr_ == nullptr; }
  bool is_const(int64_t v) const { return is_const() && value_ == v; }
  int64_t value() const;  // throws InternalError if symbolic
  bool is_symbol() const;
  uint32_t symbol_index() const;  // of a plain symbol
  // Of factor*symbol + offset with a positive factor, which one value determines.
  struct Linear {
    uint32_t symbol = 0;
    int64_t factor = 1, offset = 0;
  };
  std::optional<Linear> linear() const;

  int64_t eval(std::span<const int64_t> symbols) const;
  int64_t hint(const SymbolTable& table) const;
  Range range(const SymbolTable& table) const;  // conservative interval
  // True if `this` is provably divisible by d (every coefficient is).
  bool divisible_by(int64_t d) const;
  void collect_symbols(std::vector<uint32_t>& out) const;  // appended, sorted, unique
  // Replaces symbol i by replacement[i].
  Dim substitute(std::span<const Dim> replacement) const;

  std::string str() const;
  size_t hash() const;

  friend bool operator==(const Dim& a, const Dim& b);
  friend bool operator!=(const Dim& a, const Dim& b) { return !(a == b); }
  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  Dim& operator+=(const Dim& o) { return *this = *this + o; }
  Dim& operator*=(const Dim& o) { return *this = *this * o; }
  static Dim floordiv(const Dim& a, const Dim& b);
  static Dim mod(const Dim& a, const Dim& b);
  static Dim max(const Dim& a, const Dim& b);
  static Dim min(const Dim& a, const Dim& b);
  static Dim ceildiv(const Dim& a, const Dim& b) { return floordiv(a + b - Dim(1), b); }

  // A node-by-node view for lowering (index expressions, size programs): calls exactly one of the
  // visitor's functions. Implemented by every consumer that walks a Dim.
  struct Visitor {
    virtual ~Visitor() = default;
    virtual void constant(int64_t v) = 0;
    virtual void symbol(uint32_t index) = 0;
    // op is one of '+', '*', '/', '%', 'M' (max), 'm' (min); operands in order.
    virtual void apply(char op, std::span<const Dim> operands) = 0;
  };
  void visit(Visitor& v) const;

 private:
  int64_t value_ = 0;
  std::shared_ptr<const DimExpr> expr_;
  friend struct DimExpr;
};

using Shape = std::vector<Dim>;

Dim numel(const Shape& shape);
Shape contiguous_strides(const Shape& shape);  // in elements; a size-0 dim counts as 1
std::string str(const Shape& shape);           // "[s0, 4096]"

}  // namespace poot

template <>
struct std::hash<poot::Dim> {
  size_t operator()(const poot::Dim& d) const noexcept { return d.hash(); }
};
