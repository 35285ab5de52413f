// Walks both shapes at once and cuts wherever the products of axes since the last cut are equal.
// Within two cuts one side must be a single axis (the other refines it), or all axes constant and
// their inner strides a chain of divisors: [6, 4] and [3, 8] refine to [3, 2, 4], but [6, 4] and
// [4, 6] to nothing.
#include "passes/iteration_space.h"

#include <algorithm>

namespace poot::passes {
namespace {

Shape without_units(const Shape& shape) {
  Shape out;
  for (const Dim& d : shape)
    if (!d.is_const(1)) out.push_back(d);
  return out;
}

void inner_strides(std::span<const Dim> axes, std::vector<int64_t>& out) {
  int64_t stride = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    out.push_back(stride);
    stride *= axes[i].value();
  }
  out.push_back(stride);
}

bool refines(std::span<const Dim> a, std::span<const Dim> b) {
  if (a.size() == 1 || b.size() == 1) return true;
  const auto symbolic = [](const Dim& d) { return !d.is_const() || d.is_const(0); };
  if (std::any_of(a.begin(), a.end(), symbolic) || std::any_of(b.begin(), b.end(), symbolic))
    return false;
  std::vector<int64_t> strides;
  inner_strides(a, strides);
  inner_strides(b, strides);
  std::sort(strides.begin(), strides.end());
  for (size_t i = 1; i < strides.size(); ++i)
    if (strides[i] % strides[i - 1] != 0) return false;
  return true;
}

}  // namespace

bool same_space(const Shape& a, const Shape& b, const SymbolTable& symbols) {
  if (a == b) return true;
  const Shape x = without_units(a), y = without_units(b);
  size_t i = 0, j = 0;
  while (i < x.size() && j < y.size()) {
    const size_t from_i = i, from_j = j;
    Dim p = x[i++], q = y[j++];
    while (p != q) {
      const bool grow_x =
          p.hint(symbols) < q.hint(symbols) || (p.hint(symbols) == q.hint(symbols) && i < x.size());
      if (grow_x ? i == x.size() : j == y.size()) return false;
      if (grow_x)
        p *= x[i++];
      else
        q *= y[j++];
    }
    if (!refines(std::span(x).subspan(from_i, i - from_i),
                 std::span(y).subspan(from_j, j - from_j)))
      return false;
  }
  return i == x.size() && j == y.size();
}

}  // namespace poot::passes
