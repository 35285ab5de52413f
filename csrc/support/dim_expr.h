// The canonical node behind a symbolic Dim. Private to support/dim*.cpp.
//
// Order of terms: higher degree first, then lexicographic by factors, the constant last; this is a
// monomial order, so exact division works by leading terms.
#pragma once

#include <compare>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "support/dim.h"

namespace poot {

struct DimExpr {
  // 's' symbol; '/', '%' of two, 'M', 'm' of two or more canonical Dims.
  struct Atom {
    char op;
    uint32_t symbol = 0;
    std::vector<Dim> args;
    size_t hash = 0;
  };
  using AtomRef = std::shared_ptr<const Atom>;
  struct Term {
    int64_t coeff = 0;
    std::vector<AtomRef> factors;  // sorted; repeated for powers; empty: the constant term
  };
  std::vector<Term> terms;  // sorted, no zero coefficients, not only a constant
  size_t hash = 0;

  static std::vector<Term> terms_of(const Dim& d);
  static const DimExpr* get(const Dim& d) { return d.expr_.get(); }
  // Sorts, merges equal products, drops zeros.
  static Dim from_terms(std::vector<Term> terms);
  static Dim from_atom(Atom atom);
  static Dim from_term(Term term);

  static std::strong_ordering compare(const Dim& a, const Dim& b);
  static std::strong_ordering compare(const Atom& a, const Atom& b);
  static std::strong_ordering compare(const std::vector<AtomRef>& a, const std::vector<AtomRef>& b);
};

// Exact int64 arithmetic; overflow throws InvalidGraph dim-C2, division by zero dim-C3.
int64_t checked_add(int64_t a, int64_t b);
int64_t checked_mul(int64_t a, int64_t b);
int64_t checked_floordiv(int64_t a, int64_t b);
int64_t checked_mod(int64_t a, int64_t b);

}  // namespace poot
