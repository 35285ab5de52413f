// Scans. On a GPU a scan of a few long rows is two launches, so that all cores work on it:
//
//   totals [parts, rows] = fold of each part of a row;   y = scan of each part, which starts from
//                                                            the fold of the totals before it
//
// The axis is then read twice. How many parts there are follows from the shape, for symbolic sizes
// from their run-time values.
#include <algorithm>

#include "passes/planner.h"

namespace poot::passes {

using namespace program;

namespace {

constexpr int64_t kBlocks = 264, kRowPart = 16384;  // of positions; a block has a row
constexpr int64_t kThreads = 196608, kColumnPart = 32, kMostColumnParts = 256;

// `along`: memory runs along the axis, which threads share out; else each has columns of its own.
std::optional<Dim> parts_of_scan(int64_t kept, const Dim& size, bool along,
                                 const SymbolTable& symbols) {
  const int64_t length = size.hint(symbols), rows = std::max<int64_t>(kept, 1);
  const int64_t most = along ? kBlocks / rows : std::min(kThreads / rows, kMostColumnParts);
  const int64_t least = along ? kRowPart : kColumnPart;
  const int64_t parts = std::min(most, length / least);
  if (parts < 2) return std::nullopt;
  if (size.is_const()) return Dim(parts);
  return Dim::max(Dim::ceildiv(size, (length + parts - 1) / parts), 1);
}

}  // namespace

KernelId Planner::scan(KernelRequest request, const std::vector<Place>& inputs,
                       const std::vector<Place>& outputs) {
  const ir::Eqn& eqn = request.body->eqns()[0];
  const auto axis = static_cast<size_t>(eqn.attr<int64_t>("axis"));
  Shape kept = request.body->type(eqn.outs[0]).shape;
  const Dim size = kept[axis];
  kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(axis));
  const bool along = outputs[0].window.strides[axis].is_const(1);
  const auto parts =
      parts_of_scan(numel(kept).hint(graph_.symbols()), size, along, graph_.symbols());
  if (context_.target.isa != Isa::Ptx || !parts)
    return generate(std::move(request), inputs, outputs);
  request.parts = *parts;
  Shape shape = kept;
  shape.insert(shape.begin(), *parts);
  std::vector<Place> totals;
  for (const DType d : scan_accumulators(*request.body, context_.target.isa))
    totals.push_back(fresh({d, shape}, contiguous_strides(shape), BufferClass::Arena));
  KernelRequest of_parts = request;
  of_parts.kind = RequestKind::ScanParts;
  of_parts.name += "_parts";
  generate(std::move(of_parts), inputs, outputs, totals);
  return generate(std::move(request), inputs, outputs, totals);
}

}  // namespace poot::passes
