// The driver that the lowerings share: turns a block of a tile program into loop nests.
//
// A block is split at its loops into runs. What a run has to do is a list of *roots*: stores,
// checks, reductions, and values that are needed after it. A root's domain is the axes that it
// walks: row axes, and the column axis. Roots with equal rows share a nest; within a row, a root
// that needs a reduction over the column comes one *phase* (one walk of the column) later than that
// reduction. Everything else is evaluated on demand where a root needs it (Emitter).
//
// A target says how rows and columns are walked: on the CPU row axes are scalar loops and the
// column a loop of vectors; on a GPU threads share out both.
#pragma once

#include <functional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "codegen/lower/emitter.h"

namespace poot::codegen::lowering {

struct Root {
  enum Kind : uint8_t { Store, Check, Reduce, Scan, Keep, Uniform };
  Kind kind;
  const tile::Inst* inst = nullptr;  // Store, Check, Reduce, Scan
  tile::ValueId value;               // evaluated at every position of the domain
  std::optional<KeptTile> array;     // Keep: written; Reduce: where the result is kept, if it is
  tile::ValueId kept_as;             // the value that the array then stands for
  std::vector<tile::AxisId> rows;    // outermost first
  tile::AxisId column, reduced;
  uint32_t nest = 0, level = 0;  // order of nests in the run, of phases in the nest
  // A maximum that its phase may start without, for what follows from it.
  enum Guess : uint8_t { None, Quotients, Logs };
  Guess guess = None;
  bool passes_nan = false;  // a maximum past which a NaN may go, to the sum of what follows

  bool is_dot() const { return inst != nullptr && inst->op == tile::Op::dot; }
  bool reduces_column() const { return kind == Reduce && reduced == column; }
  bool needs_column() const { return reduces_column() || kind == Scan; }  // a walk of it first
  bool reduces_row() const { return kind == Reduce && reduced != column; }
};

// What the values under some roots cost in one column loop, stopping at what is already at hand.
struct PhaseCost {
  int ops = 0;
  int widest = 1;              // bytes of the widest element computed with, at most 4
  bool guards = false;         // some load's mask varies with the column
  int bf16 = 0, other = 0;     // accesses of consecutive bf16; all others that vary
  std::set<uint32_t> buffers;  // loaded from
  std::vector<const tile::Inst*> loads;
};

// The column axis of tiles that loops carry, if there are such.
tile::AxisId carried_columns(const tile::Program& p, const tile::Block& b);

class BlockLowering {
 public:
  BlockLowering(const tile::Program& program, const Target& target);
  virtual ~BlockLowering() = default;
  kir::Kernel run();

 protected:
  // --- the target's part
  virtual void begin() {}
  virtual void program_body() { block(facts_.program().body, {}); }
  bool may_overlap() const;
  // How many passes ahead the loads of a loop without loops inside ask for memory; 0: they do not.
  virtual int64_t passes_ahead() const { return 0; }
  // Passes of a loop without loops inside that are emitted side by side.
  virtual int64_t passes_together() const { return 1; }
  // Whether values may be kept in private arrays; where not, what needs one is Unsupported.
  virtual bool has_arrays() const { return true; }
  // Whether columns may be scanned.
  virtual bool has_scans() const { return false; }
  // `body` at every coordinate of a row axis that is the calling thread's.
  virtual void row_loop(tile::AxisId axis, const std::function<void()>& body);
  virtual void phases(const std::vector<Root>& roots);
  virtual void column_phase(tile::AxisId column, const std::vector<const Root*>& roots) = 0;
  virtual void effects(const Root& root);
  // A nest of dots; leaves their results in their arrays.
  virtual void dots(const std::vector<const Root*>& roots);

  // blocks.cpp: blocks and loops
  void block(const tile::Block& b, std::span<const std::optional<KeptTile>> carried);
  void block_body(const tile::Block& b, std::span<const std::optional<KeptTile>> carried);
  std::vector<tile::AxisId> axes_around_loops(const tile::Block& b) const;
  void loop(const tile::Inst& inst);
  uint16_t lanes_at(tile::ValueId v) const;
  void at_coordinate(tile::AxisId axis, kir::ValueId i, const std::function<void()>& body);

  // roots.cpp: what a run has to do
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
  Root dot_root(const tile::Inst& inst) const;
  Root scan_root(const tile::Inst& inst) const;
  Root keep_root(tile::ValueId v, KeptTile array, tile::ValueId kept_as) const;
  void need_outside(Run& run, tile::ValueId v);
  void order_roots(Run& run);
  void place_yields(Run& run, std::vector<Root> yields);
  std::vector<size_t> reductions_under(const Run& run, const Root& root) const;
  std::vector<tile::AxisId> unbound_axes(tile::ValueId v, bool only_deps) const;
  bool cheap(tile::ValueId v, tile::AxisId column) const;
  bool fits(tile::ValueId v, std::span<const tile::AxisId> axes, int64_t window = INT64_MAX) const;
  KeptTile new_array(tile::ValueId v, std::vector<tile::AxisId> axes, int64_t window = INT64_MAX);

  // nests.cpp: rows and phases
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
  bool exceeds_cache() const;
  struct Prefetching {
    uint32_t level;
    bool once;                             // no other phase reads the rows
    std::vector<const tile::Inst*> loads;  // of the first phase
  };
  std::optional<Prefetching> prefetching_phase(const std::vector<Root>& roots, uint32_t last) const;
  void ask_ahead(const Root& root);
  void ask_with_stores(const std::vector<const Root*>& members, const Prefetching& what);
  void hoist_roots(const std::vector<const Root*>& roots, tile::AxisId column);
  std::vector<tile::ValueId> root_operands(const Root& r) const;

  // guessed_maximum.cpp: softmax in one phase less, or with a maximum that looks for no NaN
  void mark_guess(std::vector<Root>& roots);
  void guessed_phase(tile::AxisId column, const std::vector<const Root*>& roots);

  // pairs.cpp: rows of two that are woven with the column
  tile::AxisId pair_axis(const std::vector<Root>& roots) const;
  void pair_positions(const std::vector<const Root*>& roots, const Emitter::VectorAxis& at);

  // transposed.cpp: loads along the rows, kept for the block
  struct TransposedBlock {
    kir::ValueId row, column;  // first of the block
    kir::ValueId rows_left;    // mask of the rows inside the extent; none: all
    kir::ValueId last_column;  // inside the extent; none: all are
  };
  std::vector<tile::ValueId> turned_loads(const std::vector<Root>& roots,
                                          const std::function<bool(tile::ValueId)>& accept) const;
  virtual std::vector<tile::ValueId> transposed_loads(const std::vector<Root>& roots) const;
  virtual void keep_transposed(tile::ValueId v, tile::AxisId row, tile::AxisId column);
  void keep_transposed(tile::ValueId v, const KeptTile& array, const TransposedBlock& at);

  // positions.cpp: one position of a column
  void scalar_phase(const std::vector<const Root*>& roots);
  void positions(const std::vector<const Root*>& roots, const Emitter::VectorAxis& at,
                 std::vector<kir::ValueId>& acc, size_t unroll, size_t u);
  kir::ValueId combine(const Root& root, std::vector<kir::ValueId> acc);
  void finish_reduction(const Root& root, kir::ValueId total);
  void fill(const Root& root);
  kir::ValueId step(ir::OpCode op, DType dtype, kir::ValueId a, kir::ValueId b);
  kir::ValueId identity(const Root& root, uint16_t lanes);

  // cpu_ordered.cpp: sums in an order
  ir::ReduceOrder order_of(const Root& root) const;
  bool has_one_accumulator(const Root& root) const;

  // cost.cpp
  // `at_hand`: further values that need no evaluation.
  PhaseCost phase_cost(const std::vector<const Root*>& roots, tile::AxisId column,
                       const std::unordered_set<uint32_t>& at_hand = {}) const;
  int op_cost(const tile::Inst& inst, tile::AxisId column) const;

  TileFacts facts_;
  kir::Kernel kernel_;
  const Target& target_;
  Emitter emit_;
  int64_t kept_bytes_ = 0;
  tile::AxisId pair_;                     // of the nest being emitted
  std::optional<int64_t> first_columns_;  // a column loop stops there
  kir::ValueId fill_value_;               // while an array is filled: the value of every position
};

// Values kept in private arrays take at most this much of the stack and of the cache.
inline constexpr int64_t kKeptBytesLimit = 256 << 10;

}  // namespace poot::codegen::lowering
