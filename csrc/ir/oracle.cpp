// The oracle walks the equations in order, keeps every value as a dense array, and hands each
// equation to its kind's evaluator. Regions evaluate their body with the same symbols. A value is
// freed after its last reader.
#include "ir/oracle.h"

#include <cstring>
#include <map>

#include "ir/oracle_ops.h"
#include "ir/scalar_eval.h"

namespace poot::ir {

int64_t HostArray::numel() const {
  int64_t n = 1;
  for (const int64_t s : shape) n *= s;
  return n;
}

uint64_t HostArray::bits(int64_t i) const {
  const auto size = static_cast<size_t>(byte_size(dtype));
  uint64_t b = 0;
  std::memcpy(&b, data.data() + static_cast<size_t>(i) * size, size);
  return b;
}

void HostArray::set_bits(int64_t i, uint64_t b) {
  const auto size = static_cast<size_t>(byte_size(dtype));
  std::memcpy(data.data() + static_cast<size_t>(i) * size, &b, size);
}

HostArray HostArray::zeros(DType dtype, std::vector<int64_t> shape) {
  HostArray array{dtype, std::move(shape), {}};
  array.data.resize(static_cast<size_t>(array.numel() * byte_size(dtype)));
  return array;
}

int64_t linear(const std::vector<int64_t>& shape, const Coords& at) {
  int64_t index = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) index = index * shape[axis] + at[axis];
  return index;
}

int64_t linear_broadcast(const std::vector<int64_t>& shape, const Coords& at) {
  int64_t index = 0;
  const size_t lead = at.size() - shape.size();
  for (size_t axis = 0; axis < shape.size(); ++axis)
    index = index * shape[axis] + (shape[axis] == 1 ? 0 : at[lead + axis]);
  return index;
}

namespace {

std::vector<int64_t> concrete(const Shape& shape, std::span<const int64_t> symbols) {
  std::vector<int64_t> sizes;
  for (const Dim& d : shape) sizes.push_back(d.eval(symbols));
  return sizes;
}

HostArray literal(const Scalar& s) {
  HostArray array = HostArray::zeros(s.dtype, {});
  array.set_bits(0, bits_of(s));
  return array;
}

void dispatch(OracleCall& call, const OracleOptions& options) {
  switch (call.eqn.info().kind) {
    case OpKind::View:
      return eval_view(call);
    case OpKind::Movement:
      return eval_movement(call);
    case OpKind::Update:
      return eval_update(call);
    case OpKind::Reduce:
      return eval_reduce(call);
    case OpKind::Scan:
      return eval_scan(call);
    case OpKind::Contraction:
      return eval_contraction(call);
    case OpKind::Structured:
      return eval_structured(call);
    case OpKind::Region: {
      std::vector<HostArray> operands;
      for (const HostArray* a : call.in) operands.push_back(*a);
      call.out = evaluate(*call.eqn.body, operands, call.symbols, options);
      return;
    }
    case OpKind::Opaque: {
      if (!options.opaque) call.fault("needs a callback that runs opaque equations");
      std::vector<HostArray> operands;
      for (const HostArray* a : call.in) operands.push_back(*a);
      call.out = options.opaque(call.eqn, operands);
      return;
    }
    default:
      return eval_elementwise(call);
  }
}

std::vector<size_t> last_readers(const Graph& graph) {
  std::vector<size_t> last(graph.value_count(), 0);
  for (size_t i = 0; i < graph.eqns().size(); ++i)
    for (const Operand& o : graph.eqns()[i].inputs)
      if (is_value(o)) last[std::get<ValueId>(o).index] = i;
  for (const GraphOutput& o : graph.outputs()) last[o.value.index] = graph.eqns().size();
  return last;
}

}  // namespace

std::vector<HostArray> evaluate(const Graph& graph, std::span<const HostArray> inputs,
                                std::span<const int64_t> symbols, const OracleOptions& options) {
  if (inputs.size() != graph.inputs().size())
    throw InvalidGraph("oracle-C1", graph.name(),
                       std::to_string(inputs.size()) + " arrays for " +
                           std::to_string(graph.inputs().size()) + " inputs");
  if (symbols.size() < graph.symbols().size())
    throw InvalidGraph("oracle-C1", graph.name(), "a size symbol has no value");
  std::vector<HostArray> values(graph.value_count());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& type = graph.type(graph.inputs()[i]);
    if (inputs[i].dtype != type.dtype || inputs[i].shape != concrete(type.shape, symbols))
      throw InvalidGraph("oracle-C1", "input " + std::to_string(i),
                         "the array is not of type " + type.str());
    values[graph.inputs()[i].index] = inputs[i];
  }
  const std::vector<size_t> last = last_readers(graph);
  for (size_t i = 0; i < graph.eqns().size(); ++i) {
    const Eqn& eqn = graph.eqns()[i];
    OracleCall call{eqn, {}, {}, symbols};
    std::vector<HostArray> literals(eqn.inputs.size());
    for (size_t o = 0; o < eqn.inputs.size(); ++o) {
      if (is_value(eqn.inputs[o])) {
        call.in.push_back(&values[std::get<ValueId>(eqn.inputs[o]).index]);
      } else {
        literals[o] = literal(std::get<Scalar>(eqn.inputs[o]));
        call.in.push_back(&literals[o]);
      }
    }
    for (const ValueId out : eqn.outs)
      call.out.push_back(
          HostArray::zeros(graph.type(out).dtype, concrete(graph.type(out).shape, symbols)));
    dispatch(call, options);
    if (call.out.size() != eqn.outs.size())
      throw InternalError("the oracle's evaluator of " + std::string(eqn.info().name) +
                          " made another number of results");
    for (size_t o = 0; o < eqn.outs.size(); ++o) values[eqn.outs[o].index] = std::move(call.out[o]);
    for (const Operand& o : eqn.inputs)
      if (is_value(o) && last[std::get<ValueId>(o).index] == i)
        values[std::get<ValueId>(o).index] = {};
  }
  std::vector<HostArray> results;
  for (const GraphOutput& out : graph.outputs()) results.push_back(values[out.value.index]);
  return results;
}

}  // namespace poot::ir
