// The planner: arguments are bound, each equation in order is placed and launched, results and
// states close the program. Launch order is equation order, which keeps ordered effects ordered and
// puts every read of an argument before the in-place update that ends its use.
#include "passes/plan.h"

#include "ir/print.h"
#include "passes/planner.h"
#include "program/dispatched.h"
#include "support/errors.h"

namespace poot::passes {

using namespace program;
using ir::Operand;
using ir::OpKind;
using ir::ValueId;

namespace {

// Keys repeated for grouped queries, [B, Hk, G, S, D] -> [B, Hk*G, S, D] with stride 0 along G, as
// the [B, Hk, S, D] that the attention call repeats by itself.
std::optional<Window> ungrouped(const ir::Eqn& eqn, const Window& w, const Shape& result) {
  if (eqn.op != ir::OpCode::reshape || w.shape.size() != 5 || result.size() != 4) return {};
  const bool same = result[0] == w.shape[0] && result[1] == w.shape[1] * w.shape[2] &&
                    result[2] == w.shape[3] && result[3] == w.shape[4];
  if (!same || !w.strides[2].is_const(0)) return {};
  Window out = w;
  out.shape.erase(out.shape.begin() + 2);
  out.strides.erase(out.strides.begin() + 2);
  return out;
}

}  // namespace

Planner::Planner(const ir::Graph& graph, const Signature& signature, PassContext& context)
    : graph_(graph),
      signature_(signature),
      context_(context),
      names_(ir::value_names(graph)),
      facts_(value_facts(graph, context)),
      places_(graph.value_count()) {}

PlanResult Planner::run() {
  Program& p = writer_.program();
  p.name = graph_.name();
  p.symbols = graph_.symbols();
  for (const ir::Origin& o : graph_.origins()) p.origins.push_back({o.node, o.source});
  out_.eqn_kernels.resize(graph_.eqns().size());
  bind_arguments();
  for (now_ = 0; now_ < graph_.eqns().size(); ++now_) {
    eqn_ = &graph_.eqns()[now_];
    equation();
  }
  now_ = kEnd;
  eqn_ = nullptr;
  results();
  states();
  writer_.finish();
  out_.peak_transient_bytes = writer_.peak_transient_bytes();
  check_memory_limit();
  out_.requests = writer_.take_requests();
  out_.program = std::move(p);
  return std::move(out_);
}

void Planner::bind_arguments() {
  Program& p = writer_.program();
  donated_.assign(signature_.args.size(), false);
  for (const uint32_t a : signature_.donated) donated_.at(a) = true;
  for (uint32_t i = 0; i < signature_.args.size(); ++i) {
    const SignatureArg& arg = signature_.args[i];
    if (arg.kind == SignatureArg::Kind::Int) {
      p.args.push_back(ArgInt{arg.expr});
    } else if (arg.kind == SignatureArg::Kind::None) {
      p.args.push_back(ArgNone{});
    } else {
      const ir::ValueMeta& meta = graph_.value(arg.value);
      Window w = Window::contiguous(meta.type.shape);
      if (meta.layout) w.strides = meta.layout->strides;
      p.args.push_back(ArgTensor{meta.type.dtype, w.shape, w.strides, false});
      Place place = fresh(meta.type, w.strides, BufferClass::Input);
      writer_.buffer(place.buffer).index = i;
      input_args_.emplace(arg.value.index, i);
      set_place(arg.value, std::move(place));
    }
  }
  for (const SignatureConst& c : signature_.constants) {
    const ir::TensorType& type = graph_.type(c.value);
    const BufferId b = writer_.constant(type.dtype, c.data);
    buffer_last_.resize(p.buffers.size(), kEnd);
    set_place(c.value, {b, Window::contiguous(type.shape)});
  }
  for (const ValueId v : graph_.inputs()) {
    if (!places_[v.index].buffer)
      throw InternalError("graph input " + value_name(v) + " is no argument and no constant");
  }
}

EqnPlan& Planner::record(PlanKind kind, std::string_view op, std::string kernel) {
  out_.plans.push_back({kind, std::string(op), std::move(kernel), eqn_->origins});
  return out_.plans.back();
}

void Planner::equation() {
  const ir::OpInfo& info = eqn_->info();
  bool used = info.effects == ir::Effects::Ordered;
  for (const ValueId v : eqn_->outs) used = used || facts_[v.index].used;
  if (!used) {
    record(PlanKind::None, info.name, "");
    return;
  }
  switch (info.kind) {
    case OpKind::View:
      return view();
    case OpKind::Update:
      return update();
    case OpKind::Contraction:
      return contraction();
    case OpKind::Structured:
      return structured();
    case OpKind::Opaque:
      return opaque();
    case OpKind::Region:
      return region();
    default:
      return single_equation();
  }
}

void Planner::view() {
  const Operand& o = eqn_->inputs[0];
  if (!ir::is_value(o)) return single_equation();
  const ValueId v = eqn_->outs[0];
  const Shape& shape = graph_.type(v).shape;
  Place p = place_of(o);
  if (const auto w = view_window(*eqn_, p.window, shape)) {
    set_place(v, {p.buffer, *w});
    record(PlanKind::Alias, eqn_->info().name, "");
    return;
  }
  const ValueFacts& f = facts_[v.index];
  if (const auto w = f.only_keys ? ungrouped(*eqn_, p.window, shape) : std::nullopt) {
    set_place(v, {p.buffer, *w});
    record(PlanKind::Alias, eqn_->info().name, "");
    return;
  }
  Place moved = copied(p, graph_.type(o).dtype, contiguous_strides(p.window.shape),
                       f.escapes ? BufferClass::Output : BufferClass::Arena, value_name(o),
                       "no strides express " + std::string(eqn_->info().name));
  moved.window = view_window(*eqn_, moved.window, shape).value();
  set_place(v, std::move(moved));
  record(PlanKind::Generated, eqn_->info().name, "copy");
}

void Planner::opaque() {
  const auto& strides_attr = [&](std::string_view name) -> const std::vector<Dim>* {
    return std::get_if<std::vector<Dim>>(&eqn_->attrs[eqn_->info().attr_index(name)]);
  };
  // The next `rank` strides of a list that holds those of several tensors end to end.
  auto next = [](const std::vector<Dim>& all, size_t& at, size_t rank) {
    if (all.size() < at + rank) throw InternalError("opaque: the list of strides is short");
    const Shape s(all.begin() + static_cast<std::ptrdiff_t>(at),
                  all.begin() + static_cast<std::ptrdiff_t>(at + rank));
    at += rank;
    return s;
  };
  OpaqueLaunch launch;
  launch.call = static_cast<uint32_t>(eqn_->attr<int64_t>("call"));
  launch.target = eqn_->attr<std::string>("target");
  const auto* in_strides = strides_attr("in_strides");
  size_t at = 0;
  for (const Operand& o : eqn_->inputs) {
    const ir::TensorType type = graph_.type(o);
    if (in_strides) {
      const Shape wanted = next(*in_strides, at, type.shape.size());
      Place p = place_of(o);
      if (!same_strides(type.shape, p.window.strides, wanted))
        p = restrided(p, type, wanted, BufferClass::Arena, value_name(o),
                      launch.target + " was traced with other strides");
      p.window.strides = wanted;
      launch.inputs.push_back(view_of(p, type.dtype));
    } else {
      const Place p = operand(
          o, kNegative, [&](const Window& w) { return !may_be_negative(w, graph_.symbols()); });
      launch.inputs.push_back(view_of(p, type.dtype));
    }
  }
  const auto* out_strides = strides_attr("out_strides");
  at = 0;
  for (const ValueId v : eqn_->outs) {
    const ir::TensorType& type = graph_.type(v);
    const Place out = owned(v, out_strides ? next(*out_strides, at, type.shape.size())
                                           : contiguous_strides(type.shape));
    launch.outs.push_back(view_of(out, type.dtype));
    set_place(v, out);
  }
  const bool library = !dispatched_reason(launch.target).empty();
  record(library ? PlanKind::Library : PlanKind::Opaque, launch.target, "");
  writer_.launch(std::move(launch), eqn_->origins);
}

void Planner::check_memory_limit() {
  const int64_t limit = context_.options.memory_limit_bytes;
  if (limit <= 0) return;
  int64_t bytes = out_.peak_transient_bytes.hint(graph_.symbols());
  for (const Buffer& b : writer_.program().buffers) {
    if (b.cls == BufferClass::Output || b.cls == BufferClass::Const)
      bytes += b.bytes.hint(graph_.symbols());
  }
  if (bytes > limit)
    throw Unsupported(
        "plan of graph " + graph_.name(),
        "it needs " + std::to_string(bytes) + " bytes, the limit is " + std::to_string(limit));
}

PlanResult plan(const ir::Graph& graph, const Signature& signature, PassContext& context) {
  return Planner(graph, signature, context).run();
}

Signature default_signature(const ir::Graph& graph) {
  Signature s;
  for (uint32_t i = 0; i < graph.symbols().size(); ++i)
    s.args.push_back({SignatureArg::Kind::Int, {}, Dim::symbol(i)});
  for (const ValueId v : graph.inputs()) s.args.push_back({SignatureArg::Kind::Tensor, v, {}});
  std::vector<uint32_t> base(graph.value_count());
  for (const ValueId v : graph.inputs()) base[v.index] = v.index;
  for (const ir::Eqn& e : graph.eqns()) {
    const bool view = ir::is_view(e.info().kind) && ir::is_value(e.inputs[0]);
    for (const ValueId v : e.outs)
      base[v.index] = view ? base[std::get<ValueId>(e.inputs[0]).index] : v.index;
  }
  uint32_t results = 0;
  for (const ir::GraphOutput& o : graph.outputs()) {
    if (o.kind != ir::OutputKind::Result) continue;
    SignatureResult r{SignatureResult::Kind::Tensor, results++};
    r.base = base[o.value.index];
    r.of_argument = graph.is_input(ValueId(r.base));
    s.results.push_back(std::move(r));
  }
  return s;
}

}  // namespace poot::passes
