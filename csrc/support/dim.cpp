// Canonical polynomials. Sums and products expand to a sorted list of terms, so that equality is a
// comparison of lists. floordiv and mod take out what divides exactly:
//   floordiv(4*s0 + 7, 4)  ->  s0 + floordiv(3, 4) + 1  ->  s0 + 1
//   mod(6*s0 + 4, 4)       ->  2*mod(s0, 2)
// so that the two spellings of one size that frameworks produce mostly meet. Expansion is bounded:
// past kMaxTerms terms the expression is refused rather than left to grow.
#include "support/dim.h"

#include <algorithm>
#include <numeric>

#include "support/dim_expr.h"
#include "support/errors.h"
#include "support/hash.h"

namespace poot {
namespace {

constexpr size_t kMaxTerms = 4096;

using Term = DimExpr::Term;
using Atom = DimExpr::Atom;

[[noreturn]] void overflow(const char* what) {
  throw InvalidGraph("dim-C2", "a size expression", std::string(what) + " leaves 64 bits");
}

size_t hash_term(const Term& t) {
  size_t h = hash_mix(17, static_cast<size_t>(t.coeff));
  for (const auto& f : t.factors) h = hash_mix(h, f->hash);
  return h;
}

Term multiply(const Term& a, const Term& b) {
  Term t{checked_mul(a.coeff, b.coeff), {}};
  t.factors.reserve(a.factors.size() + b.factors.size());
  std::merge(a.factors.begin(), a.factors.end(), b.factors.begin(), b.factors.end(),
             std::back_inserter(t.factors),
             [](const auto& x, const auto& y) { return DimExpr::compare(*x, *y) < 0; });
  return t;
}

// t / d as a term, if d's factors and coefficient divide t's.
std::optional<Term> divide(const Term& t, const Term& d) {
  if (t.coeff % d.coeff != 0 || d.factors.size() > t.factors.size()) return std::nullopt;
  Term q{t.coeff / d.coeff, {}};
  size_t i = 0;
  for (const auto& f : t.factors) {
    if (i < d.factors.size() && DimExpr::compare(*f, *d.factors[i]) == 0)
      ++i;
    else
      q.factors.push_back(f);
  }
  if (i != d.factors.size()) return std::nullopt;
  return q;
}

// a / b if b divides a as a polynomial, by leading terms.
std::optional<Dim> exact_quotient(const Dim& a, const Dim& b) {
  if (a == b) return Dim(1);
  const std::vector<Term> divisor = DimExpr::terms_of(b);
  if (divisor.empty()) return std::nullopt;
  for (const Term& d : divisor)
    if (d.coeff == INT64_MIN || d.coeff == -1) return std::nullopt;
  Dim rest = a, quotient = 0;
  for (size_t step = 0; step < 64; ++step) {
    const std::vector<Term> terms = DimExpr::terms_of(rest);
    if (terms.empty()) return quotient;
    auto q = divide(terms.front(), divisor.front());
    if (!q) return std::nullopt;
    Dim t = DimExpr::from_term(std::move(*q));
    quotient += t;
    rest = rest - t * b;
  }
  return std::nullopt;
}

Dim binary_atom(char op, const Dim& a, const Dim& b) {
  return DimExpr::from_atom({op, 0, {a, b}});
}

// floordiv(floordiv(x, d) + c, b) = floordiv(x + c*d, d*b), for a numerator that is one division
// and a constant.
std::optional<Dim> fold_nested_division(const std::vector<Term>& terms, int64_t b) {
  if (terms.empty() || terms.size() > 2) return std::nullopt;
  const Term& lead = terms.front();
  if (lead.coeff != 1 || lead.factors.size() != 1 || lead.factors[0]->op != '/')
    return std::nullopt;
  if (terms.size() == 2 && !terms[1].factors.empty()) return std::nullopt;
  const Dim& x = lead.factors[0]->args[0];
  const Dim& d = lead.factors[0]->args[1];
  if (!d.is_const() || d.value() <= 0) return std::nullopt;
  const int64_t c = terms.size() == 2 ? terms[1].coeff : 0;
  return Dim::floordiv(x + Dim(c) * d, Dim(checked_mul(d.value(), b)));
}

Dim floordiv_by_const(const Dim& a, int64_t b) {
  std::vector<Term> whole, rest;
  int64_t constant = 0, g = b;
  for (const Term& t : DimExpr::terms_of(a)) {
    if (t.factors.empty()) {
      whole.push_back({checked_floordiv(t.coeff, b), {}});
      constant = checked_mod(t.coeff, b);
    } else if (t.coeff % b == 0) {
      whole.push_back({t.coeff / b, t.factors});
    } else {
      g = std::gcd(g, t.coeff % g);  // the least integer has no absolute value to take
      rest.push_back(t);
    }
  }
  const Dim quotient = DimExpr::from_terms(std::move(whole));
  if (rest.empty()) return quotient;  // 0 <= constant < b
  for (Term& t : rest) t.coeff /= g;
  constant /= g;
  if (constant != 0) rest.push_back({constant, {}});
  b /= g;
  if (auto folded = fold_nested_division(rest, b)) return quotient + *folded;
  return quotient + binary_atom('/', DimExpr::from_terms(std::move(rest)), Dim(b));
}

Dim mod_by_const(const Dim& a, int64_t b) {
  std::vector<Term> rest;
  int64_t g = b;
  for (Term t : DimExpr::terms_of(a)) {
    t.coeff = checked_mod(t.coeff, b);
    if (t.coeff == 0) continue;
    g = std::gcd(g, t.coeff);
    rest.push_back(std::move(t));
  }
  if (rest.empty()) return Dim(0);
  for (Term& t : rest) t.coeff /= g;
  const Dim r = DimExpr::from_terms(std::move(rest));
  if (r.is_const()) return Dim(g) * Dim(checked_mod(r.value(), b / g));
  return Dim(g) * binary_atom('%', r, Dim(b / g));
}

// max ('M') or min ('m'): flattened, sorted, without operands that another one dominates by a
// constant.
Dim extremum(char op, const Dim& a, const Dim& b) {
  std::vector<Dim> args;
  for (const Dim& d : {a, b}) {
    const DimExpr* e = DimExpr::get(d);
    if (e && e->terms.size() == 1 && e->terms[0].coeff == 1 && e->terms[0].factors.size() == 1 &&
        e->terms[0].factors[0]->op == op)
      args.insert(args.end(), e->terms[0].factors[0]->args.begin(),
                  e->terms[0].factors[0]->args.end());
    else
      args.push_back(d);
  }
  std::vector<Dim> kept;
  for (const Dim& d : args) {
    bool dominated = false;
    for (auto it = kept.begin(); it != kept.end() && !dominated;) {
      const Dim delta = d - *it;
      if (!delta.is_const()) {
        ++it;
      } else if ((op == 'M') ? delta.value() > 0 : delta.value() < 0) {
        it = kept.erase(it);
      } else {
        dominated = true;
      }
    }
    if (!dominated) kept.push_back(d);
  }
  if (kept.size() == 1) return kept[0];
  std::sort(kept.begin(), kept.end(),
            [](const Dim& x, const Dim& y) { return DimExpr::compare(x, y) < 0; });
  return DimExpr::from_atom({op, 0, std::move(kept)});
}

}  // namespace

int64_t checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) overflow("addition");
  return r;
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) overflow("multiplication");
  return r;
}

int64_t checked_floordiv(int64_t a, int64_t b) {
  if (b == 0) throw InvalidGraph("dim-C3", "a size expression", "division by zero");
  if (a == INT64_MIN && b == -1) overflow("division");
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

int64_t checked_mod(int64_t a, int64_t b) {
  if (b == 0) throw InvalidGraph("dim-C3", "a size expression", "modulo by zero");
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

std::vector<Term> DimExpr::terms_of(const Dim& d) {
  if (d.expr_) return d.expr_->terms;
  if (d.value_ == 0) return {};
  return {Term{d.value_, {}}};
}

Dim DimExpr::from_terms(std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return compare(a.factors, b.factors) > 0; });
  std::vector<Term> merged;
  merged.reserve(terms.size());
  for (Term& t : terms) {
    if (!merged.empty() && compare(merged.back().factors, t.factors) == 0)
      merged.back().coeff = checked_add(merged.back().coeff, t.coeff);
    else
      merged.push_back(std::move(t));
  }
  std::erase_if(merged, [](const Term& t) { return t.coeff == 0; });
  if (merged.empty()) return Dim(0);
  if (merged.size() == 1 && merged[0].factors.empty()) return Dim(merged[0].coeff);
  auto e = std::make_shared<DimExpr>();
  e->hash = 7;
  for (const Term& t : merged) e->hash = hash_mix(e->hash, hash_term(t));
  e->terms = std::move(merged);
  Dim d;
  d.expr_ = std::move(e);
  return d;
}

Dim DimExpr::from_term(Term term) {
  std::vector<Term> one;
  one.push_back(std::move(term));
  return from_terms(std::move(one));
}

Dim DimExpr::from_atom(Atom atom) {
  atom.hash = hash_mix(static_cast<size_t>(atom.op), atom.symbol);
  for (const Dim& d : atom.args) atom.hash = hash_mix(atom.hash, d.hash());
  return from_term({1, {std::make_shared<const Atom>(std::move(atom))}});
}

std::strong_ordering DimExpr::compare(const Dim& a, const Dim& b) {
  if (a.expr_ == b.expr_) return a.value_ <=> b.value_;
  if (!a.expr_ || !b.expr_)
    return a.expr_ ? std::strong_ordering::greater : std::strong_ordering::less;
  const auto &x = a.expr_->terms, &y = b.expr_->terms;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (auto c = compare(x[i].factors, y[i].factors); c != 0) return c;
    if (auto c = x[i].coeff <=> y[i].coeff; c != 0) return c;
  }
  return x.size() <=> y.size();
}

std::strong_ordering DimExpr::compare(const Atom& a, const Atom& b) {
  if (&a == &b) return std::strong_ordering::equal;
  if (a.op != b.op) {  // symbols sort before compound atoms
    if (a.op == 's') return std::strong_ordering::less;
    if (b.op == 's') return std::strong_ordering::greater;
    return a.op <=> b.op;
  }
  if (auto c = a.symbol <=> b.symbol; c != 0) return c;
  if (auto c = a.args.size() <=> b.args.size(); c != 0) return c;
  for (size_t i = 0; i < a.args.size(); ++i)
    if (auto c = compare(a.args[i], b.args[i]); c != 0) return c;
  return std::strong_ordering::equal;
}

// Greater degree is greater; among equals, the product with the earlier atoms is greater.
std::strong_ordering DimExpr::compare(const std::vector<AtomRef>& a,
                                      const std::vector<AtomRef>& b) {
  if (auto c = a.size() <=> b.size(); c != 0) return c;
  for (size_t i = 0; i < a.size(); ++i)
    if (auto c = compare(*b[i], *a[i]); c != 0) return c;
  return std::strong_ordering::equal;
}

Dim Dim::symbol(uint32_t index) {
  return DimExpr::from_atom({'s', index, {}});
}

int64_t Dim::value() const {
  if (expr_) throw InternalError("the size " + str() + " is not a constant");
  return value_;
}

bool Dim::is_symbol() const {
  return expr_ && expr_->terms.size() == 1 && expr_->terms[0].coeff == 1 &&
         expr_->terms[0].factors.size() == 1 && expr_->terms[0].factors[0]->op == 's';
}

uint32_t Dim::symbol_index() const {
  if (!is_symbol()) throw InternalError("the size " + str() + " is not a plain symbol");
  return expr_->terms[0].factors[0]->symbol;
}

std::optional<Dim::Linear> Dim::linear() const {
  if (!expr_ || expr_->terms.size() > 2) return std::nullopt;
  const Term& first = expr_->terms[0];  // the constant comes last
  if (first.coeff <= 0 || first.factors.size() != 1 || first.factors[0]->op != 's')
    return std::nullopt;
  Linear found{first.factors[0]->symbol, first.coeff, 0};
  if (expr_->terms.size() == 2) {
    if (!expr_->terms[1].factors.empty()) return std::nullopt;
    found.offset = expr_->terms[1].coeff;
  }
  return found;
}

size_t Dim::hash() const {
  return expr_ ? expr_->hash : hash_mix(3, static_cast<size_t>(value_));
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.expr_ == b.expr_) return a.value_ == b.value_;
  if (!a.expr_ || !b.expr_ || a.expr_->hash != b.expr_->hash) return false;
  return DimExpr::compare(a, b) == 0;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return Dim(checked_add(a.value_, b.value_));
  if (a.is_const(0)) return b;
  if (b.is_const(0)) return a;
  std::vector<Term> terms = DimExpr::terms_of(a);
  for (Term& t : DimExpr::terms_of(b)) terms.push_back(std::move(t));
  if (terms.size() > kMaxTerms) overflow("a sum of too many terms");
  return DimExpr::from_terms(std::move(terms));
}

Dim operator-(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) {
    int64_t r;
    if (__builtin_sub_overflow(a.value_, b.value_, &r)) overflow("subtraction");
    return Dim(r);
  }
  return a + b * Dim(-1);
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return Dim(checked_mul(a.value_, b.value_));
  if (a.is_const(0) || b.is_const(0)) return Dim(0);
  if (a.is_const(1)) return b;
  if (b.is_const(1)) return a;
  const std::vector<Term> x = DimExpr::terms_of(a), y = DimExpr::terms_of(b);
  if (x.size() * y.size() > kMaxTerms) overflow("a product of too many terms");
  std::vector<Term> terms;
  terms.reserve(x.size() * y.size());
  for (const Term& s : x)
    for (const Term& t : y) terms.push_back(multiply(s, t));
  return DimExpr::from_terms(std::move(terms));
}

Dim Dim::floordiv(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return Dim(checked_floordiv(a.value_, b.value_));
  if (b.is_const()) {
    if (b.value_ == 0) checked_floordiv(1, 0);
    if (b.value_ < 0) return floordiv(a * Dim(-1), Dim(checked_mul(b.value_, -1)));
    return floordiv_by_const(a, b.value_);
  }
  if (a.is_const(0)) return a;
  if (auto q = exact_quotient(a, b)) return *q;
  return binary_atom('/', a, b);
}

Dim Dim::mod(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return Dim(checked_mod(a.value_, b.value_));
  if (b.is_const()) {
    if (b.value_ == 0) checked_mod(1, 0);
    if (b.value_ > 0) return mod_by_const(a, b.value_);
  }
  if (a.is_const(0) || exact_quotient(a, b)) return Dim(0);
  return binary_atom('%', a, b);
}

Dim Dim::max(const Dim& a, const Dim& b) {
  return extremum('M', a, b);
}
Dim Dim::min(const Dim& a, const Dim& b) {
  return extremum('m', a, b);
}

Dim numel(const Shape& shape) {
  Dim n = 1;
  for (const Dim& d : shape) n *= d;
  return n;
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size());
  Dim step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    if (!shape[i].is_const(0)) step *= shape[i];
  }
  return strides;
}

}  // namespace poot
