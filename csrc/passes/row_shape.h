// The structure of a row region: rows x the trailing axes that its reductions cover.
#pragma once

#include <optional>

#include "passes/partition.h"

namespace poot::passes {

struct RowShape {
  Shape full;       // rows and columns
  size_t axes = 0;  // how many trailing axes are columns
  Dim rows = 1;     // number of rows
  friend bool operator==(const RowShape& a, const RowShape& b) = default;
};

// Nothing unless the equation reduces exactly trailing axes, at least one of them longer than 1.
std::optional<RowShape> row_shape(const ir::Graph& graph, const ir::Eqn& eqn);

// The shape holds one element for each row and column; its trailing axes are the columns.
bool is_full(const RowShape& row, const Shape& shape);
// One element a row: the rows' axes with unit columns, the rows' axes alone, or a reshape of them.
bool is_per_row(const RowShape& row, const Shape& shape);
// Whether a value of shape `operand` inside the region, read by a pointwise equation of shape
// `result`, stays within its row: it has the result's shape, or unit columns beside the same rows.
bool stays_in_row(const RowShape& row, const Shape& operand, const Shape& result);
// Whether a view from `from` to `to` keeps rows and columns apart.
bool view_keeps_rows(const RowShape& row, const ir::Eqn& view, const Shape& from, const Shape& to);
// Whether a pointwise equation, a view or a reduction of the region, of shape `result`, reads such
// a value within its row.
bool reads_in_row(const RowShape& row, const ir::Eqn& reader, const Shape& operand,
                  const Shape& result);
// Null if equation e, and those of r's copies and of `copies` that it reads, read what region r
// makes within its row; else the reason why not.
const char* row_refusal(const Partition& partition, RegionIndex r, const RowShape& row, uint32_t e,
                        std::span<const uint32_t> copies);

}  // namespace poot::passes
