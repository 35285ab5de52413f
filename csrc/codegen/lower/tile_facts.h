// Facts about a tile program that lowerings ask again and again: what defines a value, which axes'
// coordinates it varies with, what runs for its sake.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/tile/tile.h"

namespace poot::codegen {

using AxisSet = uint64_t;  // bit i: axis i; programs have at most 64 axes

class TileFacts {
 public:
  explicit TileFacts(const tile::Program& program);  // keeps the reference

  const tile::Program& program() const { return program_; }
  // The instruction that defines v; nullptr for block parameters.
  const tile::Inst* def(tile::ValueId v) const { return defs_.at(v.index); }
  // Identifies the block that an instruction's results belong to and the run within it: a maximal
  // sequence of instructions without control flow. Values of block parameters have run 0.
  uint32_t run_of(tile::ValueId v) const { return runs_.at(v.index); }
  // Used by an instruction outside its run, by control flow or by a nested block.
  bool escapes(tile::ValueId v) const { return escapes_.at(v.index); }
  bool live(tile::ValueId v) const { return live_.at(v.index); }

  // Axes whose coordinates the value varies with: finer than its type (a load whose index ignores
  // an axis does not vary with it), except that reductions, scans and carried values count all of
  // theirs.
  AxisSet deps(tile::ValueId v) const { return deps_.at(v.index); }
  AxisSet deps(tile::IndexId i) const { return index_deps_.at(i.index); }
  AxisSet deps(const tile::Mask& mask) const;
  // An f32 value that reaches memory only after it was rounded to f16 or bf16, by operations that
  // do not magnify its error.
  bool ends_narrow(tile::ValueId v) const { return ends_narrow_.at(v.index); }
  // Axes named by a type, without unit axes.
  AxisSet axes(tile::ValueId v) const { return axes_of(program_.type(v)); }
  static AxisSet axes_of(const tile::Type& type);
  static AxisSet bit(tile::AxisId a) { return AxisSet{1} << a.index; }
  // Axes that are not the last of some tile, and axes that are reduced somewhere.
  AxisSet row_axes() const { return row_axes_; }
  AxisSet dot_columns() const { return dot_columns_; }  // last axes of the results of dots
  AxisSet reduced_axes() const { return reduced_axes_; }

  // A dot, a scan, or a reduction over an axis; one over a unit axis is its operand.
  bool reduces(const tile::Inst& inst) const;

  // Values that an instruction reads: operands, and scalars and tiles named by its index
  // expressions and mask.
  std::vector<tile::ValueId> operands(const tile::Inst& inst) const;
  void index_values(tile::IndexId i, std::vector<tile::ValueId>& out) const;

  // Largest power of two that provably divides the expression (0: the expression is 0), with the
  // coordinate `zeroed` taken as 0.
  uint64_t known_factor(tile::IndexId i, tile::AxisId zeroed) const;
  // Provably not negative.
  bool non_negative(tile::IndexId i) const;

 private:
  void visit(const tile::Block& block, uint32_t& next_run);
  void note_uses(const tile::Inst& inst, uint32_t run);
  void define(const tile::Inst& inst, uint32_t run);
  AxisSet possibly_empty(const tile::Type& type) const;
  void compute_index_deps(uint32_t count);
  void mark_live(const tile::Block& block);
  void mark_wide(const tile::Block& block);

  const tile::Program& program_;
  std::vector<const tile::Inst*> defs_;
  std::vector<uint32_t> runs_;
  std::vector<char> escapes_, live_, ends_narrow_;
  std::vector<AxisSet> deps_, index_deps_;
  AxisSet row_axes_ = 0, reduced_axes_ = 0, dot_columns_ = 0;
};

// A loop, which splits a block into runs.
inline bool is_control(const tile::Inst& inst) {
  return inst.op == tile::Op::for_;
}

}  // namespace poot::codegen
