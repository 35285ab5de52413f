// Emits expressions of a region into a tile program, for a given spread of the iteration variables
// over tile axes and scalars.
#pragma once

#include <vector>

#include "codegen/generate/iteration_space.h"
#include "codegen/target.h"
#include "codegen/tile/tile.h"

namespace poot::codegen {

// Value of one iteration variable: an index expression and the tile axes (bit i: position i) that
// it depends on.
struct Bound {
  tile::IndexId index;
  uint32_t axes = 0;
};

class Emitter {
 public:
  // `axes`: the tile axes, by position. `inputs`: the buffer of each body input.
  Emitter(tile::TileBuilder& builder, const Region& region, std::vector<tile::AxisId> axes,
          std::vector<tile::BufferId> inputs);
  // Where iteration variable `atom` is; forgets every value emitted before.
  void bind(AtomId atom, Bound bound);
  // A node whose value is already at hand (a reduction's result). Kept by fresh().
  void set(NodeId node, tile::ValueId value);
  // Position of the axis that Reduce nodes reduce when they are emitted in line, or -1: they must
  // have been set.
  void reduce_over(int position);
  // Sums that ask for a cascade take any order: eager's is that of memory, and rows run across it.
  void drop_cascades() { drops_cascades_ = true; }
  // Products become sums of products of elements, for targets without dots.
  void dots_as_sums(bool yes) { dots_as_sums_ = yes; }
  // Dots start from what their nodes name, rather than have it added to them.
  void dots_start(bool yes) { dots_start_ = yes; }
  // Forgets emitted values (they are in a scope that ended), but not those that were set.
  void fresh();

  tile::ValueId value(NodeId node);
  tile::ValueId full(NodeId node);  // value broadcast over all axes
  tile::IndexId index(const Affine& a);
  tile::Mask mask(const Guard& guard);
  uint32_t depends(const Affine& a) const;
  uint32_t depends(NodeId node) const;
  std::vector<tile::AxisId> axes_of(uint32_t mask) const;  // unit where the bit is not set

 private:
  tile::IndexId atom(AtomId a);
  tile::ValueId index_tile(const Affine& a, DType dtype);
  tile::ValueId guard_tile(const Guard& guard);
  tile::ValueId dot(const Node& n);

  tile::TileBuilder& b_;
  const Region& region_;
  std::vector<tile::AxisId> axes_;
  std::vector<tile::BufferId> inputs_;
  std::map<AtomId, Bound> bound_;
  std::map<NodeId, tile::ValueId> given_, emitted_;
  mutable std::map<NodeId, uint32_t> depends_;
  int reduce_position_ = -1;
  bool drops_cascades_ = false;
  bool dots_as_sums_ = false, dots_start_ = false;
};

// Emits a region's checks and the store of a result. `axes`: positions that a check's tile has in
// any case, so that it stands in the same row loop as the stores beside it.
void emit_checks(tile::TileBuilder& b, Emitter& emit, const std::vector<Check>& checks,
                 uint32_t axes = 0);
// `first`: what is added to the result's index, if given. `combining`: with what is there.
void emit_result(tile::TileBuilder& b, Emitter& emit, const Result& result, tile::BufferId buffer,
                 tile::IndexId first = {}, std::optional<ir::OpCode> combining = {});

// Declares the kernel's buffers: `skip` leading body inputs have none (a scatter's base); outputs
// only if asked for.
struct Buffers {
  std::vector<tile::BufferId> inputs, outputs;
};
Buffers declare_buffers(tile::TileBuilder& b, const passes::KernelRequest& request, size_t skip = 0,
                        bool outputs = true);

// Whether stores should go past the cache: results far larger than it, none written in place.
bool bypasses_cache(const passes::KernelRequest& request, const Target& target);

}  // namespace poot::codegen
