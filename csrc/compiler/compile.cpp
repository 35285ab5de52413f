// Passes, plan, kernels. When a region's kernel fails in any step, the region is split into its
// equations and the plan is made anew; kernels that did compile are found in the store. When the
// kernel of a single equation fails, its error is the compile's.
#include "compiler/compile.h"

#include <algorithm>
#include <chrono>
#include <unordered_map>

#include "compiler/compile_kernels.h"
#include "compiler/split_regions.h"
#include "support/errors.h"

namespace poot::compiler {

namespace {

// Adds the time of its scope to a phase; phases keep the order of their first begin.
class PhaseTimer {
 public:
  PhaseTimer(CompileReport& report, std::string_view name) : report_(report), name_(name) {}
  ~PhaseTimer() {
    const std::chrono::duration<double, std::milli> d = Clock::now() - start_;
    for (Phase& p : report_.phases) {
      if (p.name == name_) {
        p.milliseconds += d.count();
        return;
      }
    }
    report_.phases.push_back({std::string(name_), d.count()});
  }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  CompileReport& report_;
  std::string_view name_;
  Clock::time_point start_ = Clock::now();
};

std::string_view origin_name(runtime::KernelOrigin o) {
  switch (o) {
    case runtime::KernelOrigin::Compiled:
      return "compiled";
    case runtime::KernelOrigin::Disk:
      return "disk";
    case runtime::KernelOrigin::Memory:
      return "memory";
  }
  return "?";
}

std::string message_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    return e.what();
  }
}

// Splits the regions whose kernels failed, and reports each; rethrows the first failure that is no
// region's. Returns whether anything failed.
bool split_failed(ir::Graph& graph, const passes::PlanResult& plan,
                  const std::vector<BuiltKernel>& kernels, CompileReport& report) {
  const bool failed = std::any_of(kernels.begin(), kernels.end(),
                                  [](const BuiltKernel& k) { return k.failure != nullptr; });
  if (!failed) return false;
  std::vector<bool> split(graph.eqns().size(), false), covered(kernels.size(), false);
  for (size_t i = 0; i < split.size(); ++i) {
    const program::KernelId k = plan.eqn_kernels[i];
    if (!k || !kernels[k.index].failure || graph.eqns()[i].body->eqns().size() < 2) continue;
    split[i] = true;
    if (covered[k.index]) continue;
    covered[k.index] = true;
    KernelReport r;
    r.name = plan.program.kernels[k.index].name;
    r.origin = "failed";
    r.origins = graph.eqns()[i].origins;
    r.events = {message_of(kernels[k.index].failure),
                "split into " + std::to_string(graph.eqns()[i].body->eqns().size()) +
                    " kernels of one equation"};
    report.kernels.push_back(std::move(r));
  }
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (kernels[k].failure && !covered[k]) std::rethrow_exception(kernels[k].failure);
  }
  split_regions(graph, split);
  return true;
}

void report_kernels(const program::Program& p, const std::vector<BuiltKernel>& kernels,
                    CompileReport& report) {
  const size_t first = report.kernels.size();
  for (size_t i = 0; i < kernels.size(); ++i) {
    const runtime::KernelArtifact& a = kernels[i].artifact;
    report.kernels.push_back(
        {p.kernels[i].name, std::string(origin_name(a.origin)), a.milliseconds, 0, {}, a.events});
  }
  for (const program::Segment& s : p.segments) {
    report.dispatches_after += static_cast<uint32_t>(s.launches.size());
    for (const program::Launch& launch : s.launches) {
      const auto* l = std::get_if<program::KernelLaunch>(&launch.body);
      if (!l) continue;
      KernelReport& r = report.kernels[first + l->kernel.index];
      ++r.launches;
      r.origins.insert(r.origins.end(), launch.origins.begin(), launch.origins.end());
    }
  }
  for (KernelReport& r : report.kernels) {
    std::sort(r.origins.begin(), r.origins.end());
    r.origins.erase(std::unique(r.origins.begin(), r.origins.end()), r.origins.end());
  }
}

// Passes renumber values but keep the inputs and their order: the signature follows them there.
passes::Signature follow_inputs(passes::Signature signature, std::span<const ir::ValueId> before,
                                std::span<const ir::ValueId> after) {
  std::unordered_map<ir::ValueId, ir::ValueId> moved;
  for (size_t i = 0; i < before.size(); ++i) moved.emplace(before[i], after[i]);
  for (passes::SignatureArg& a : signature.args)
    if (a.kind == passes::SignatureArg::Kind::Tensor) a.value = moved.at(a.value);
  for (passes::SignatureConst& c : signature.constants) c.value = moved.at(c.value);
  return signature;
}

}  // namespace

Compiled compile(ir::Graph graph, const passes::Signature& given, const Target& target,
                 const passes::Options& options) {
  Compiled out;
  const std::vector<ir::ValueId> inputs(graph.inputs().begin(), graph.inputs().end());
  passes::PassContext context{target, options, {}, {}, {}, {}};
  out.report.dispatches_before = passes::dispatch_count(graph);
  {
    PhaseTimer timer(out.report, "passes");
    passes::run_passes(graph, context);
  }
  const passes::Signature signature = follow_inputs(given, inputs, graph.inputs());
  for (;;) {
    passes::PlanResult plan;
    {
      PhaseTimer timer(out.report, "plan");
      plan = passes::plan(graph, signature, context);
    }
    std::vector<BuiltKernel> kernels;
    {
      PhaseTimer timer(out.report, "generate");
      kernels = start_kernels(plan.requests, target);
    }
    {
      PhaseTimer timer(out.report, "compile");
      await_kernels(kernels);
    }
    if (split_failed(graph, plan, kernels, out.report)) continue;
    fill_program(plan.program, kernels);
    program::check(plan.program);
    report_kernels(plan.program, kernels, out.report);
    for (BuiltKernel& k : kernels) {
      if (target.isa == Isa::X86)
        out.images.push_back(std::move(k.artifact.image));
      else
        out.modules.push_back(std::move(k.artifact.bytes));
    }
    out.report.peak_transient_bytes = plan.peak_transient_bytes.hint(graph.symbols());
    out.report.plans = std::move(plan.plans);
    out.report.layout_copies = std::move(plan.layout_copies);
    out.program = std::move(plan.program);
    break;
  }
  out.report.passes = std::move(context.records);
  out.report.fusions = std::move(context.fusions);
  out.report.contractions = std::move(context.contractions);
  out.report.declines = std::move(context.declines);
  out.report.numerical_declines = std::move(context.numerical_declines);
  return out;
}

}  // namespace poot::compiler
