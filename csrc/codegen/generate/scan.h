// Scans as tile ops, and the two forms of their kernels.
#pragma once

#include "codegen/generate/iteration_space.h"
#include "codegen/generate/spread.h"
#include "codegen/target.h"
#include "codegen/tile/tile.h"

namespace poot::codegen {

// What a scan equation folds: one value, or two where it also tells places.
class ScanFunction {
 public:
  using Values = tile::TileBuilder::Values;

  ScanFunction(tile::TileBuilder& b, const ir::Graph& body, Isa isa);
  bool tells_places() const { return dtypes_.size() == 2; }
  // The identities, with these axes.
  Values identities(const std::vector<tile::AxisId>& axes = {}) const;
  // What the element x at a place (i64, without axes or broadcast to x's) is folded as.
  Values elements(tile::ValueId x, tile::ValueId place) const;
  Values fold(const Values& before, const Values& next) const;
  // In the dtypes of the outputs.
  Values results(Values folded) const;

 private:
  tile::ValueId log_add_exp(tile::ValueId sum, tile::ValueId x) const;

  tile::TileBuilder& b_;
  ir::OpCode op_;
  DType dtype_;                // of the elements
  std::vector<DType> dtypes_;  // of what is folded
};

// The kernel's buffers: inputs, outputs (not those of RequestKind::ScanParts), then, where the axis
// is in parts, what each folds to.
struct ScanBuffers {
  std::vector<tile::BufferId> inputs, outputs, totals;
};
ScanBuffers declare_scan_buffers(tile::TileBuilder& b, const passes::KernelRequest& request,
                                 Isa isa);

// Free variables over the other axes, Reduced ones over the scanned axis; the node of the first
// result is the element.
Region scan_region(const passes::KernelRequest& request);

// Threads along the scanned axis: see scan_rows.cpp.
tile::Program emit_scan_rows(const passes::KernelRequest& request, const Region& region,
                             const Target& target);

}  // namespace poot::codegen
