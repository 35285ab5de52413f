#include "codegen/generate/reduction.h"
#include "codegen/generate/scan.h"
#include "passes/request.h"

namespace poot::codegen {

using ir::OpCode;
using tile::ValueId;

ScanFunction::ScanFunction(tile::TileBuilder& b, const ir::Graph& body, Isa isa)
    : b_(b),
      op_(body.eqns()[0].op),
      dtype_(body.type(body.eqns()[0].outs[0]).dtype),
      dtypes_(passes::scan_accumulators(body, isa)) {}

ScanFunction::Values ScanFunction::identities(const std::vector<tile::AxisId>& axes) const {
  const DType d = dtypes_[0];
  switch (op_) {
    case OpCode::scan_sum:
      return {b_.constant(reduction_identity(OpCode::reduce_sum, d), axes)};
    case OpCode::scan_prod:
      return {b_.constant(reduction_identity(OpCode::reduce_prod, d), axes)};
    case OpCode::scan_logaddexp:
      return {b_.constant(ir::Scalar::of(d, -__builtin_inf()), axes)};
    default: {
      const bool max = op_ == OpCode::scan_max;
      return {
          b_.constant(reduction_identity(max ? OpCode::reduce_max : OpCode::reduce_min, d), axes),
          b_.constant(ir::Scalar::of(dtypes_[1], int64_t{0}), axes)};
    }
  }
}

ScanFunction::Values ScanFunction::elements(ValueId x, ValueId place) const {
  if (dtypes_[0] != dtype_) x = b_.pointwise(OpCode::cast, dtypes_[0], {x});
  if (!tells_places()) return {x};
  return {x, place};
}

// max + log1p(exp(min - max)); x where both are the same infinity.
ValueId ScanFunction::log_add_exp(ValueId sum, ValueId x) const {
  const DType d = dtypes_[0];
  const auto op = [&](OpCode o, Values args) { return b_.pointwise(o, d, std::move(args)); };
  const auto test = [&](OpCode o, ValueId l, ValueId r) {
    return b_.pointwise(o, DType::Bool, {l, r});
  };
  const ValueId low = op(OpCode::minimum, {sum, x}), high = op(OpCode::maximum, {sum, x});
  const ValueId grown = op(OpCode::log1p, {op(OpCode::exp, {op(OpCode::sub, {low, high})})});
  const ValueId infinity = b_.constant(ir::Scalar::of(d, __builtin_inf()));
  const ValueId finite = test(OpCode::lt, op(OpCode::abs, {low}), infinity);
  const ValueId usual =
      b_.pointwise(OpCode::bit_or, DType::Bool, {finite, test(OpCode::ne, low, high)});
  return op(OpCode::select, {usual, op(OpCode::add, {grown, high}), x});
}

ScanFunction::Values ScanFunction::fold(const Values& before, const Values& next) const {
  const DType d = dtypes_[0];
  const ValueId x = next[0];
  switch (op_) {
    case OpCode::scan_sum:
      return {b_.pointwise(OpCode::add, d, {before[0], x})};
    case OpCode::scan_prod:
      return {b_.pointwise(OpCode::mul, d, {before[0], x})};
    case OpCode::scan_logaddexp:
      return {log_add_exp(before[0], x)};
    default: {
      const OpCode reaches = op_ == OpCode::scan_max ? OpCode::ge : OpCode::le;
      ValueId taken = b_.pointwise(reaches, DType::Bool, {x, before[0]});
      if (is_float(d))
        taken = b_.pointwise(OpCode::bit_or, DType::Bool,
                             {taken, b_.pointwise(OpCode::is_nan, DType::Bool, {x})});
      return {b_.pointwise(OpCode::select, d, {taken, x, before[0]}),
              b_.pointwise(OpCode::select, dtypes_[1], {taken, next[1], before[1]})};
    }
  }
}

ScanFunction::Values ScanFunction::results(Values folded) const {
  if (dtypes_[0] != dtype_) folded[0] = b_.pointwise(OpCode::cast, dtype_, {folded[0]});
  return folded;
}

ScanBuffers declare_scan_buffers(tile::TileBuilder& b, const passes::KernelRequest& request,
                                 Isa isa) {
  ScanBuffers out;
  const bool parts = request.kind == passes::RequestKind::ScanParts;
  Buffers all = declare_buffers(b, request, 0, !parts);
  out.inputs = std::move(all.inputs);
  out.outputs = std::move(all.outputs);
  if (request.parts.is_const(1)) return out;
  for (const DType d : passes::scan_accumulators(*request.body, isa))
    out.totals.push_back(b.buffer("total" + std::to_string(out.totals.size()), d, parts,
                                  static_cast<uint32_t>(byte_size(d))));
  return out;
}

Region scan_region(const passes::KernelRequest& request) {
  const ir::Graph& body = *request.body;
  const ir::Eqn& scan = body.eqns()[0];
  const auto axis = static_cast<size_t>(scan.attr<int64_t>("axis"));
  const Shape& shape = body.type(scan.inputs[0]).shape;
  std::vector<RootDim> root;
  for (size_t i = 0; i < shape.size(); i++)
    if (i != axis) root.push_back({shape[i], Role::Free});
  root.push_back({shape[axis], Role::Reduced});
  return build_region(body.symbols(), root, [&](Region& r, const Coordinates& at) {
    Coordinates c(at.begin(), at.end() - 1);
    c.insert(c.begin() + static_cast<std::ptrdiff_t>(axis), at.back());
    IndexMap map(body, request.inputs, r.space, r.nodes);
    const NodeId x = map.at(scan.inputs[0], c);
    for (uint32_t i = 0; i < request.outputs.size(); i++)
      r.results.push_back({x, i, element_index(request.outputs[i], c), {}});
    r.checks = map.checks();
  });
}

}  // namespace poot::codegen
