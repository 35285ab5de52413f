// The CPU's lowering: rows are scalar loops around column loops of vectors.
#pragma once

#include "codegen/lower/block_lowering.h"

namespace poot::codegen::lowering {

class CpuLowering final : public BlockLowering {
 public:
  using BlockLowering::BlockLowering;

 private:
  using Roots = std::vector<const Root*>;
  using Values = std::vector<kir::ValueId>;

  // cpu.cpp
  void program_body() override;
  int64_t passes_ahead() const override { return passes_ahead_; }
  void column_phase(tile::AxisId column, const Roots& roots) override;
  void vector(const Roots& roots, const Emitter::VectorAxis& at, Values& acc, size_t unroll,
              size_t u);
  struct Remainder {
    kir::ValueId done, extent;  // [done, extent) is left
    uint16_t lanes;
    size_t unroll;
    int64_t most;  // elements left at most
  };
  void remainder(tile::AxisId column, const Roots& roots, const Remainder& rest, Values& acc);

  // cpu_ordered.cpp
  struct Walk {
    uint16_t lanes;
    size_t unroll;
    int64_t stride;  // elements of a step
    std::function<void(kir::ValueId i, Values& acc)> step;
    int64_t steps = 1;  // of a cascade's accumulator
  };
  int64_t cascade_lanes(const Roots& roots) const;
  Roots other_cascades(const Roots& roots) const;
  void each_slot(const Roots& roots, const Walk& walk,
                 const std::function<void(const Root&, size_t)>& body) const;
  Values nested_steps(const Roots& roots, const Walk& walk, int outer, int64_t span,
                      kir::ValueId lo, kir::ValueId hi, Values acc);
  Values main_steps(const Roots& roots, Walk walk, kir::ValueId done, std::optional<int64_t> fixed,
                    int64_t most, Values acc);
  Values left_of_cascades(tile::AxisId column, const Roots& roots, const Walk& walk,
                          const Remainder& rest, Values& acc);
  kir::ValueId left_to_right(const Root& root, kir::ValueId total, kir::ValueId v,
                             const std::vector<uint16_t>& lanes);
  kir::ValueId cascade_total(const Root& root, const Walk& walk, const Values& acc,
                             const Values& left, kir::ValueId extent, std::optional<int64_t> fixed);
  kir::ValueId vector_total(const Root& root, kir::ValueId acc, kir::ValueId extent,
                            std::optional<int64_t> fixed);

  // cpu_moments.cpp
  static bool is_moment(const Root& root);
  void moments_phase(tile::AxisId column, const Roots& roots);

  // cpu_dots.cpp
  void dots(const Roots& roots) override;
  struct DotBlock {
    Roots roots;
    tile::AxisId row, column;  // row: none if there is one
    size_t rows;               // at a time
    uint16_t lanes;            // of the operands
    bool pairs;                // dot_pairs
    size_t unroll;
  };
  bool sums_are_columns(const Root& root) const;
  DotBlock dot_block(const Roots& roots) const;
  void at_row(const DotBlock& d, kir::ValueId first, size_t u, const std::function<void()>& body);
  void dot_rows(const DotBlock& d, kir::ValueId first);
  void dot_column(const DotBlock& d, kir::ValueId first, const std::vector<Emitter::Scope>& rows,
                  Values& acc);
  void dot_vector(const DotBlock& d, kir::ValueId first, const std::vector<Emitter::Scope>& rows,
                  const Emitter::VectorAxis& at, Values& acc, size_t u);
  kir::ValueId dot_operand(const DotBlock& d, tile::ValueId v);
  kir::ValueId dot_step(const DotBlock& d, const tile::Inst& inst, kir::ValueId acc);

  // cpu_matrix.cpp
  struct MatrixOperand {  // element (r, k) lies at first + r * stride + k, or + r + k * stride
    kir::ObjectId object;
    kir::ValueId first;
    int64_t stride;
    bool by_depth;  // the former
  };
  struct MatrixPart {  // columns [from, from + length) of both operands
    MatrixOperand left, right;
    tile::AxisId rows, columns;
    KeptTile sums;
    kir::ObjectId panel;
    kir::ValueId from, length;
    kir::ValueId next;  // element of the right operand at which the part after this begins
    bool adds;          // to sums of earlier parts
  };
  bool fits_matrix_unit(const Roots& roots) const;
  void matrix_dots(const Roots& roots);
  MatrixOperand matrix_operand(tile::ValueId v, tile::AxisId row, tile::AxisId column);
  void pack_columns(const MatrixPart& p);
  void pack_rows(const MatrixPart& p);
  void multiply_panel(const MatrixPart& p);
  void multiply_strip(const MatrixPart& p, kir::ValueId row);
  void ask_for_next(const MatrixPart& p, kir::ValueId row, kir::ValueId k);

  int64_t passes_ahead_ = 0;
};

}  // namespace poot::codegen::lowering
