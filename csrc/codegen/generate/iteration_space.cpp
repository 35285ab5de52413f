// Splitting: a division atom (a*v + ..) / D with D = a*m and v's extent a multiple of m goes away
// if v becomes v1*m + v0. So root [B, S, 1024] read through reshape [B, S, 16, 64] becomes
// [B, S, 16, 64] and every access is affine. Each split restarts the walk with the new variables.
//
// Merging: neighbours (a, b) become one variable of extent A*B if in every affine expression a's
// factor is B times b's; then the expression holds with b renamed and a dropped.
#include "codegen/generate/iteration_space.h"

#include <algorithm>
#include <functional>

namespace poot::codegen {
namespace {

constexpr int kMaxSplits = 64;

// Pieces of one root dim, outermost first.
using Pieces = std::vector<Dim>;

struct Piece {
  size_t dim, index;
};

Coordinates make_vars(Region& r, const std::vector<RootDim>& root,
                      const std::vector<Pieces>& pieces, std::vector<Piece>& origin) {
  Coordinates out;
  for (size_t d = 0; d < root.size(); d++) {
    Affine c;
    for (size_t i = 0; i < pieces[d].size(); i++) {
      c = c * pieces[d][i];
      if (pieces[d][i].is_const(1)) continue;
      const AtomId v = r.space.var(pieces[d][i]);
      r.vars.push_back({v, root[d].role});
      origin.push_back({d, i});
      Affine one;
      one.terms.push_back({v, 1});
      c = c + one;
    }
    out.push_back(std::move(c));
  }
  return out;
}

// What a region's results and checks reach. Folding and pruning leave nodes and atoms that nothing
// reads; those must neither cause a split nor forbid a merge.
class Liveness {
 public:
  explicit Liveness(Region& r) : r_(r), atoms_(r.space.size()) {
    r.live.assign(r.nodes.size(), false);
    for (const Check& c : r.checks) mark(c.condition);
    for (const Result& s : r.results) {
      mark(s.value);
      mark(s.index);
      mark(s.guard);
    }
  }
  bool atom(uint32_t i) const { return atoms_[i]; }

  void each_affine(const std::function<void(Affine&)>& f) {
    const auto guarded = [&](Guard& g) {
      for (GuardTerm& t : g) f(t.index);
    };
    for (uint32_t i = 0; i < r_.nodes.size(); i++) {
      if (!r_.live[i]) continue;
      f(r_.nodes.at(NodeId(i)).index);
      guarded(r_.nodes.at(NodeId(i)).guard);
    }
    for (Result& s : r_.results) {
      f(s.index);
      guarded(s.guard);
    }
    for (uint32_t i = 0; i < atoms_.size(); i++)
      if (atoms_[i]) f(r_.space.atom(AtomId(i)).operand);
  }

 private:
  void mark(NodeId n) {
    if (r_.live[n.index]) return;
    r_.live[n.index] = true;
    const Node& node = r_.nodes.at(n);
    for (const NodeId a : node.args) mark(a);
    mark(node.index);
    mark(node.guard);
  }
  void mark(const Guard& g) {
    for (const GuardTerm& t : g) mark(t.index);
  }
  void mark(const Affine& a) {
    for (const AffineTerm& t : a.terms) {
      if (atoms_[t.atom.index]) continue;
      atoms_[t.atom.index] = true;
      const Atom& atom = r_.space.atom(t.atom);
      if (atom.kind == AtomKind::Loaded) mark(atom.node);
      mark(atom.operand);
    }
  }

  Region& r_;
  std::vector<bool> atoms_;
};

// Finds a split that takes a term out of some division; false if there is none.
bool split_one(const Region& r, const Liveness& live, const std::vector<Piece>& origin,
               std::vector<Pieces>& pieces) {
  for (uint32_t i = 0; i < r.space.size(); i++) {
    const Atom& atom = r.space.atom(AtomId(i));
    if (!live.atom(i) || (atom.kind != AtomKind::Div && atom.kind != AtomKind::Mod)) continue;
    for (const AffineTerm& t : atom.operand.terms) {
      const auto v = std::find_if(r.vars.begin(), r.vars.end(),
                                  [&](const IterVar& x) { return x.atom == t.atom; });
      if (v == r.vars.end()) continue;
      const bool reversed = !r.space.proves_nonnegative(t.factor);  // by a flip
      const auto inner = divide_exactly(atom.divisor, reversed ? t.factor * Dim(-1) : t.factor);
      if (!inner || inner->is_const(1) || !r.space.proves_nonnegative(*inner)) continue;
      const auto outer = divide_exactly(r.extent(*v), *inner);
      if (!outer || outer->is_const(1) || outer->is_const(0)) continue;
      const Piece p = origin[static_cast<size_t>(v - r.vars.begin())];
      pieces[p.dim][p.index] = *outer;
      pieces[p.dim].insert(pieces[p.dim].begin() + static_cast<std::ptrdiff_t>(p.index) + 1,
                           *inner);
      return true;
    }
  }
  return false;
}

bool merge(Region& r, Liveness& live, size_t outer, size_t inner) {
  const IterVar a = r.vars[outer], b = r.vars[inner];
  if (a.role != b.role) return false;
  const Dim size = r.extent(b);
  bool ok = true;
  live.each_affine([&](Affine& e) { ok = ok && e.factor(a.atom) == e.factor(b.atom) * size; });
  if (!ok) return false;
  live.each_affine([&](Affine& e) {
    std::erase_if(e.terms, [&](const AffineTerm& t) { return t.atom == a.atom; });
  });
  r.space.atom(b.atom).bound = r.extent(a) * size;
  r.vars.erase(r.vars.begin() + static_cast<std::ptrdiff_t>(outer));
  return true;
}

void order_free_vars(Region& r) {
  if (r.results.empty()) return;
  const SymbolTable& symbols = r.space.symbols();
  const Affine& index = r.order ? *r.order : r.results[0].index;
  std::stable_sort(r.vars.begin(), r.vars.end(), [&](const IterVar& a, const IterVar& b) {
    if (a.role != b.role) return a.role < b.role;
    if (a.role == Role::Reduced) return false;
    return index.factor(a.atom).hint(symbols) > index.factor(b.atom).hint(symbols);
  });
}

}  // namespace

std::vector<IterVar> Region::vars_of(Role role) const {
  std::vector<IterVar> out;
  for (const IterVar& v : vars)
    if (v.role == role) out.push_back(v);
  return out;
}

Region build_region(const SymbolTable& symbols, std::vector<RootDim> root, const Walk& walk) {
  std::vector<Pieces> pieces;
  for (const RootDim& d : root) pieces.push_back({d.extent});
  for (int splits = 0;; splits++) {
    Region r(symbols);
    std::vector<Piece> origin;
    const Coordinates at = make_vars(r, root, pieces, origin);
    walk(r, at);
    Liveness live(r);
    if (splits < kMaxSplits && split_one(r, live, origin, pieces)) continue;
    order_free_vars(r);
    for (size_t i = r.vars.size(); i-- > 1;) merge(r, live, i - 1, i);
    return r;
  }
}

}  // namespace poot::codegen
