// A product of two matrices in vector registers: the CPU's lowering of a dot whose sums have a row
// and a column axis, or a column axis alone.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "codegen/lower/emitter.h"

namespace poot::codegen::lowering {

class ProductLowering {
 public:
  // `sums`: the array of the result, its last axis the columns. Keeps the emitter.
  ProductLowering(Emitter& emit, const tile::Inst& dot, const KeptTile& sums, tile::AxisId depth);
  void run();

 private:
  using Values = std::vector<kir::ValueId>;
  // Element (i, k), i a row or column of the sums: first + i * across + k * along of the object.
  struct Source {
    kir::ObjectId object;
    kir::ValueId first;
    int64_t across, along;
  };
  // Rows and vectors of sums that registers hold at a time.
  struct Block {
    int64_t rows, vectors;
    kir::ValueId row, column;  // first of each
    kir::ValueId last_row;     // rows beyond it repeat it; none: all are inside
    kir::ValueId active;       // lanes of the only vector of columns; none: all
  };

  // cpu_products.cpp
  void choose_sizes();
  void choose_part(DType dtype);
  std::optional<Source> source(tile::ValueId v, tile::AxisId across) const;
  void parts(kir::ValueId from, kir::ValueId to, bool even);
  void part();
  void all_sums(const std::function<void(kir::ValueId)>& body);
  void clear(kir::ObjectId sums);
  void start();
  kir::ObjectId array(const char* name, kir::Elem elem, int64_t size);
  void strips(kir::ValueId column, int64_t vectors, kir::ValueId active);
  void block(const Block& at);
  Values right_vectors(const Block& at, kir::ValueId k, bool whole);
  kir::ValueId left_element(const Source& from, kir::ValueId at) const;
  kir::ValueId row_of(const Block& at, int64_t i);
  void for_each(kir::ValueId to, int64_t step, const std::function<void(kir::ValueId)>& body);
  kir::ValueId rounded_down(kir::ValueId n, int64_t step);
  uint32_t alignment() const { return emit_.target().vector_bytes; }  // of a panel's vectors
  bool divides(tile::AxisId axis, int64_t step) const;

  // cpu_panels.cpp
  void pack_left();
  void pack_right();
  void pack_right_rows();
  void pack_right_columns();
  void pack_left_rows();
  void pack_left_columns();
  Values turned(tile::ValueId v, const Emitter::VectorAxis& at, tile::AxisId across,
                kir::ValueId first, bool inside);
  kir::ValueId evaluate(tile::ValueId v, const Emitter::VectorAxis& at);
  kir::ValueId first_lanes(kir::ValueId count, uint16_t lanes);
  bool runs_along(tile::ValueId v, tile::AxisId axis) const;
  Values weave(kir::ValueId even, kir::ValueId odd);

  Emitter& emit_;
  kir::KirBuilder& b_;
  KeptTile sums_;
  tile::AxisId rows_, columns_, depth_;  // rows_: none if there is one row
  tile::ValueId left_, right_, start_;   // start_: what the sums are added to, or none
  kir::Elem elem_ = kir::Elem::F32, sum_elem_ = kir::Elem::F32;  // of panels and of sums
  bool pairs_ = false;                                           // dot_pairs
  bool as_library_ = false;                                      // parts of sums
  int64_t step_ = 1;                                             // of the depth: 2 with pairs
  uint16_t lanes_ = 1;                                           // of a vector of sums
  int64_t strip_ = 1, vectors_ = 1;                              // of a block in registers
  int64_t part_ = 1, part_depth_ = 0;  // of the depth: room in panels, what is taken of it
  std::optional<Source> left_rows_, right_rows_;  // read where they lie, not from panels
  kir::ObjectId left_panel_, right_panel_;
  kir::ValueId from_, length_;  // of the part at hand
};

}  // namespace poot::codegen::lowering
