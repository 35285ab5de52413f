// Dispatch of inference through the table, after the checks that all ops share.
#include "ir/infer.h"

#include <algorithm>

namespace poot::ir {
namespace {

using InferFn = TypeList (*)(const InferCall&);
constexpr InferFn kInfer[] = {
#define OP(name, kind, inputs, attrs, infer, ...) infer,
#include "ir/ops.def"
#undef OP
};

void check_attrs(const InferCall& call) {
  const auto& infos = call.info.attrs;
  if (call.attrs.size() != infos.size())
    call.fail("eqn-C2", "has " + std::to_string(call.attrs.size()) + " attributes instead of " +
                            std::to_string(infos.size()));
  for (size_t i = 0; i < infos.size(); ++i) {
    const size_t held = call.attrs[i].index();
    if (held == 0 ? !infos[i].optional : held != static_cast<size_t>(infos[i].type) + 1)
      call.fail("eqn-C2", "attribute " + std::string(infos[i].name) +
                              (held == 0 ? " is missing" : " has the wrong type"));
  }
}

}  // namespace

void InferCall::fail(std::string_view constraint, const std::string& detail) const {
  throw InvalidGraph(std::string(constraint), where, std::string(info.name) + ": " + detail);
}

size_t InferCall::axis(size_t rank, std::string_view constraint) const {
  const int64_t a = attr<int64_t>("axis");
  if (a < 0 || static_cast<size_t>(a) >= rank)
    fail(constraint,
         "axis " + std::to_string(a) + " of a value with " + std::to_string(rank) + " axes");
  return static_cast<size_t>(a);
}

std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  const Shape& big = a.size() >= b.size() ? a : b;
  const Shape& small = a.size() >= b.size() ? b : a;
  Shape out = big;
  const size_t lead = big.size() - small.size();
  for (size_t i = 0; i < small.size(); ++i) {
    if (small[i].is_const(1) || small[i] == big[lead + i]) continue;
    if (!big[lead + i].is_const(1)) return std::nullopt;
    out[lead + i] = small[i];
  }
  return out;
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  if (from.size() > to.size()) return false;
  const size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i)
    if (!from[i].is_const(1) && from[i] != to[lead + i]) return false;
  return true;
}

bool are_axes(std::span<const int64_t> values, size_t rank) {
  std::vector<bool> seen(rank, false);
  for (int64_t v : values) {
    if (v < 0 || static_cast<size_t>(v) >= rank || seen[v]) return false;
    seen[v] = true;
  }
  return true;
}

std::string list_text(std::span<const int64_t> values) {
  std::string s = "[";
  for (size_t i = 0; i < values.size(); ++i) s += (i ? ", " : "") + std::to_string(values[i]);
  return s + "]";
}

std::vector<TensorType> infer(OpCode op, std::span<const TensorType> inputs,
                              std::span<const Attr> attrs, const Graph* body,
                              const std::string& where) {
  const InferCall call{op, op_info(op), inputs, attrs, body, where};
  if (!call.info.accepts(static_cast<int>(inputs.size())))
    call.fail("eqn-C1", "takes " + std::string(call.info.inputs < 0 ? "at least " : "") +
                            std::to_string(call.info.min_inputs()) + " operands, got " +
                            std::to_string(inputs.size()));
  check_attrs(call);
  if (body && call.info.kind != OpKind::Region) call.fail("eqn-C4", "only regions have a body");
  return kInfer[static_cast<size_t>(op)](call);
}

}  // namespace poot::ir
