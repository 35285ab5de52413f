// Lowering for GPUs: one workgroup runs one block of the tile program. Its threads are laid out
// rows x columns (GpuThreads); a thread walks every threads.rows-th row and, along the column,
// vectors of consecutive elements that lie threads.columns vectors apart, so that a warp's accesses
// are one stretch of memory. A cluster of workgroups runs a block of one long row, as one workgroup
// with all their threads would.
//
// Control flow around barriers and shuffles is uniform: a thread whose row does not exist goes
// along under a false predicate. Nothing is kept in arrays of a thread, which would be memory.
#pragma once

#include <map>

#include "codegen/lower/block_lowering.h"
#include "codegen/lower/gpu_threads.h"

namespace poot::codegen::lowering {

class GpuLowering final : public BlockLowering {
 public:
  using BlockLowering::BlockLowering;

 private:
  // gpu.cpp: threads and rows
  void begin() override;
  void program_body() override;
  int64_t passes_together() const override { return columns_around_ ? 4 : 1; }
  bool has_arrays() const override { return false; }
  bool has_scans() const override { return true; }
  void row_loop(tile::AxisId axis, const std::function<void()>& body) override;
  void effects(const Root& root) override;
  uint32_t choose_vector(AxisSet columns, int64_t capacity) const;
  bool rereads(AxisSet columns) const;

  // gpu_transposed.cpp: loads along the rows, through workgroup memory
  std::vector<tile::ValueId> transposed_loads(const std::vector<Root>& roots) const override;
  void keep_transposed(tile::ValueId v, tile::AxisId row, tile::AxisId column) override;
  uint16_t turned_vector(tile::ValueId v, tile::AxisId row) const;

  // gpu_columns.cpp: one walk of the column
  void phases(const std::vector<Root>& given) override;
  void column_phase(tile::AxisId column, const std::vector<const Root*>& roots) override;
  // A vector of the calling thread, or an element after the last whole vector. Positions of a row
  // that fits in registers are returned to: what one phase evaluated, the next one finds.
  struct Position {
    kir::ValueId base;       // column of the first element
    kir::ValueId predicate;  // inside the extent; none: always
    Emitter::Scope scope;
  };
  struct Resident {
    std::vector<Position> vectors, elements;
  };
  // A largest element and the sum of the powers of what lies below it, in one walk.
  struct Online {
    const Root* largest;
    const Root* sum;
  };
  // Accumulators of a walk: of plain reductions; of each pair the largest so far, a scalar, and the
  // sum in proportion to it.
  struct Sums {
    std::vector<kir::ValueId> plain, largest, sum;
    std::vector<kir::ValueId> flat() const;
    void set(std::span<const kir::ValueId> all);
  };
  struct Phase {
    tile::AxisId column;
    std::vector<const Root*> others;
    std::vector<Online> online;
    int64_t unroll = 1;  // vectors of a round
  };
  bool stays(tile::AxisId column) const;  // a thread keeps its part of the row in registers
  int64_t columns_together() const { return int64_t{threads_.columns} * kernel_.cluster; }
  int64_t stride() const { return columns_together() * vector_; }  // of a walk
  int64_t positions_of(tile::AxisId column) const;
  bool whole_vectors(tile::AxisId column) const;
  Resident place(tile::AxisId column);
  void resident_phase(tile::AxisId column, const std::vector<const Root*>& roots);
  void streamed_phase(tile::AxisId column, const std::vector<const Root*>& roots);
  template <class F>
  void strided(kir::ValueId lo, kir::ValueId hi, int64_t step, bool once, Sums& acc, F&& body);
  std::vector<kir::ValueId> identities(const std::vector<const Root*>& roots, uint16_t lanes,
                                       size_t each);
  void finish_reductions(const std::vector<const Root*>& roots,
                         const std::vector<kir::ValueId>& vectors,
                         const std::vector<kir::ValueId>& elements);
  kir::ValueId across_threads(const Root& root, kir::ValueId v);
  kir::ValueId across_warps(const Root& root, kir::ValueId v);
  kir::ValueId across_workgroups(const Root& root, kir::ValueId v);
  kir::ObjectId new_exchange(DType dtype, int64_t elems);
  std::vector<kir::ValueId> read_exchange(const Root& root, kir::ObjectId from, int64_t elems);

  // gpu_scan.cpp: running folds of a resident row
  using Values = std::vector<kir::ValueId>;  // one for each value that is folded
  struct Stretch {                           // consecutive elements of a thread
    Position* at;
    std::vector<Values> folded;  // by element: of those up to it
    Values before, all;          // of the threads before in the warp; of the warp
  };
  void scan(const Root& root);
  Stretch fold_elements(const Root& root, Position& at, uint16_t lanes);
  void fold_warp(const tile::Inst& scan, Stretch& s);
  void fold_warps(const tile::Inst& scan, std::vector<Stretch>& stretches, Values& all);
  void fold_partials(const tile::Inst& scan, const std::vector<kir::ObjectId>& partials,
                     const std::vector<kir::ObjectId>& before, int64_t count);
  void finish_scan(const tile::Inst& scan, Stretch& s, const Values& start);
  Values fold(const tile::Inst& scan, const Values& before, const Values& next);
  Values scan_identities(const tile::Inst& scan);

  // gpu_online.cpp: rounds of a walk, and pairs of reductions that share one
  void find_online(std::vector<Root>& roots);
  bool is_online_sum(const Root& root) const;
  Phase split_phase(tile::AxisId column, const std::vector<const Root*>& roots) const;
  Sums start(const Phase& phase, uint16_t lanes, int64_t unroll);
  void take(const Phase& phase, const std::vector<kir::ValueId>& bases, uint16_t lanes, Sums& acc);
  void take_online(const Phase& phase, size_t pair, const std::vector<kir::ValueId>& bases,
                   uint16_t lanes, std::vector<Emitter::Scope>& scopes, Sums& acc);
  void finish_online(const Online& pair, const Sums& vectors, const Sums& elements, size_t p,
                     kir::ValueId extent);
  kir::ValueId exp_of_difference(kir::ValueId a, kir::ValueId b);

  GpuThreads threads_;
  uint16_t vector_ = 1;
  tile::AxisId columns_around_;  // the column axis that a thread's positions of are walked outside
                                 // of all loops, if its tiles are carried through them
  bool has_loops_ = false;       // the program
  bool scans_ = false;           // the program
  bool looped_ = false;          // a reduction may be reached again by threads ahead of others
  tile::AxisId row_axis_;        // the axis that threads share out, if threads_.rows > 1
  // i64: place among all threads; column_ * vector_; place in the workgroup, and its rank
  kir::ValueId row_, column_, first_element_, local_column_, rank_;
  kir::ValueId first_row_, first_column_;  // i1: the place is 0
  struct OnlinePair {
    tile::AxisId column;
    tile::ValueId largest, sum;  // results
  };
  std::vector<OnlinePair> online_;         // of the row's phases
  std::map<uint32_t, Resident> resident_;  // by column axis, while the phases of a row are open
  uint32_t exchanges_ = 0;
};

}  // namespace poot::codegen::lowering
