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

bool reads_in_row(const RowShape& row, const ir::Eqn& reader, const Shape& operand,
                  const Shape& result) {
  const ir::OpKind kind = reader.info().kind;
  if (ir::is_view(kind)) return view_keeps_rows(row, reader, operand, result);
  if (kind == ir::OpKind::Reduce) return is_full(row, operand);
  return ir::is_pointwise(kind) && stays_in_row(row, operand, result);
}

const char* row_refusal(const Partition& partition, RegionIndex r, const RowShape& row, uint32_t e,
                        std::span<const uint32_t> copies) {
  const ir::Graph& graph = partition.graph();
  const auto def = [&](const ir::Operand& o) {
    return ir::is_value(o) ? graph.def(std::get<ir::ValueId>(o)) : -1;
  };
  std::vector<uint32_t> readers{e};  // e, and the copies that it reads
  for (size_t i = 0; i < readers.size(); ++i)
    for (const ir::Operand& o : partition.eqn(readers[i]).inputs) {
      if (def(o) < 0) continue;
      const auto d = static_cast<uint32_t>(def(o));
      const bool copy = partition.home(d) != r &&
                        (partition.holds(r, d) || std::ranges::find(copies, d) != copies.end());
      if (copy && std::ranges::find(readers, d) == readers.end()) readers.push_back(d);
    }
  std::sort(readers.begin(), readers.end());
  std::vector<uint32_t> made;  // those that read what r makes, or what such make, ascending
  for (const uint32_t reader : readers) {
    const ir::Eqn& eqn = partition.eqn(reader);
    for (const ir::Operand& o : eqn.inputs) {
      if (def(o) < 0) continue;
      const auto d = static_cast<uint32_t>(def(o));
      if (partition.home(d) != r && !std::binary_search(made.begin(), made.end(), d)) continue;
      if (!reads_in_row(row, eqn, graph.type(o).shape, graph.type(eqn.outs[0]).shape))
        return ir::is_view(eqn.info().kind) ? "a view before it mixes rows and columns"
                                            : "it reads across rows";
      if (made.empty() || made.back() != reader) made.push_back(reader);
    }
  }
  return nullptr;
}

}  // namespace poot::passes
