// The end of the plan: results first, then the states that were not updated in place, so that a
// result which shows an argument's old contents is saved before they are overwritten. States whose
// source lies in a buffer that another state overwrites (a swap) go through a transient. Results
// share memory only where eager's would: a clone may be the same value, and is still its own
// memory.
#include <algorithm>

#include "passes/planner.h"
#include "support/errors.h"

namespace poot::passes {

using namespace program;
using ir::GraphOutput;
using ir::OutputKind;

bool Planner::is_mutated(BufferId b) const {
  return std::any_of(graph_.outputs().begin(), graph_.outputs().end(), [&](const GraphOutput& o) {
    return o.kind == OutputKind::StateNext && places_[o.state_input.index].buffer == b &&
           o.value != o.state_input;
  });
}

// Whether the result may show the memory that the value has.
bool Planner::may_show(BufferId buffer, const SignatureResult& result) {
  const Buffer& b = writer_.buffer(buffer);
  if (b.cls == BufferClass::Const) return false;
  if (b.cls == BufferClass::Input)
    return result.of_argument && !is_mutated(buffer) && !donated_[b.index];
  const auto [it, first] = shown_.emplace(buffer.index, result.base);
  return first || it->second == result.base;
}

Place Planner::result_place(const GraphOutput& out, const SignatureResult& result) {
  const ir::TensorType& type = graph_.type(out.value);
  const Place p = places_[out.value.index];
  const Window wanted{type.shape, out.layout ? out.layout->strides : contiguous_strides(type.shape),
                      0};
  const bool fits = same_strides(type.shape, p.window.strides, wanted.strides);
  if (fits && may_show(p.buffer, result))
    return {p.buffer, {type.shape, wanted.strides, p.window.offset}};
  const std::string_view reason =
      fits ? "the memory is not the result's to keep" : "the caller wants other strides";
  return restrided(p, type, wanted.strides, BufferClass::Output, value_name(out.value), reason);
}

void Planner::results() {
  std::vector<const GraphOutput*> outputs;
  for (const GraphOutput& o : graph_.outputs()) {
    if (o.kind == OutputKind::Result) outputs.push_back(&o);
  }
  std::map<std::string, Result> made;  // a value that is returned twice is one view
  for (const SignatureResult& r : signature_.results) {
    Result result = ResultNone{};
    if (r.kind == SignatureResult::Kind::Int) {
      result = ResultInt{r.expr};
    } else if (r.kind == SignatureResult::Kind::Arg) {
      result = ResultArg{r.arg};
    } else if (r.kind == SignatureResult::Kind::Tensor) {
      if (r.output >= outputs.size())
        throw InternalError("the signature names result " + std::to_string(r.output) + " of " +
                            std::to_string(outputs.size()));
      const GraphOutput& o = *outputs[r.output];
      const auto arg = input_args_.find(o.value.index);
      const std::string key = value_name(o.value) +
                              (o.layout ? str(o.layout->strides) : std::string()) + " of " +
                              std::to_string(r.base);
      if (const auto it = made.find(key); it != made.end()) {
        result = it->second;
      } else if (arg != input_args_.end() && r.of_argument &&
                 !is_mutated(places_[o.value.index].buffer)) {
        result = ResultArg{arg->second};
      } else {
        result = ResultView{view_of(result_place(o, r), graph_.type(o.value).dtype)};
      }
      made[key] = result;
    }
    writer_.program().results.push_back(result);
  }
}

void Planner::states() {
  struct Pending {
    Place from, to;
    const GraphOutput* out;
  };
  std::vector<Pending> pending;
  for (const GraphOutput& o : graph_.outputs()) {
    if (o.kind != OutputKind::StateNext) continue;
    const Place& from = places_[o.value.index];
    const Place& to = places_[o.state_input.index];
    const bool there = from.buffer == to.buffer && from.window.offset == to.window.offset &&
                       same_strides(from.window.shape, from.window.strides, to.window.strides);
    if (!there) pending.push_back({from, to, &o});
  }
  for (Pending& p : pending) {
    const bool overwritten = std::any_of(pending.begin(), pending.end(), [&](const Pending& other) {
      return other.to.buffer == p.from.buffer;
    });
    const ir::TensorType& type = graph_.type(p.out->value);
    if (!overwritten) continue;
    p.from = copied(p.from, type.dtype, contiguous_strides(type.shape), BufferClass::Arena,
                    value_name(p.out->value), "its memory is overwritten by another state");
  }
  for (const Pending& p : pending) {
    const ir::TensorType& type = graph_.type(p.out->value);
    copy(p.from, p.to, type.dtype);
    out_.layout_copies.push_back({value_name(p.out->value), "the next state of an argument",
                                  numel(type.shape) * Dim(byte_size(type.dtype))});
  }
}

}  // namespace poot::passes
