// Which equations go together: drafts of regions over one graph, kept free of cycles, and their
// emission as region equations. The fusion passes share it; each brings its own rules of what may
// join what.
//
// Every unit (an equation, or a region) has a place in the order: an equation its index, a region
// the index of one of its members. Invariant: a value's unit comes before the units that read it.
// Joining keeps it, or is refused. What reads the base of an update before the update keeps coming
// before it, so that the update can work in place.
#pragma once

#include <functional>
#include <vector>

#include "ir/graph.h"
#include "passes/pass.h"

namespace poot::passes {

using RegionIndex = uint32_t;
inline constexpr RegionIndex kNoRegion = ~RegionIndex{0};

// Bounds of one region: they keep kernels small and every check constant in graph size.
inline constexpr size_t kMaxRegionEqns = 200;
inline constexpr size_t kMaxRegionInputs = 24;
inline constexpr size_t kMaxRegionOutputs = 12;

struct DraftRegion {
  std::vector<uint32_t> members;   // equations that live here
  std::vector<uint32_t> copies;    // equations evaluated here besides their own place
  std::vector<ir::ValueId> reads;  // values defined outside, sorted
  uint32_t place = 0;
  Shape space;  // iteration space; meaning is the pass's
  bool merged_away = false;
};

// Who reads the results of an equation: regions (ascending), and anything that is not in a region.
struct Readers {
  std::vector<RegionIndex> regions;
  bool outside = false;  // an equation outside regions, or a graph output
};

class Partition {
 public:
  explicit Partition(const ir::Graph& graph);

  const ir::Graph& graph() const { return graph_; }
  const ir::Eqn& eqn(uint32_t e) const { return graph_.eqns()[e]; }
  const DraftRegion& region(RegionIndex r) const { return regions_[r]; }
  size_t region_count() const { return regions_.size(); }
  RegionIndex home(uint32_t e) const { return home_[e]; }
  // True if e is a member or a copy of r.
  bool holds(RegionIndex r, uint32_t e) const;
  // Equations that read a value, ascending, each once.
  std::span<const uint32_t> users(ir::ValueId v) const;
  bool is_output(ir::ValueId v) const { return output_[v.index]; }
  // Some sum adds the products of e without rounding them first: they have to be made with it.
  bool unrounded(uint32_t e) const;
  // e reads what some update writes in place, or a view of it.
  bool reads_base(uint32_t e) const;
  Readers readers(uint32_t e) const;
  // Readers other than region r exist: the value has to leave the region.
  bool read_outside(ir::ValueId v, RegionIndex r) const;

  RegionIndex open(uint32_t e, Shape space);  // a new region with one member
  // Null if e may join r, else the reason why not.
  const char* refuses(RegionIndex r, uint32_t e) const;
  void join(RegionIndex r, uint32_t e);  // refuses(r, e) must be null
  const char* refuses_copy(RegionIndex r, uint32_t e) const;
  void copy(RegionIndex r, uint32_t e);
  void uncopy(RegionIndex r, uint32_t e);
  // e is only evaluated as a copy from now on.
  void dissolve(uint32_t e) { dissolved_[e] = true; }
  // Dissolves e if all that reads it is in regions that hold it.
  void dissolve_if_held(uint32_t e);
  bool copied(uint32_t e) const { return !copied_to_[e].empty(); }
  bool dissolved(uint32_t e) const { return dissolved_[e]; }
  const char* refuses_merge(RegionIndex a, RegionIndex b) const;
  void merge(RegionIndex a, RegionIndex b);  // b's equations move to a
  // Its members stand alone again, each at its own place; false if others have come to rely on the
  // region's place.
  bool drop(RegionIndex r);

  // Replaces the drafted regions by equations of `op`; `attrs` gives each region's attributes.
  // Returns false if there is none.
  bool commit(ir::Graph& graph, ir::OpCode op,
              const std::function<std::vector<ir::Attr>(RegionIndex)>& attrs, PassContext& context,
              std::string_view pass);

 private:
  struct Window {
    int64_t lo = -1, hi = INT64_MAX;  // exclusive bounds of the place
    bool admits(uint32_t place) const { return lo < place && place < hi; }
  };
  int64_t place_of(uint32_t e) const;
  void narrow(Window& w, uint32_t e, bool member, RegionIndex a, RegionIndex b,
              uint32_t joining) const;
  Window window(RegionIndex a, RegionIndex b, uint32_t joining) const;
  bool stands_alone(RegionIndex r, uint32_t e) const;
  bool only_read_by(RegionIndex r, uint32_t e) const;
  std::vector<ir::ValueId> merged_reads(RegionIndex r, uint32_t e) const;
  void read_afresh(RegionIndex r);
  std::vector<uint32_t> in_order(const DraftRegion& r) const;
  ir::Eqn emit(ir::GraphEdit& edit, RegionIndex r, ir::OpCode op, std::vector<ir::Attr> attrs,
               std::vector<ir::ValueId>& results) const;

  const ir::Graph& graph_;
  std::vector<uint32_t> user_start_, user_list_;
  std::vector<bool> output_, dissolved_;
  std::vector<int64_t> updated_at_;  // by value: the first update of it, or of what it views
  std::vector<RegionIndex> home_;
  std::vector<std::vector<RegionIndex>> copied_to_;  // by equation
  std::vector<DraftRegion> regions_;
};

}  // namespace poot::passes
