// Elementwise kernels some of whose loads are contiguous along a variable that is not the innermost
// one of the results: transposes, permuted copies, x + y.t(). Tiles are squares of that variable
// (r) and the innermost one (c), so that a block reads whole cache lines either way; all other
// variables are counted by the grid, one position a block. The lowering sees the strides and
// transposes in registers or, on a GPU, in workgroup memory.
#include "codegen/generate/transposed.h"

#include <algorithm>

#include "codegen/generate/spread.h"

namespace poot::codegen {
namespace {

constexpr int64_t kSquare = 64;
constexpr int64_t kFewest = 16;        // elements along either side for a square to pay
constexpr int64_t kShortGrid = 65535;  // blocks along the later axes of a GPU's grid

// Position in region.vars of the variable that most of the strided loads run along.
std::optional<size_t> across(const Region& r) {
  const SymbolTable& symbols = r.space.symbols();
  const auto enough = [&](const IterVar& v) { return r.extent(v).hint(symbols) >= kFewest; };
  if (r.vars.size() < 2 || !enough(r.vars.back())) return std::nullopt;
  std::vector<int> votes(r.vars.size());
  for (uint32_t i = 0; i < r.nodes.size(); i++) {
    const Node& n = r.nodes.at(NodeId(i));
    if (n.kind != NodeKind::Load || !r.live[i]) continue;
    const Dim inner = n.index.factor(r.vars.back().atom);
    if (inner.is_const(0) || inner.is_const(1)) continue;
    for (size_t v = 0; v + 1 < r.vars.size(); v++)
      votes[v] += n.index.factor(r.vars[v].atom).is_const(1) && enough(r.vars[v]);
  }
  const auto best = std::max_element(votes.begin(), votes.end());
  if (*best == 0) return std::nullopt;
  return static_cast<size_t>(best - votes.begin());
}

}  // namespace

std::optional<tile::Program> emit_transposed(const passes::KernelRequest& request,
                                             const Region& region, const Target& target) {
  const auto row = across(region);
  if (!row) return std::nullopt;
  const SymbolTable& symbols = region.space.symbols();
  std::vector<IterVar> outer = region.vars;
  const Flat columns = flatten(region, {outer.back()}), rows = flatten(region, {outer[*row]});
  outer.pop_back();
  outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(*row));
  const Flat rest = flatten(region, outer);
  if (target.isa == Isa::Ptx && (rows.size.range(symbols).hi > kShortGrid * kSquare ||
                                 rest.size.range(symbols).hi > kShortGrid))
    return std::nullopt;

  tile::TileBuilder b(request.name, symbols);
  const Buffers buffers = declare_buffers(b, request);
  const BlockedAxis r = blocked_axis(b, symbols, "r", rows.size, kSquare, 1);
  const BlockedAxis c = blocked_axis(b, symbols, "c", columns.size, kSquare, 0);
  Emitter emit(b, region, {r.axis, c.axis}, buffers.inputs);
  if (!rest.vars.empty()) {
    b.grid(2, rest.size);
    bind_flat(b, emit, region, rest, b.scalar(b.block_id(2)), 0);
  }
  bind_flat(b, emit, region, rows, r.index, 1);
  bind_flat(b, emit, region, columns, c.index, 2);
  emit_checks(b, emit, region.checks);
  // Every value before any store: a result may overwrite an input in place.
  for (const Result& result : region.results) emit.value(result.value);
  for (const Result& result : region.results)
    emit_result(b, emit, result, buffers.outputs[result.output]);
  b.program().schedule.nontemporal = bypasses_cache(request, target);
  b.program().block_elems = kSquare * kSquare;
  return b.finish();
}

}  // namespace poot::codegen
