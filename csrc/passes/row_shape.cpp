#include "passes/row_shape.h"

#include <algorithm>

namespace poot::passes {
namespace {

Shape leading(const Shape& shape, size_t axes) {
  return Shape(shape.begin(), shape.end() - static_cast<ptrdiff_t>(axes));
}

}  // namespace

std::optional<RowShape> row_shape(const ir::Graph& graph, const ir::Eqn& eqn) {
  if (eqn.info().kind != ir::OpKind::Reduce) return std::nullopt;
  const Shape shape = graph.type(eqn.inputs[0]).shape;
  const auto& axes = eqn.attr<std::vector<int64_t>>("axes");
  const auto rank = static_cast<int64_t>(shape.size());
  const auto count = static_cast<int64_t>(axes.size());
  for (const int64_t a : axes)
    if (a < rank - count) return std::nullopt;
  const bool unit = std::all_of(axes.begin(), axes.end(), [&](int64_t a) {
    return shape[static_cast<size_t>(a)].is_const(1);
  });
  if (unit) return std::nullopt;
  return RowShape{shape, axes.size(), numel(leading(shape, axes.size()))};
}

bool is_full(const RowShape& row, const Shape& shape) {
  if (shape.size() < row.axes) return false;
  for (size_t i = 1; i <= row.axes; ++i)
    if (shape[shape.size() - i] != row.full[row.full.size() - i]) return false;
  return shape == row.full || numel(leading(shape, row.axes)) == row.rows;
}

bool is_per_row(const RowShape& row, const Shape& shape) {
  return numel(shape) == row.rows;
}

bool stays_in_row(const RowShape& row, const Shape& operand, const Shape& result) {
  if (operand == result) return true;
  if (!is_full(row, result) || operand.size() != result.size()) return false;
  for (size_t i = 0; i < result.size(); ++i) {
    const bool column = i + row.axes >= result.size();
    if (column ? !operand[i].is_const(1) : operand[i] != result[i]) return false;
  }
  return true;
}

bool view_keeps_rows(const RowShape& row, const ir::Eqn& view, const Shape& from, const Shape& to) {
  if (view.op == ir::OpCode::broadcast) return stays_in_row(row, from, to);
  if (view.op != ir::OpCode::reshape) return false;
  return (is_full(row, from) && is_full(row, to)) || (is_per_row(row, from) && is_per_row(row, to));
}

}  // namespace poot::passes
