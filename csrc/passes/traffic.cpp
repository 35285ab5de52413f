// An input counts with its elements in memory (axes of stride 0 once). If only lookups or slices
// read it, it counts with the elements that they take, so that an embedding's table does not count
// as a whole. An update in place writes as much as it reads from its source.
#include "passes/traffic.h"

namespace poot::passes {
namespace {

using ir::OpCode;
using ir::OpKind;
using ir::ValueId;

Dim stored(const Shape& shape, const ir::Layout& layout) {
  Dim n = 1;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!layout.strides[i].is_const(0)) n *= shape[i];
  return n;
}

bool takes_some(const ir::Eqn& e, size_t operand) {
  return operand == 0 && (e.op == OpCode::gather || e.op == OpCode::take || e.op == OpCode::slice);
}

// Elements of the input that the body reads.
Dim elements_read(const ir::Graph& body, ValueId input, const ir::Layout& layout) {
  Dim taken = 0;
  for (const ir::Eqn& e : body.eqns()) {
    for (size_t k = 0; k < e.inputs.size(); ++k) {
      if (!ir::is_value(e.inputs[k]) || std::get<ValueId>(e.inputs[k]) != input) continue;
      if (!takes_some(e, k)) return stored(body.type(input).shape, layout);
      taken += numel(body.type(e.outs[0]).shape);
    }
  }
  return taken;
}

}  // namespace

Dim traffic(const KernelRequest& request) {
  const ir::Graph& body = *request.body;
  const auto size = [&](ValueId v) { return Dim(byte_size(body.type(v).dtype)); };
  Dim bytes = 0;
  if (request.kind == RequestKind::Scatter) {
    for (size_t i = 1; i < body.inputs().size(); ++i) {
      const ValueId v = body.inputs()[i];
      bytes += numel(body.type(v).shape) * size(v);
    }
    const ir::Eqn& update = body.eqns()[0];
    const ir::Operand& source = update.inputs.back();
    return bytes + numel(body.type(source).shape) * Dim(byte_size(body.type(source).dtype));
  }
  for (size_t i = 0; i < body.inputs().size(); ++i) {
    const ValueId v = body.inputs()[i];
    bytes += elements_read(body, v, request.inputs[i]) * size(v);
  }
  if (request.kind == RequestKind::ScanParts) return bytes;
  const Dim times = request.kind == RequestKind::Reduce ? request.parts : Dim(1);
  for (const ir::GraphOutput& o : body.outputs())
    bytes += numel(body.type(o.value).shape) * size(o.value) * times;
  return bytes;
}

}  // namespace poot::passes
