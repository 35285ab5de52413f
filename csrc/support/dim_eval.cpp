// Walks over canonical size expressions: evaluation, intervals, substitution, visiting.
//
// Intervals are conservative and saturate: INT64_MAX and INT64_MIN stand for "unbounded".
#include <algorithm>

#include "support/dim.h"
#include "support/dim_expr.h"
#include "support/errors.h"

namespace poot {
namespace {

int64_t saturate(__int128 v) {
  if (v >= INT64_MAX) return INT64_MAX;
  if (v <= INT64_MIN) return INT64_MIN;
  return static_cast<int64_t>(v);
}

bool infinite(int64_t v) {
  return v == INT64_MAX || v == INT64_MIN;
}

int64_t bound_add(int64_t a, int64_t b) {
  if (infinite(a)) return a;
  if (infinite(b)) return b;
  return saturate(static_cast<__int128>(a) + b);
}

int64_t bound_mul(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (infinite(a) || infinite(b)) return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
  return saturate(static_cast<__int128>(a) * b);
}

int64_t bound_div(int64_t a, int64_t b) {  // b > 0
  if (b == INT64_MAX) return a >= 0 ? 0 : -1;
  if (infinite(a)) return a;
  return checked_floordiv(a, b);
}

template <class F>
Range corners(Range a, Range b, F f) {
  const int64_t v[] = {f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)};
  return {*std::min_element(v, v + 4), *std::max_element(v, v + 4)};
}

Range atom_range(const DimExpr::Atom& a, const SymbolTable& table) {
  if (a.op == 's')
    return a.symbol < table.size() ? table[a.symbol].range : Range{INT64_MIN, INT64_MAX};
  Range r = a.args[0].range(table);
  for (size_t i = 1; i < a.args.size(); ++i) {
    const Range b = a.args[i].range(table);
    switch (a.op) {
      case 'M':
        r = {std::max(r.lo, b.lo), std::max(r.hi, b.hi)};
        break;
      case 'm':
        r = {std::min(r.lo, b.lo), std::min(r.hi, b.hi)};
        break;
      case '/':
        r = b.lo > 0 ? corners(r, b, bound_div) : Range{INT64_MIN, INT64_MAX};
        break;
      default:
        if (b.lo <= 0)
          r = {INT64_MIN, INT64_MAX};
        else if (r.lo < 0 || r.hi >= b.lo)
          r = {0, r.lo >= 0 ? std::min(r.hi, b.hi == INT64_MAX ? b.hi : b.hi - 1)
                            : (b.hi == INT64_MAX ? b.hi : b.hi - 1)};
    }
  }
  return r;
}

Dim apply_atom(char op, const Dim& a, const Dim& b) {
  switch (op) {
    case '/':
      return Dim::floordiv(a, b);
    case '%':
      return Dim::mod(a, b);
    case 'M':
      return Dim::max(a, b);
    default:
      return Dim::min(a, b);
  }
}

int64_t eval_atom(const DimExpr::Atom& a, std::span<const int64_t> symbols) {
  if (a.op == 's') {
    if (a.symbol >= symbols.size())
      throw InvalidGraph("symbol-C1", "s" + std::to_string(a.symbol), "the symbol has no value");
    return symbols[a.symbol];
  }
  int64_t v = a.args[0].eval(symbols);
  for (size_t i = 1; i < a.args.size(); ++i) {
    const int64_t b = a.args[i].eval(symbols);
    switch (a.op) {
      case '/':
        v = checked_floordiv(v, b);
        break;
      case '%':
        v = checked_mod(v, b);
        break;
      case 'M':
        v = std::max(v, b);
        break;
      default:
        v = std::min(v, b);
    }
  }
  return v;
}

void collect(const Dim& d, std::vector<uint32_t>& out) {
  const DimExpr* e = DimExpr::get(d);
  if (!e) return;
  for (const auto& t : e->terms)
    for (const auto& f : t.factors) {
      if (f->op == 's') out.push_back(f->symbol);
      for (const Dim& a : f->args) collect(a, out);
    }
}

}  // namespace

int64_t Dim::eval(std::span<const int64_t> symbols) const {
  if (!expr_) return value_;
  int64_t sum = 0;
  for (const auto& t : expr_->terms) {
    int64_t product = t.coeff;
    for (const auto& f : t.factors) product = checked_mul(product, eval_atom(*f, symbols));
    sum = checked_add(sum, product);
  }
  return sum;
}

int64_t Dim::hint(const SymbolTable& table) const {
  if (!expr_) return value_;
  std::vector<int64_t> hints;
  hints.reserve(table.size());
  for (const Symbol& s : table) hints.push_back(s.hint);
  return eval(hints);
}

Range Dim::range(const SymbolTable& table) const {
  if (!expr_) return {value_, value_};
  Range sum{0, 0};
  for (const auto& t : expr_->terms) {
    Range product{t.coeff, t.coeff};
    for (const auto& f : t.factors) product = corners(product, atom_range(*f, table), bound_mul);
    sum = {bound_add(sum.lo, product.lo), bound_add(sum.hi, product.hi)};
  }
  return sum;
}

bool Dim::divisible_by(int64_t d) const {
  if (d == 0) return false;
  if (!expr_) return d == -1 || value_ % d == 0;
  return std::all_of(expr_->terms.begin(), expr_->terms.end(),
                     [d](const auto& t) { return d == -1 || t.coeff % d == 0; });
}

void Dim::collect_symbols(std::vector<uint32_t>& out) const {
  if (!expr_) return;
  collect(*this, out);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
}

Dim Dim::substitute(std::span<const Dim> replacement) const {
  if (!expr_) return *this;
  Dim sum = 0;
  for (const auto& t : expr_->terms) {
    Dim product = t.coeff;
    for (const auto& f : t.factors) {
      if (f->op == 's') {
        if (f->symbol >= replacement.size())
          throw InvalidGraph("symbol-C1", "s" + std::to_string(f->symbol),
                             "the symbol has no replacement");
        product *= replacement[f->symbol];
        continue;
      }
      Dim a = f->args[0].substitute(replacement);
      for (size_t i = 1; i < f->args.size(); ++i)
        a = apply_atom(f->op, a, f->args[i].substitute(replacement));
      product *= a;
    }
    sum += product;
  }
  return sum;
}

void Dim::visit(Visitor& v) const {
  if (!expr_) return v.constant(value_);
  if (expr_->terms.size() > 1) {
    std::vector<Dim> terms;
    for (const auto& t : expr_->terms) terms.push_back(DimExpr::from_term(t));
    return v.apply('+', terms);
  }
  const auto& t = expr_->terms[0];
  if (t.coeff == 1 && t.factors.size() == 1) {
    const auto& f = *t.factors[0];
    return f.op == 's' ? v.symbol(f.symbol) : v.apply(f.op, f.args);
  }
  std::vector<Dim> factors;
  if (t.coeff != 1) factors.push_back(Dim(t.coeff));
  for (const auto& f : t.factors) factors.push_back(DimExpr::from_term({1, {f}}));
  v.apply('*', factors);
}

}  // namespace poot
