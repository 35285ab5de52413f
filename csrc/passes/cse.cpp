// Common subexpressions: two pure equations of equal op, operands, attributes, body and provenance
// group compute the same bits, so the later one's results become the earlier one's. One forward
// sweep with a hash table; operands are resolved on the way, so chains merge in one go. Equality is
// bitwise (0.0 and -0.0 differ). Which op it is does not matter.
//
// Two graph outputs stay two values: the caller gets two tensors.
#include <bit>
#include <unordered_map>

#include "passes/pass.h"

namespace poot::passes {
namespace {

using ir::ValueId;

size_t hash_of(double v) {
  return std::hash<uint64_t>{}(std::bit_cast<uint64_t>(v));
}
template <class T>
size_t hash_of(const T& v) {
  return std::hash<T>{}(v);
}
size_t hash_of(DType v) {
  return static_cast<size_t>(v);
}
size_t hash_of(std::monostate) {
  return 0;
}
template <class T>
size_t hash_of(const std::vector<T>& list) {
  size_t h = list.size();
  for (const T& v : list) h = hash_mix(h, hash_of(v));
  return h;
}

bool same(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}
template <class T>
bool same(const T& a, const T& b) {
  return a == b;
}
template <>
bool same(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return same(x, y); });
}

size_t hash_of(const ir::Eqn& e) {
  size_t h = hash_mix(static_cast<size_t>(e.op), e.group.index);
  for (const ir::Operand& o : e.inputs)
    h = hash_mix(h, ir::is_value(o) ? std::get<ValueId>(o).index
                                    : std::hash<std::string>{}(std::get<ir::Scalar>(o).str()));
  for (const ir::Attr& a : e.attrs) {
    h = hash_mix(h, a.index());
    h = hash_mix(h, std::visit([](const auto& v) { return hash_of(v); }, a));
  }
  return h;
}

bool same_attr(const ir::Attr& a, const ir::Attr& b) {
  return a.index() == b.index() &&
         std::visit([&](const auto& v) { return same(v, std::get<std::decay_t<decltype(v)>>(b)); },
                    a);
}

bool equal(const ir::Eqn& a, const ir::Eqn& b) {
  if (a.op != b.op || a.group != b.group || a.inputs != b.inputs ||
      a.attrs.size() != b.attrs.size() || a.outs.size() != b.outs.size())
    return false;
  for (size_t i = 0; i < a.attrs.size(); ++i)
    if (!same_attr(a.attrs[i], b.attrs[i])) return false;
  if (!a.body || !b.body) return a.body == b.body;
  return a.body == b.body || a.body->str() == b.body->str();
}

}  // namespace

bool cse(ir::Graph& graph, PassContext&) {
  std::vector<bool> is_output(graph.value_count(), false);
  for (const ir::GraphOutput& out : graph.outputs()) is_output[out.value.index] = true;
  std::vector<ValueId> now(graph.value_count());
  for (uint32_t v = 0; v < now.size(); ++v) now[v] = ValueId(v);
  std::unordered_multimap<size_t, size_t> seen;  // hash -> index in kept
  std::vector<ir::Eqn> kept;
  std::vector<std::pair<ValueId, ValueId>> replaced;
  for (ir::Eqn e : graph.eqns()) {
    for (ir::Operand& o : e.inputs)
      if (ir::is_value(o)) o = now[std::get<ValueId>(o).index];
    bool merged = false;
    if (e.info().effects == ir::Effects::Pure) {
      const size_t h = hash_of(e);
      const auto [first, last] = seen.equal_range(h);
      for (auto at = first; at != last && !merged; ++at) {
        const ir::Eqn& other = kept[at->second];
        if (!equal(e, other)) continue;
        bool kept_apart = false;
        for (const ValueId out : e.outs) kept_apart = kept_apart || is_output[out.index];
        for (size_t i = 0; i < e.outs.size(); ++i) {
          now[e.outs[i].index] = other.outs[i];
          if (!kept_apart) replaced.emplace_back(e.outs[i], other.outs[i]);
        }
        merged = !kept_apart;
        if (kept_apart) break;
      }
      if (!merged) seen.emplace(h, kept.size());
    }
    if (!merged) kept.push_back(std::move(e));
  }
  if (kept.size() == graph.eqns().size()) return false;
  ir::GraphEdit edit(graph);
  edit.eqns() = std::move(kept);
  for (const auto& [from, to] : replaced) edit.replace_uses(from, to);
  edit.commit();
  return true;
}

}  // namespace poot::passes
