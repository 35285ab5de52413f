// Regions: the operands bind the body's inputs in order, the body's outputs are the results. Rules
// of a body, checked here so that a malformed region cannot be built:
//   region-C1  a body exists; its inputs have the operands' types; its outputs are plain results
//   region-C2  it holds pointwise equations, sources, views and movement, and reductions or
//              contractions where the region is one; no region, update or call
//   region-C3  fused: all results have as many elements
//   region-C4  fused_row: every reduction covers exactly the trailing `axes` axes, and there is one
//   region-C5  fused_reduce: every reduction covers the same axes of one shape, and every result
//              is computed from one
//   region-C6  fused_contraction: its products have one shape and reduce one size, none is computed
//              from another, and every result is computed from one and has as many elements
#include <algorithm>

#include "ir/infer.h"

namespace poot::ir {
namespace {

bool reduces(OpCode region) {
  return region == OpCode::fused_row || region == OpCode::fused_reduce;
}

void check_binding(const InferCall& call) {
  if (!call.body) call.fail("region-C1", "the body is missing");
  const Graph& body = *call.body;
  if (body.inputs().size() != call.in.size())
    call.fail("region-C1", std::to_string(call.in.size()) + " operands for a body of " +
                               std::to_string(body.inputs().size()) + " inputs");
  for (size_t i = 0; i < call.in.size(); ++i)
    if (body.type(body.inputs()[i]) != call.in[i])
      call.fail("region-C1", "operand " + std::to_string(i) + " is " + call.in[i].str() +
                                 ", the body's input " + body.type(body.inputs()[i]).str());
  for (const GraphOutput& o : body.outputs())
    if (o.kind != OutputKind::Result) call.fail("region-C1", "an output is not a plain result");
}

void check_kinds(const InferCall& call) {
  for (const Eqn& e : call.body->eqns()) {
    const OpKind k = e.info().kind;
    const bool allowed = is_pointwise(k) || k == OpKind::Source || k == OpKind::View ||
                         k == OpKind::Movement || (k == OpKind::Reduce && reduces(call.op)) ||
                         (k == OpKind::Contraction && call.op == OpCode::fused_contraction);
    if (!allowed) call.fail("region-C2", "the body may not hold " + std::string(e.info().name));
  }
}

void check_pointwise(const InferCall& call) {
  const Graph& body = *call.body;
  if (body.outputs().empty()) return;
  const Shape& first = body.type(body.outputs()[0].value).shape;
  for (const GraphOutput& o : body.outputs()) {
    const Shape& shape = body.type(o.value).shape;
    if (shape != first && numel(shape) != numel(first))
      call.fail("region-C3", "results of shapes " + str(first) + " and " + str(shape) +
                                 " have no common iteration space");
  }
}

void check_row(const InferCall& call) {
  const int64_t axes = call.attr<int64_t>("axes");
  bool found = false;
  for (const Eqn& e : call.body->eqns()) {
    if (e.info().kind != OpKind::Reduce) continue;
    found = true;
    const auto& reduced = e.attr<std::vector<int64_t>>("axes");
    const auto rank = static_cast<int64_t>(call.body->type(e.inputs[0]).shape.size());
    const bool trailing =
        static_cast<int64_t>(reduced.size()) == axes && axes <= rank &&
        std::all_of(reduced.begin(), reduced.end(), [&](int64_t a) { return a >= rank - axes; });
    if (!trailing)
      call.fail("region-C4", std::string(e.info().name) + " over " + list_text(reduced) +
                                 " is not over the trailing " + std::to_string(axes) + " of " +
                                 std::to_string(rank) + " axes");
  }
  if (!found) call.fail("region-C4", "the body reduces nothing");
}

void check_reduce(const InferCall& call) {
  const Graph& body = *call.body;
  const Eqn* first = nullptr;
  std::vector<bool> from_reduction(body.value_count(), false);
  for (const Eqn& e : body.eqns()) {
    bool derived = false;
    for (const Operand& o : e.inputs)
      if (const ValueId* v = std::get_if<ValueId>(&o)) derived |= from_reduction[v->index];
    if (e.info().kind == OpKind::Reduce) {
      if (!first) first = &e;
      auto axes = e.attr<std::vector<int64_t>>("axes");
      auto expected = first->attr<std::vector<int64_t>>("axes");
      std::sort(axes.begin(), axes.end());
      std::sort(expected.begin(), expected.end());
      if (axes != expected || body.type(e.inputs[0]).shape != body.type(first->inputs[0]).shape)
        call.fail("region-C5", "reductions over " + list_text(expected) + " of " +
                                   body.type(first->inputs[0]).str() + " and " + list_text(axes) +
                                   " of " + body.type(e.inputs[0]).str());
      derived = true;
    }
    for (ValueId v : e.outs) from_reduction[v.index] = derived;
  }
  for (const GraphOutput& o : body.outputs())
    if (!from_reduction[o.value.index])
      call.fail("region-C5", "a result is not computed from a reduction");
}

void check_contraction(const InferCall& call) {
  const Graph& body = *call.body;
  const Eqn* first = nullptr;
  const auto depth = [&](const Eqn& e) {
    return body.type(e.inputs[e.inputs.size() - 2]).shape.back();
  };
  std::vector<bool> from_product(body.value_count(), false);
  for (const Eqn& e : body.eqns()) {
    bool derived = false;
    for (const Operand& o : e.inputs)
      if (const ValueId* v = std::get_if<ValueId>(&o)) derived |= from_product[v->index];
    if (e.info().kind == OpKind::Contraction) {
      if (!first) first = &e;
      if (derived) call.fail("region-C6", "a product is computed from another");
      if (body.type(e.outs[0]).shape != body.type(first->outs[0]).shape ||
          depth(e) != depth(*first))
        call.fail("region-C6", "products " + body.type(first->outs[0]).str() + " over " +
                                   depth(*first).str() + " and " + body.type(e.outs[0]).str() +
                                   " over " + depth(e).str());
      derived = true;
    }
    for (ValueId v : e.outs) from_product[v.index] = derived;
  }
  for (const GraphOutput& o : body.outputs())
    if (!from_product[o.value.index] ||
        numel(body.type(o.value).shape) != numel(body.type(first->outs[0]).shape))
      call.fail("region-C6", "a result is not computed from a product, element by element");
}

}  // namespace

TypeList infer_body(const InferCall& call) {
  check_binding(call);
  check_kinds(call);
  if (call.op == OpCode::fused_row)
    check_row(call);
  else if (call.op == OpCode::fused_reduce)
    check_reduce(call);
  else if (call.op == OpCode::fused_contraction)
    check_contraction(call);
  else
    check_pointwise(call);
  TypeList out;
  for (const GraphOutput& o : call.body->outputs()) out.push_back(call.body->type(o.value));
  return out;
}

}  // namespace poot::ir
