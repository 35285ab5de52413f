// Generated kernels: regions, single equations that fusion left alone, copies. A result goes, in
// this order of preference, into the state buffer that it replaces, over an operand that dies here,
// into memory of its own. The first two need every read of the shared memory to be at the position
// that is written, which the body tells: from the operand to the results there are pointwise
// equations of one shape only. A kernel computes all results of a position before it stores any.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "passes/planner.h"
#include "passes/traffic.h"

namespace poot::passes {

using namespace program;
using ir::OpCode;
using ir::Operand;
using ir::OpKind;
using ir::ValueId;

namespace {

constexpr uint32_t kHostAlign = 64;  // of memory that the host allocates for us
constexpr size_t kNamedOps = 6;

// `in_order`: input and results are contiguous, so that reshapes keep the position.
bool reads_same_position(const ir::Graph& body, ValueId input, bool in_order) {
  std::vector<bool> derived(body.value_count(), false);
  derived[input.index] = true;
  for (const ir::Eqn& e : body.eqns()) {
    const Shape& result = body.type(e.outs[0]).shape;
    for (const Operand& o : e.inputs) {
      if (!ir::is_value(o) || !derived[std::get<ValueId>(o).index]) continue;
      const bool same = ir::is_pointwise(e.info().kind) && body.type(o).shape == result;
      if (!same && !(in_order && e.op == OpCode::reshape)) return false;
      derived[e.outs[0].index] = true;
    }
  }
  return true;
}

// The name that fusion gave, else "fused_add_relu": the first ops that compute, or all if there are
// only views.
std::string region_name(const ir::Graph& body) {
  if (body.name().starts_with("fused")) return body.name();
  std::vector<std::string_view> ops;
  for (const bool views : {false, true}) {
    for (const ir::Eqn& e : body.eqns()) {
      if (ir::is_view(e.info().kind) == views) ops.push_back(e.info().name);
    }
    if (!ops.empty()) break;
  }
  std::string name = "fused";
  for (size_t i = 0; i < ops.size() && i < kNamedOps; ++i) name += "_" + std::string(ops[i]);
  return ops.size() > kNamedOps ? name + "_etc" : name;
}

bool is_trailing(const std::vector<int64_t>& axes, size_t rank) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(rank - 1 - i)) == axes.end())
      return false;
  }
  return true;
}

RequestKind kind_of(const ir::Graph& graph, const ir::Eqn& eqn) {
  if (eqn.op == OpCode::fused_row) return RequestKind::Row;
  if (eqn.op == OpCode::fused_reduce) return RequestKind::Reduce;
  if (eqn.info().kind == OpKind::Scan) return RequestKind::Scan;
  if (eqn.op == OpCode::fused_contraction) return RequestKind::Contraction;
  if (eqn.info().kind != OpKind::Reduce) return RequestKind::Elementwise;
  const auto& axes = eqn.attr<std::vector<int64_t>>("axes");
  const size_t rank = graph.type(eqn.inputs[0]).shape.size();
  const bool rows = axes.size() < rank && is_trailing(axes, rank);
  return rows ? RequestKind::Row : RequestKind::Reduce;
}

// Kernels of a GPU rely on buffers that start at this alignment, as whole allocations do.
constexpr int64_t kDeviceAlign = 16;

// Whether the window's first element lies where vectors may start.
bool starts_aligned(const Buffer& b, const Place& p) {
  const Dim offset = p.window.offset * Dim(byte_size(b.dtype));
  return offset.is_const(0) || offset.divisible_by(kDeviceAlign);
}

uint32_t known_align(const Buffer& b, const Place& p) {
  if (b.cls != BufferClass::Arena && b.cls != BufferClass::Output) return 1;
  const Dim offset = p.window.offset * Dim(byte_size(b.dtype));
  return offset.is_const(0) || offset.divisible_by(kHostAlign) ? kHostAlign : 1;
}

}  // namespace

KernelId Planner::generate(KernelRequest request, const std::vector<Place>& inputs,
                           const std::vector<Place>& outputs, const std::vector<Place>& totals) {
  const bool gpu = context_.target.isa == Isa::Ptx;
  // What the kernel adds to its indices; the rest of the window's offset moves the buffer.
  const auto inner_offset = [&](const Place& p) {
    return gpu && !starts_aligned(writer_.buffer(p.buffer), p) ? p.window.offset : Dim(0);
  };
  for (const Place& p : inputs) request.inputs.push_back({p.window.strides, inner_offset(p), 1});
  for (const Place& p : outputs) {
    const Buffer& b = writer_.buffer(p.buffer);
    request.outputs.push_back({p.window.strides, inner_offset(p), known_align(b, p)});
    if (b.cls == BufferClass::Input)
      std::get<ArgTensor>(writer_.program().args[b.index]).mutated = true;
  }
  if (std::all_of(request.in_place.begin(), request.in_place.end(), [](int i) { return i < 0; }))
    request.in_place.clear();
  KernelLaunch l;
  auto slots = [&](const std::vector<Place>& places, std::span<const ValueId> values,
                   bool skip_first) {
    for (size_t i = skip_first ? 1 : 0; i < places.size(); ++i) {
      const Dim size = byte_size(request.body->type(values[i]).dtype);
      l.buffers.push_back(
          {places[i].buffer, (places[i].window.offset - inner_offset(places[i])) * size});
    }
  };
  slots(inputs, request.body->inputs(), request.kind == RequestKind::Scatter);
  std::vector<ValueId> results;
  for (const ir::GraphOutput& o : request.body->outputs()) results.push_back(o.value);
  if (request.kind != RequestKind::ScanParts) slots(outputs, results, false);
  for (const Place& p : totals) l.buffers.push_back({p.buffer, 0});
  l.traffic = traffic(request);
  l.kernel = writer_.kernel(std::move(request));
  const KernelId kernel = l.kernel;
  writer_.launch(std::move(l), eqn_ ? eqn_->origins : std::vector<uint32_t>{});
  return kernel;
}

bool Planner::place_in_state(KernelRequest& request, const std::vector<Place>& inputs,
                             size_t output, Place& to) {
  const ValueId v = eqn_->outs[output];
  if (!facts_[v.index].state) return false;
  const Place& state = places_[facts_[v.index].state.index];
  if (!dead_after_now(state.buffer) || is_broadcast(state.window)) return false;
  int32_t reader = -1;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k].buffer != state.buffer) continue;
    if (reader >= 0) return false;
    reader = static_cast<int32_t>(k);
  }
  if (reader < 0) return false;  // destination() does it
  const Window& w = inputs[reader].window;
  const Shape& shape = graph_.type(v).shape;
  if (w.shape != shape || w.offset != state.window.offset ||
      !same_strides(shape, w.strides, state.window.strides) ||
      !reads_same_position(*request.body, request.body->inputs()[reader], false))
    return false;
  request.in_place[output] = reader;
  to = state;
  return true;
}

namespace {

// Whether a result of this type may be all of the buffer.
bool is_result_of(const Buffer& b, const ir::TensorType& type, const Window& w) {
  return b.cls != BufferClass::Input && w.offset.is_const(0) &&
         b.bytes == numel(type.shape) * Dim(byte_size(type.dtype));
}

}  // namespace

bool Planner::reuse_operand(KernelRequest& request, const std::vector<Place>& inputs,
                            std::vector<bool>& taken, size_t output, Place& to) {
  const ValueId v = eqn_->outs[output];
  const bool escapes = facts_[v.index].escapes;
  // Elsewhere results move from call to call, which what writes them should not.
  if (escapes && context_.target.isa != Isa::X86) return false;
  const ir::TensorType& type = graph_.type(v);
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Buffer& b = writer_.buffer(inputs[k].buffer);
    const bool ours = b.cls == BufferClass::Arena || b.cls == BufferClass::Owned ||
                      (b.cls == BufferClass::Input && donated_[b.index]);
    const ValueId in = request.body->inputs()[k];
    const auto readers = std::count_if(
        inputs.begin(), inputs.end(), [&](const Place& p) { return p.buffer == inputs[k].buffer; });
    const Window& w = inputs[k].window;
    if (taken[k] || !ours || readers != 1 || !dead_after_now(inputs[k].buffer) ||
        byte_size(request.body->type(in).dtype) != byte_size(type.dtype) ||
        numel(w.shape) != numel(type.shape) ||
        !reads_same_position(*request.body, in, is_contiguous(w)))
      continue;
    const std::optional<Shape>& wanted = facts_[v.index].strides;
    const bool as_wanted = wanted && w.shape == type.shape && !is_broadcast(w) &&
                           same_strides(type.shape, w.strides, *wanted);
    const bool apart = wanted && extent({type.shape, *wanted, 0}) != numel(type.shape);
    if (!as_wanted && (escapes || apart || !is_contiguous(w))) continue;
    if (escapes && !is_result_of(b, type, w)) continue;
    taken[k] = true;
    request.in_place[output] = static_cast<int32_t>(k);
    to = {inputs[k].buffer,
          {type.shape, as_wanted ? *wanted : contiguous_strides(type.shape), w.offset}};
    return true;
  }
  return false;
}

// A row region that reads across memory (its rows are columns there) writes the same way, unless a
// reader asks for other strides: those of the first input of the result's shape.
std::optional<Shape> Planner::row_strides(ValueId v, const KernelRequest& request,
                                          const std::vector<Place>& inputs) const {
  const Shape& shape = graph_.type(v).shape;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Window& w = inputs[k].window;
    if (request.body->type(request.body->inputs()[k]).shape != shape || shape.size() < 2) continue;
    std::vector<size_t> order(shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return w.strides[a].hint(graph_.symbols()) > w.strides[b].hint(graph_.symbols());
    });
    Dim dense = 1;
    Shape strides(shape.size());
    for (size_t i = order.size(); i-- > 0; dense *= shape[order[i]]) strides[order[i]] = dense;
    if (w.strides.back().is_const(1) || is_broadcast(w) || !same_strides(shape, w.strides, strides))
      return std::nullopt;
    return strides;
  }
  return std::nullopt;
}

std::vector<Place> Planner::place_results(KernelRequest& request,
                                          const std::vector<Place>& inputs) {
  std::vector<Place> places(eqn_->outs.size());
  std::vector<bool> taken(inputs.size(), false);
  request.in_place.assign(places.size(), -1);
  for (size_t i = 0; i < places.size(); ++i) {
    if (request.kind == RequestKind::Elementwise &&
        (place_in_state(request, inputs, i, places[i]) ||
         reuse_operand(request, inputs, taken, i, places[i])))
      continue;
    places[i] = destination(eqn_->outs[i], request.kind == RequestKind::Row
                                               ? row_strides(eqn_->outs[i], request, inputs)
                                               : std::nullopt);
  }
  return places;
}

void Planner::split_region(const SplitReduction& split, const std::string& name,
                           const std::vector<Place>& inputs) {
  std::vector<Place> partial, to, from;
  for (const ir::GraphOutput& o : split.partial->outputs()) {
    const ir::TensorType& type = split.partial->type(o.value);
    Shape shape = type.shape;
    shape.insert(shape.begin(), split.parts);
    from.push_back(
        fresh({type.dtype, shape}, contiguous_strides(shape), program::BufferClass::Arena));
    to.push_back({from.back().buffer, Window::contiguous(type.shape)});
  }
  KernelRequest parts{RequestKind::Reduce, name + "_parts", split.partial};
  parts.parts = split.parts;
  generate(std::move(parts), inputs, to);
  KernelRequest total{RequestKind::Reduce, name, split.total};
  for (const uint32_t i : split.operands) from.push_back(inputs[i]);
  const std::vector<Place> outputs = place_results(total, from);
  const KernelId kernel = generate(std::move(total), from, outputs);
  out_.eqn_kernels[now_] = kernel;
  for (const ir::Eqn& e : eqn_->body->eqns())
    record(PlanKind::Generated, e.info().name, writer_.kernel_name(kernel));
  for (size_t i = 0; i < outputs.size(); ++i) set_place(eqn_->outs[i], outputs[i]);
}

void Planner::region() {
  KernelRequest request{kind_of(graph_, *eqn_), region_name(*eqn_->body), eqn_->body};
  std::vector<Place> inputs;
  for (const Operand& o : eqn_->inputs) inputs.push_back(place_of(o));
  if (request.kind != RequestKind::Elementwise)
    if (const auto split = split_reduction(*eqn_->body, context_.target))
      return split_region(*split, request.name, inputs);
  const std::vector<Place> outputs = place_results(request, inputs);
  const KernelId kernel = generate(std::move(request), inputs, outputs);
  out_.eqn_kernels[now_] = kernel;
  for (const ir::Eqn& e : eqn_->body->eqns())
    record(PlanKind::Generated, e.info().name, writer_.kernel_name(kernel));
  for (size_t i = 0; i < outputs.size(); ++i) set_place(eqn_->outs[i], outputs[i]);
}

void Planner::single_equation() {
  ir::Builder body("body", graph_.symbols());
  std::vector<Place> inputs;
  std::vector<Operand> operands;
  std::map<uint32_t, ValueId> seen;
  for (const Operand& o : eqn_->inputs) {
    if (!ir::is_value(o)) {
      operands.push_back(o);
      continue;
    }
    const ValueId v = std::get<ValueId>(o);
    if (!seen.contains(v.index)) {
      seen[v.index] = body.input(graph_.type(v));
      inputs.push_back(place_of(o));
    }
    operands.push_back(seen[v.index]);
  }
  for (const ValueId v : body.emit_multi(eqn_->op, std::move(operands), eqn_->attrs))
    body.output(v);
  KernelRequest request{kind_of(graph_, *eqn_), std::string(eqn_->info().name),
                        std::make_shared<ir::Graph>(body.finish())};
  const std::vector<Place> outputs = place_results(request, inputs);
  const KernelId kernel = request.kind == RequestKind::Scan
                              ? scan(std::move(request), inputs, outputs)
                              : generate(std::move(request), inputs, outputs);
  record(PlanKind::Generated, eqn_->info().name, writer_.kernel_name(kernel));
  for (size_t i = 0; i < outputs.size(); ++i) set_place(eqn_->outs[i], outputs[i]);
}

void Planner::copy(const Place& from, const Place& to, DType dtype) {
  Place source = from, target = to;
  if (is_complex(dtype)) {  // moved as pairs of halves, which every target can
    const DType half = dtype == DType::C64 ? DType::I32 : DType::I64;
    for (Place* p : {&source, &target}) {
      for (Dim& s : p->window.strides) s *= Dim(2);
      p->window.offset *= Dim(2);
      p->window.shape.push_back(2);
      p->window.strides.push_back(1);
    }
    dtype = half;
  }
  ir::Builder body("body", graph_.symbols());
  body.output(body.input({dtype, source.window.shape}));
  generate({RequestKind::Elementwise, "copy", std::make_shared<ir::Graph>(body.finish())}, {source},
           {target});
}

void Planner::fill_mask(const Place& from, const Place& to, const ir::TensorType& mask,
                        DType dtype) {
  ir::Builder body("body", graph_.symbols());
  const ValueId keep = body.input(mask);
  body.output(body.emit(OpCode::select,
                        {keep, ir::Scalar::of(dtype, 0.0), ir::Scalar::of(dtype, -INFINITY)}));
  generate({RequestKind::Elementwise, "attention_mask", std::make_shared<ir::Graph>(body.finish())},
           {from}, {to});
}

}  // namespace poot::passes
