// Division of an affine expression by a size D: terms whose factor is a multiple of D leave the
// division; if the rest provably lies in [0, D) it vanishes, else it stays as an atom:
//   (64*h + d) / 64 = h,  (64*h + d) % 64 = d   for d < 64; also with 64 replaced by a symbol.
#include "codegen/generate/affine.h"

namespace poot::codegen {
namespace {

Affine combine(const Affine& a, const Affine& b, const Dim& scale) {
  Affine out;
  out.offset = a.offset + b.offset * scale;
  size_t i = 0, j = 0;
  while (i < a.terms.size() || j < b.terms.size()) {
    AffineTerm t;
    if (j == b.terms.size() || (i < a.terms.size() && a.terms[i].atom < b.terms[j].atom)) {
      t = a.terms[i++];
    } else if (i == a.terms.size() || b.terms[j].atom < a.terms[i].atom) {
      t = {b.terms[j].atom, b.terms[j].factor * scale};
      j++;
    } else {
      t = {a.terms[i].atom, a.terms[i].factor + b.terms[j].factor * scale};
      i++;
      j++;
    }
    if (!t.factor.is_const(0)) out.terms.push_back(std::move(t));
  }
  return out;
}

}  // namespace

std::optional<Dim> divide_exactly(const Dim& a, const Dim& b) {
  if (b.is_const(0)) return std::nullopt;
  if (b.is_const(1) || a.is_const(0)) return a;
  if (a == b) return Dim(1);
  const Dim q = Dim::floordiv(a, b);
  return q * b == a ? std::optional<Dim>(q) : std::nullopt;
}

Dim Affine::factor(AtomId a) const {
  for (const AffineTerm& t : terms)
    if (t.atom == a) return t.factor;
  return 0;
}

std::string Affine::key() const {
  std::string s = offset.str();
  for (const AffineTerm& t : terms)
    s += " + v" + std::to_string(t.atom.index) + "*(" + t.factor.str() + ")";
  return s;
}

Affine operator+(const Affine& a, const Affine& b) {
  return combine(a, b, 1);
}
Affine operator-(const Affine& a, const Affine& b) {
  return combine(a, b, -1);
}
Affine operator*(const Affine& a, const Dim& d) {
  return combine(Affine(), a, d);
}

AtomId Space::intern(Atom atom) {
  std::string key = std::to_string(static_cast<int>(atom.kind)) + " " + atom.operand.key() + " / " +
                    atom.divisor.str() + " n" + std::to_string(atom.node.index);
  const auto [it, fresh] =
      interned_.try_emplace(std::move(key), AtomId(static_cast<uint32_t>(atoms_.size())));
  if (fresh) atoms_.push_back(std::move(atom));
  return it->second;
}

AtomId Space::var(Dim extent) {
  atoms_.push_back({.kind = AtomKind::Var, .bound = std::move(extent)});
  return AtomId(static_cast<uint32_t>(atoms_.size() - 1));
}

static Affine single(AtomId a) {
  Affine out;
  out.terms.push_back({a, 1});
  return out;
}

Affine Space::loaded(NodeId node, Dim bound) {
  return single(intern({.kind = AtomKind::Loaded, .bound = std::move(bound), .node = node}));
}

bool Space::proves_nonnegative(const Dim& d) const {
  return d.range(symbols_).lo >= 0;
}

std::optional<Dim> Space::extreme(const Affine& a, int sign) const {
  Dim out = a.offset;
  for (const AffineTerm& t : a.terms) {
    const Range r = t.factor.range(symbols_);
    if (r.lo < 0 && r.hi > 0) return std::nullopt;
    if ((r.lo >= 0) == (sign > 0))
      out = out + t.factor * (atom(t.atom).bound - Dim(1));
    else if (atom(t.atom).negative)
      return std::nullopt;
  }
  return out;
}
bool Space::proves_nonnegative(const Affine& a) const {
  const auto lowest = extreme(a, -1);
  return lowest && proves_nonnegative(*lowest);
}
bool Space::proves_less(const Affine& a, const Dim& limit) const {
  const auto highest = extreme(a, 1);
  return highest && proves_nonnegative(limit - Dim(1) - *highest);
}

namespace {
// a = d * whole + rest, with every provable multiple of d in `whole`.
void divide_terms(const Affine& a, const Dim& d, Affine& whole, Affine& rest) {
  if (const auto q = divide_exactly(a.offset, d)) {
    whole.offset = *q;
  } else if (a.offset.is_const() && d.is_const()) {
    whole.offset = Dim::floordiv(a.offset, d);
    rest.offset = a.offset - whole.offset * d;
  } else {
    rest.offset = a.offset;
  }
  for (const AffineTerm& t : a.terms) {
    if (const auto q = divide_exactly(t.factor, d))
      whole.terms.push_back({t.atom, *q});
    else
      rest.terms.push_back(t);
  }
}
}  // namespace

Affine Space::floordiv(const Affine& a, const Dim& d) {
  if (d.is_const(1) || d.is_const(0)) return a;  // of an empty dim there are no positions
  Affine whole, rest;
  divide_terms(a, d, whole, rest);
  if (rest == Affine() || (proves_nonnegative(rest) && proves_less(rest, d))) return whole;
  // The rest of a sum that is never negative may be, where the whole part was what kept it so.
  if (!proves_nonnegative(rest) && proves_nonnegative(a)) {
    whole = Affine();
    rest = a;
  }
  const auto highest = extreme(rest, 1);
  Dim bound = highest ? Dim::floordiv(*highest, d) + Dim(1) : Dim(int64_t{1} << 40);
  return whole + single(intern({.kind = AtomKind::Div,
                                .bound = std::move(bound),
                                .negative = !proves_nonnegative(rest),
                                .operand = rest,
                                .divisor = d}));
}

Affine Space::mod(const Affine& a, const Dim& d) {
  if (d.is_const(1) || d.is_const(0)) return Affine();
  Affine whole, rest;
  divide_terms(a, d, whole, rest);
  if (rest == Affine() || (proves_nonnegative(rest) && proves_less(rest, d))) return rest;
  return single(intern({.kind = AtomKind::Mod, .bound = d, .operand = rest, .divisor = d}));
}

Affine Space::joined(Affine a) {
  for (size_t i = 0; i < a.terms.size();) {
    const AffineTerm rest = a.terms[i++];
    if (atom(rest.atom).kind != AtomKind::Mod) continue;
    const Affine operand = atom(rest.atom).operand;
    const Dim divisor = atom(rest.atom).divisor;
    const Affine whole = floordiv(operand, divisor);
    if (whole.terms.size() != 1 || whole != single(whole.terms[0].atom)) continue;
    const AtomId quotient = whole.terms[0].atom;
    if (atom(quotient).kind != AtomKind::Div || atom(quotient).operand != operand ||
        a.factor(quotient) != rest.factor * divisor)
      continue;
    a = a - whole * (rest.factor * divisor) - single(rest.atom) * rest.factor +
        operand * rest.factor;
    i = 0;
  }
  return a;
}

}  // namespace poot::codegen
