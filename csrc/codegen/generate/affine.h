// Affine expressions over iteration variables, with symbolic coefficients: what an index map is
// made of before it becomes a tile program's index expressions. What is not affine (division or
// modulo that does not cancel, a loaded index) is an atom with a known range.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/dim.h"
#include "support/ids.h"

namespace poot::codegen {

using AtomId = Id<struct AtomTag>;
using NodeId = Id<struct NodeTag>;  // of an Expressions table

struct AffineTerm {
  AtomId atom;
  Dim factor;
  friend bool operator==(const AffineTerm&, const AffineTerm&) = default;
};
struct Affine {
  Dim offset = 0;
  std::vector<AffineTerm> terms;  // by atom, factors not 0

  Affine() = default;
  Affine(Dim d) : offset(std::move(d)) {}
  Affine(int64_t v) : offset(v) {}
  bool is_constant() const { return terms.empty(); }
  Dim factor(AtomId a) const;  // 0 if absent
  std::string key() const;     // equal text, equal expression
  friend bool operator==(const Affine&, const Affine&) = default;
};
Affine operator+(const Affine& a, const Affine& b);
Affine operator-(const Affine& a, const Affine& b);
Affine operator*(const Affine& a, const Dim& d);

enum class AtomKind : uint8_t { Var, Div, Mod, Loaded };
struct Atom {
  AtomKind kind = AtomKind::Var;
  Dim bound;              // atom < bound
  bool negative = false;  // whether it may be negative: a division outside its guard
  Affine operand;         // Div, Mod
  Dim divisor;
  NodeId node;  // Loaded: the integer expression, already wrapped into [0, bound)
};

// An exact quotient, if one is provable.
std::optional<Dim> divide_exactly(const Dim& a, const Dim& b);

// The atoms of one kernel. Variables are atoms of kind Var; merging and splitting them is
// iteration_space's job.
class Space {
 public:
  explicit Space(SymbolTable symbols) : symbols_(std::move(symbols)) {}
  const SymbolTable& symbols() const { return symbols_; }
  AtomId var(Dim extent);
  Affine loaded(NodeId node, Dim bound);
  Affine floordiv(const Affine& a, const Dim& d);
  Affine mod(const Affine& a, const Dim& d);
  // The same number, where quotient and remainder of one division add up to what was divided.
  Affine joined(Affine a);
  bool proves_nonnegative(const Dim& d) const;
  bool proves_nonnegative(const Affine& a) const;
  bool proves_less(const Affine& a, const Dim& limit) const;
  size_t size() const { return atoms_.size(); }
  const Atom& atom(AtomId a) const { return atoms_.at(a.index); }
  Atom& atom(AtomId a) { return atoms_.at(a.index); }

 private:
  AtomId intern(Atom atom);
  // Bound of an affine expression over all positions: largest (sign 1) or smallest (sign -1).
  std::optional<Dim> extreme(const Affine& a, int sign) const;
  SymbolTable symbols_;
  std::vector<Atom> atoms_;
  std::map<std::string, AtomId> interned_;
};

}  // namespace poot::codegen
