// Updates of a base. In place, the cost follows the update; else the base is copied first, and the
// copy is reported. In place is right when the base's memory is ours to overwrite (a transient, a
// donated argument, or the very argument whose next state this is), nothing reads the old contents
// afterwards, and no other operand lies in the same memory.
//
// On a GPU, what is added to few rows is added in parts, each to rows of its own, so that many
// threads have work and long sums are sums of sums:
//   parts [P, rows, ..] = 0;  part p adds every P-th row of the source;  base += the parts' sum
// What is combined in any order without a difference is combined by atomic accesses, and so are
// very many floating-point numbers that are added to many rows, unless equal bits are asked for.
#include <algorithm>

#include "passes/planner.h"

namespace poot::passes {

using namespace program;
using ir::OpCode;
using ir::Operand;
using ir::ValueId;

namespace {

constexpr int64_t kFewRows = 256, kRowsInParts = 4;  // source rows for each row of all parts
constexpr int64_t kFewestParts = 4, kLongWalk = 1024;
constexpr int64_t kThreads = 4096, kColumns = 64;  // of parts side by side; columns count as whole
constexpr int64_t kManySlots = 4096;  // a walk of them takes longer than a library's sort

struct Sizes {
  int64_t rows = 1, slots = 1, columns = 1;
};

Sizes sizes_of(const ir::Graph& graph, const ir::Eqn& e) {
  const Shape &base = graph.type(e.inputs[0]).shape, &source = graph.type(e.inputs[2]).shape;
  const auto axis = static_cast<size_t>(e.attr<int64_t>("axis"));
  Sizes n{base[axis].hint(graph.symbols())};
  for (size_t i = 0; i < source.size(); ++i)
    (i == axis ? n.slots : n.columns) *= source[i].hint(graph.symbols());
  return n;
}

// 1: not in parts.
int64_t parts_of_sum(const ir::Graph& graph, const ir::Eqn& e) {
  if (e.text("fn") != "add" || !numel(graph.type(e.inputs[0]).shape).is_const()) return 1;
  const Sizes n = sizes_of(graph, e);
  if (n.columns == 0) return 1;
  const int64_t columns = (n.columns + kColumns - 1) / kColumns * kColumns;
  const int64_t wanted = std::max(kThreads / (n.columns == 1 ? 1 : columns), n.slots / kLongWalk);
  const int64_t parts = std::min(n.slots / (kRowsInParts * std::max<int64_t>(n.rows, 1)), wanted);
  return n.rows > kFewRows || parts < kFewestParts ? 1 : parts;
}

bool combines_in_any_order(const ir::Graph& graph, const ir::Eqn& e, bool deterministic) {
  const std::string_view fn = e.text("fn");
  const DType dtype = graph.type(e.inputs[0]).dtype;
  if (fn == "maximum" || fn == "minimum")
    return !is_float(dtype) || dtype == DType::F32 || dtype == DType::F64;
  if (fn != "add") return false;
  return !is_float(dtype) || (!deterministic && sizes_of(graph, e).slots > kManySlots);
}

}  // namespace

bool Planner::may_update(const Place& base, ValueId result) const {
  const Buffer& b = writer_.buffer(base.buffer);
  const ValueFacts& f = facts_[result.index];
  bool ours = b.cls == BufferClass::Arena || b.cls == BufferClass::Owned;
  if (b.cls == BufferClass::Input) {
    const bool next_state = f.state && places_[f.state.index].buffer == base.buffer;
    ours = next_state || (donated_[b.index] && !f.escapes);
  }
  if (!ours || !dead_after_now(base.buffer) || is_broadcast(base.window)) return false;
  return std::none_of(eqn_->inputs.begin() + 1, eqn_->inputs.end(), [&](const Operand& o) {
    return ir::is_value(o) && places_[std::get<ValueId>(o).index].buffer == base.buffer;
  });
}

void Planner::update() {
  const ValueId result = eqn_->outs[0];
  const ir::TensorType& type = graph_.type(result);
  Place base = place_of(eqn_->inputs[0]);
  if (!ir::is_value(eqn_->inputs[0]) || !may_update(base, result)) {
    const Place to = destination(result);
    copy(base, to, type.dtype);
    out_.layout_copies.push_back({value_name(eqn_->inputs[0]),
                                  "the base of " + std::string(eqn_->info().name) +
                                      " is read again or is not ours to overwrite",
                                  numel(type.shape) * Dim(byte_size(type.dtype))});
    base = to;
  }
  if (eqn_->op == OpCode::update_slice) {
    Place window = base;
    window.window = slice_window(base.window, eqn_->attr<int64_t>("axis"), eqn_->attr<Dim>("start"),
                                 eqn_->attr<Dim>("end"), eqn_->attr<int64_t>("step"));
    Place source = place_of(eqn_->inputs[1]);
    source.window = expand(source.window, window.window.shape);
    copy(source, window, type.dtype);
    record(PlanKind::Generated, eqn_->info().name, "copy");
  } else {
    scatter(base);
  }
  set_place(result, base);
}

void Planner::scatter(const Place& base) {
  ir::Builder body("body", graph_.symbols());
  std::vector<Place> inputs;
  std::vector<Operand> operands;
  for (size_t i = 0; i < eqn_->inputs.size(); ++i) {
    const Operand& o = eqn_->inputs[i];
    inputs.push_back(i == 0 ? base : place_of(o));
    operands.push_back(body.input(graph_.type(o)));
  }
  const bool gpu = context_.target.isa == Isa::Ptx;
  const int64_t parts = gpu ? parts_of_sum(graph_, *eqn_) : 1;
  KernelRequest request{RequestKind::Scatter, std::string(eqn_->info().name), nullptr};
  if (parts > 1) {
    const DType wide = opmath(graph_.type(eqn_->inputs[0]).dtype);
    // The sums of a part are of opmath, to which its base belongs.
    ir::Builder wider("body", graph_.symbols());
    operands = {wider.input({wide, graph_.type(eqn_->inputs[0]).shape}),
                wider.input(graph_.type(eqn_->inputs[1])),
                wider.input(graph_.type(eqn_->inputs[2]))};
    if (wide != graph_.type(eqn_->inputs[2]).dtype)
      operands[2] = wider.emit(OpCode::cast, {operands[2]}, {wide});
    wider.output(wider.emit(eqn_->op, std::move(operands), eqn_->attrs));
    request.body = std::make_shared<ir::Graph>(wider.finish());
    return add_in_parts(parts, std::move(request), std::move(inputs));
  }
  body.output(body.emit(eqn_->op, std::move(operands), eqn_->attrs));
  request.body = std::make_shared<ir::Graph>(body.finish());
  request.any_order = gpu && combines_in_any_order(graph_, *eqn_, context_.options.deterministic);
  const KernelId kernel = generate(std::move(request), inputs, {base});
  record(PlanKind::Generated, eqn_->info().name, writer_.kernel_name(kernel));
}

void Planner::add_in_parts(int64_t parts, KernelRequest request, std::vector<Place> inputs) {
  const Place base = inputs[0];
  const ir::TensorType& type = graph_.type(eqn_->inputs[0]);
  const ir::TensorType wide = request.body->type(request.body->inputs()[0]);
  Shape shape = wide.shape;
  shape.insert(shape.begin(), parts);
  const ir::TensorType all{wide.dtype, shape};
  const Place sums = fresh(all, contiguous_strides(shape), BufferClass::Arena);

  ir::Builder zero("body", graph_.symbols());
  const ir::Scalar none = is_float(wide.dtype) ? ir::Scalar::of(wide.dtype, 0.0)
                                               : ir::Scalar::of(wide.dtype, int64_t{0});
  zero.output(zero.emit(OpCode::full, {none}, {shape}));
  generate({RequestKind::Elementwise, request.name + "_zero",
            std::make_shared<ir::Graph>(zero.finish())},
           {}, {sums});

  inputs[0] = {sums.buffer, Window::contiguous(wide.shape)};
  const std::string name = request.name;
  request.name += "_parts";
  request.parts = parts;
  const KernelId kernel = generate(std::move(request), inputs, {inputs[0]});
  record(PlanKind::Generated, eqn_->info().name, writer_.kernel_name(kernel));

  const Place total = fresh(wide, contiguous_strides(wide.shape), BufferClass::Arena);
  ir::Builder sum("body", graph_.symbols());
  sum.output(sum.emit(OpCode::reduce_sum, {sum.input(all)}, {std::vector<int64_t>{0}, false}));
  generate({RequestKind::Reduce, name + "_total", std::make_shared<ir::Graph>(sum.finish())},
           {sums}, {total});

  ir::Builder added("body", graph_.symbols());
  ir::Operand there = added.input(type);
  if (type.dtype != wide.dtype) there = added.emit(OpCode::cast, {there}, {wide.dtype});
  ir::ValueId result = added.emit(OpCode::add, {there, added.input(wide)});
  if (type.dtype != wide.dtype) result = added.emit(OpCode::cast, {result}, {type.dtype});
  added.output(result);
  KernelRequest last{RequestKind::Elementwise, name, std::make_shared<ir::Graph>(added.finish())};
  last.in_place = {0};
  generate(std::move(last), {base, total}, {base});
}

}  // namespace poot::passes
