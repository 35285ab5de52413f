// Elementwise kernels: every output element is one expression. Tiles are rows x columns; columns
// are the innermost merged variable, rows all others.
//
//   relu(x + 1) over f32[64, 1000]  ->  one variable of 64000, 16 blocks of 4032 columns:
//     v = load in0 [c];  store out0 relu(v + 1)
//
// Where some access is contiguous along the rows and strided along the columns (a transpose), tiles
// are square, so that the lines that a column touches are still cached for the next row:
// transposed.cpp writes these kernels, but for a GPU where its grid is too short.
#include <algorithm>

#include "codegen/generate/generators.h"
#include "codegen/generate/spread.h"
#include "codegen/generate/transposed.h"
#include "support/errors.h"

namespace poot::codegen {
namespace {

constexpr int64_t kSquare = 64;
constexpr int64_t kFewColumns = 16;

// An innermost variable of a few elements (interleaved pairs, RGB) makes a poor column: the one
// around it takes its place, with strided accesses. Returns how many rows then share cache lines,
// which a block should hold together.
int64_t widen_columns(const Region& region, std::vector<IterVar>& vars) {
  if (vars.size() < 2) return 1;
  const SymbolTable& symbols = region.space.symbols();
  IterVar &inner = vars[vars.size() - 1], &outer = vars[vars.size() - 2];
  const int64_t few = region.extent(inner).hint(symbols);
  if (few >= kFewColumns || few >= region.extent(outer).hint(symbols)) return 1;
  std::swap(inner, outer);
  return std::max<int64_t>(few, 1);
}

Region elementwise_region(const passes::KernelRequest& request) {
  const ir::Graph& body = *request.body;
  const Shape root_shape = body.type(body.outputs()[0].value).shape;
  std::vector<RootDim> root;
  for (const Dim& d : root_shape) root.push_back({d});
  return build_region(body.symbols(), root, [&](Region& r, const Coordinates& at) {
    IndexMap map(body, request.inputs, r.space, r.nodes);
    for (uint32_t i = 0; i < body.outputs().size(); i++) {
      const ir::ValueId v = body.outputs()[i].value;
      const Shape& shape = body.type(v).shape;
      const Coordinates c =
          shape == root_shape ? at : reshape_coordinates(r.space, at, root_shape, shape);
      r.results.push_back({map.at(v, c), i, element_index(request.outputs[i], c)});
    }
    r.checks = map.checks();
  });
}

// Whether some access is strided along `inner` but contiguous along `outer`.
bool transposed(const Region& r, const IterVar& outer, const IterVar& inner) {
  for (uint32_t i = 0; i < r.nodes.size(); i++) {
    const Node& n = r.nodes.at(NodeId(i));
    if (n.kind == NodeKind::Load && r.live[i] && n.index.factor(outer.atom).is_const(1) &&
        !n.index.factor(inner.atom).is_const(0))
      return true;
  }
  return false;
}

}  // namespace

tile::Program generate_elementwise(const passes::KernelRequest& request, const Target& target) {
  const ir::Graph& body = *request.body;
  if (body.outputs().empty()) throw Unsupported(request.name, "a kernel without outputs");
  const Region region = elementwise_region(request);
  const SymbolTable& symbols = body.symbols();
  if (auto program = emit_transposed(request, region, target)) return std::move(*program);

  std::vector<IterVar> vars = region.vars;
  const int64_t together = widen_columns(region, vars);
  std::vector<IterVar> column_vars;
  if (!vars.empty()) {
    column_vars.push_back(vars.back());
    vars.pop_back();
  }
  // The lowering weaves the two rows of an axis of their own.
  std::vector<IterVar> pair;
  if (target.isa == Isa::X86 && together == 2 && region.extent(vars.back()).is_const(2)) {
    pair.push_back(vars.back());
    vars.pop_back();
  }
  const Flat rows = flatten(region, vars), columns = flatten(region, column_vars);
  const int64_t elems = block_elems(target, request);
  int64_t width = column_capacity(columns.size, symbols, elems / together);
  int64_t height =
      row_capacity(rows.size, columns.size, width, symbols, pair.empty() ? elems : elems / 2);
  if (!vars.empty() && transposed(region, vars.back(), column_vars[0]) && width > kSquare &&
      region.extent(vars.back()).hint(symbols) >= kFewColumns) {
    width = kSquare;
    height = row_capacity(rows.size, kSquare, kSquare, symbols);
  }

  tile::TileBuilder b(request.name, symbols);
  const Buffers buffers = declare_buffers(b, request);
  const bool flat = rows.size.is_const(1);
  BlockedAxis r, c;
  // A GPU's grid is long along its first axis only.
  const uint32_t row_grid = target.isa == Isa::X86 ? 1 : 0;
  if (!flat) r = blocked_rows(b, symbols, target, rows.size, height, row_grid);
  const tile::AxisId p = pair.empty() ? tile::AxisId() : b.axis("p", 2, b.cst(2));
  c = blocked_axis(b, symbols, "c", columns.size, width, flat ? 0 : 1 - row_grid);
  std::vector<tile::AxisId> axes;
  if (r.axis) axes.push_back(r.axis);
  if (p) axes.push_back(p);
  axes.push_back(c.axis);
  Emitter emit(b, region, axes, buffers.inputs);
  if (!flat) bind_flat(b, emit, region, rows, r.index, r.axis ? 1 : 0);
  if (p) emit.bind(pair[0].atom, {b.coord(p), r.axis ? 2u : 1u});
  bind_flat(b, emit, region, columns, c.index, 1u << (axes.size() - 1));
  emit_checks(b, emit, region.checks);
  // Every value before any store: a result may overwrite an input in place.
  for (const Result& result : region.results) emit.value(result.value);
  for (const Result& result : region.results)
    emit_result(b, emit, result, buffers.outputs[result.output]);
  b.program().schedule.nontemporal = bypasses_cache(request, target);
  b.program().block_elems = (flat ? 1 : height) * width * (pair.empty() ? 1 : 2);
  return b.finish();
}

}  // namespace poot::codegen
