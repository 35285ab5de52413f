// The CPU lowering's driver: turns a block of a tile program into loop nests.
//
// A block is split at its loops into runs. What a run has to do is a list of *roots*: stores,
// checks, reductions, and values that are needed after it. A root's domain is the axes that it
// walks: row axes become scalar loops, the column axis a loop of vectors. Roots with equal rows
// share a nest; within a row, a root that needs a reduction over the column comes one *phase* (one
// column loop) later than that reduction. Everything else is evaluated on demand where a root needs
// it (Emitter).
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "codegen/lower/cpu_emitter.h"

namespace poot::codegen::cpu {

struct Root {
  enum Kind : uint8_t { Store, Check, Reduce, Keep, Uniform };
  Kind kind;
  const tile::Inst* inst = nullptr;  // Store, Check, Reduce
  tile::ValueId value;               // evaluated at every position of the domain
  std::optional<KeptTile> array;     // Keep: written; Reduce: where the result is kept, if it is
  tile::ValueId kept_as;             // the value that the array then stands for
  std::vector<tile::AxisId> rows;    // outermost first
  tile::AxisId column, reduced;
  uint32_t nest = 0, level = 0;  // order of nests in the run, of phases in the nest

  bool reduces_column() const { return kind == Reduce && reduced == column; }
  bool reduces_row() const { return kind == Reduce && reduced != column; }
};

// What the values under some roots cost in one column loop, stopping at what is already at hand.
struct PhaseCost {
  int ops = 0;
  int widest = 1;  // bytes of the widest element computed with, at most 4
};

class CpuLowering {
 public:
  CpuLowering(const tile::Program& program, const Target& target);
  kir::Kernel run();

 private:
  // cpu.cpp: blocks and loops
  void block(const tile::Block& b, std::span<const std::optional<KeptTile>> carried);
  void block_body(const tile::Block& b, std::span<const std::optional<KeptTile>> carried);
  std::vector<tile::AxisId> axes_around_loops(const tile::Block& b) const;
  void loop(const tile::Inst& inst);
  template <class F>
  void scalar_loop(tile::AxisId axis, F&& body);

  // cpu_roots.cpp: what a run has to do
  using Insts = std::vector<const tile::Inst*>;
  struct Run {
    std::unordered_set<uint32_t> values;  // defined in it
    std::vector<Root> roots;
    std::unordered_map<uint32_t, size_t> reductions;  // result -> root
    std::unordered_set<uint32_t> kept_outside;        // visited by need_outside
  };
  void lower_run(const Insts& insts, const tile::Inst* yield,
                 std::span<const std::optional<KeptTile>> carried);
  Root make_root(Root::Kind kind, const tile::Inst* inst, tile::ValueId value,
                 std::vector<tile::AxisId> axes) const;
  Root keep_root(tile::ValueId v, KeptTile array, tile::ValueId kept_as) const;
  void need_outside(Run& run, tile::ValueId v);
  void order_roots(Run& run);
  void place_yields(Run& run, std::vector<Root> yields);
  std::vector<size_t> reductions_under(const Run& run, const Root& root) const;
  std::vector<tile::AxisId> unbound_axes(tile::ValueId v, bool only_deps) const;
  bool cheap(tile::ValueId v, tile::AxisId column) const;
  bool fits(tile::ValueId v, std::span<const tile::AxisId> axes, int64_t window = INT64_MAX) const;
  KeptTile new_array(tile::ValueId v, std::vector<tile::AxisId> axes, int64_t window = INT64_MAX);

  // cpu_nests.cpp: rows and phases
  void run_roots(std::vector<Root> roots);
  struct Nest {
    std::vector<Root> roots;
    std::vector<tile::ValueId> row_arrays;  // kept for a row
    // With a window: these roots instead while the column's extent is at most that.
    int64_t window = 0;
    std::vector<Root> windowed;
    std::vector<tile::ValueId> window_arrays;
  };
  void nest(std::vector<Root> roots);
  std::vector<Root> kept_across_phases(const std::vector<Root>& roots, int64_t window,
                                       int64_t* refused);
  bool has_versions(const std::vector<Root>& roots) const;
  void rows(std::span<const tile::AxisId> left, const Nest& n);
  void versions(const Nest& n);
  void phases(const std::vector<Root>& roots);
  void hoist_roots(const std::vector<const Root*>& roots, tile::AxisId column);
  std::vector<tile::ValueId> root_operands(const Root& r) const;

  // cpu_pairs.cpp: rows of two that are woven with the column
  tile::AxisId pair_axis(const std::vector<Root>& roots) const;
  void pair_positions(const std::vector<const Root*>& roots, const Emitter::VectorAxis& at);

  // cpu_columns.cpp: one column loop
  void scalar_phase(const std::vector<const Root*>& roots);
  void column_phase(tile::AxisId column, const std::vector<const Root*>& roots);
  void positions(const std::vector<const Root*>& roots, const Emitter::VectorAxis& at,
                 std::vector<kir::ValueId>& acc, size_t unroll, size_t u);
  struct Remainder {
    kir::ValueId done, extent;  // [done, extent) is left
    uint16_t lanes;
    size_t unroll;
    int64_t most;  // elements left at most
  };
  void remainder(tile::AxisId column, const std::vector<const Root*>& roots, const Remainder& rest,
                 std::vector<kir::ValueId>& acc);
  void effects(const Root& root);
  void finish_reduction(const Root& root, std::vector<kir::ValueId> acc);
  void fill(const Root& root);
  kir::ValueId step(ir::OpCode op, DType dtype, kir::ValueId a, kir::ValueId b);
  kir::ValueId identity(const Root& root, uint16_t lanes);
  PhaseCost phase_cost(const std::vector<const Root*>& roots, tile::AxisId column) const;
  int op_cost(const tile::Inst& inst, tile::AxisId column) const;

  TileFacts facts_;
  kir::Kernel kernel_;
  const Target& target_;
  Emitter emit_;
  int64_t kept_bytes_ = 0;
  tile::AxisId pair_;        // of the nest being emitted
  kir::ValueId fill_value_;  // while an array is filled: the value of every position
};

// Values kept in private arrays take at most this much of the stack and of the cache.
inline constexpr int64_t kKeptBytesLimit = 256 << 10;

template <class F>
void CpuLowering::scalar_loop(tile::AxisId axis, F&& body) {
  kir::KirBuilder& b = emit_.builder();
  const auto at = [&](kir::ValueId i) {
    emit_.push_scope();
    emit_.bind(axis, i);
    body();
    emit_.unbind(axis);
    emit_.pop_scope();
  };
  if (emit_.static_extent(axis) == 1) return at(emit_.i64(0));
  const kir::ValueId lo = emit_.i64(0), hi = emit_.extent(axis), one = emit_.i64(1);
  b.for_loop(lo, hi, one, {}, [&](kir::ValueId i, std::span<const kir::ValueId>) {
    at(i);
    return std::vector<kir::ValueId>{};
  });
}

}  // namespace poot::codegen::cpu
