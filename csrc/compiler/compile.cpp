// A compile found in the cache needs nothing more; otherwise passes, plan, kernels. When a region's
// kernel fails in any step, the region is split into its equations and the plan is made anew;
// kernels that did compile are found in the store. When the kernel of a single equation fails, its
// error is the compile's.
#include "compiler/compile.h"

#include <algorithm>
#include <chrono>
#include <unordered_map>

#include "compiler/compile_kernels.h"
#include "compiler/program_cache.h"
#include "compiler/split_regions.h"
#include "support/env.h"
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

// The compile without the cache.
Compiled compile_anew(ir::Graph graph, const passes::Signature& given, const Target& target,
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
    out.report.peak_transient_bytes = plan.peak_transient_bytes.hint(graph.symbols());
    out.report.plans = std::move(plan.plans);
    out.report.layout_copies = std::move(plan.layout_copies);
    out.program = std::move(plan.program);
    std::vector<runtime::KernelArtifact> artifacts;
    for (BuiltKernel& k : kernels) artifacts.push_back(std::move(k.artifact));
    add_kernels(out, target, std::move(artifacts));
    break;
  }
  out.report.passes = std::move(context.records);
  out.report.fusions = std::move(context.fusions);
  out.report.contractions = std::move(context.contractions);
  out.report.declines = std::move(context.declines);
  out.report.numerical_declines = std::move(context.numerical_declines);
  return out;
}

// Whether somebody wants to see or steer the passes, which a found compile does not run.
bool inspected() {
  using env::Var;
  return !env::get(Var::POOT_DUMP).empty() || !env::get(Var::POOT_SKIP).empty() ||
         !env::get(Var::POOT_STOP_AFTER).empty() || env::flag(Var::POOT_ROUNDTRIP);
}

}  // namespace

void add_kernels(Compiled& compiled, const Target& target,
                 std::vector<runtime::KernelArtifact> artifacts) {
  const program::Program& p = compiled.program;
  CompileReport& report = compiled.report;
  const size_t first = report.kernels.size();
  for (size_t i = 0; i < artifacts.size(); ++i) {
    runtime::KernelArtifact& a = artifacts[i];
    report.kernels.push_back(
        {p.kernels[i].name, std::string(origin_name(a.origin)), a.milliseconds, 0, {}, a.events});
    if (target.isa == Isa::X86)
      compiled.images.push_back(std::move(a.image));
    else
      compiled.modules.push_back(std::move(a.bytes));
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

Compiled compile(ir::Graph graph, const passes::Signature& signature, const Target& target,
                 const passes::Options& options) {
  if (inspected()) return compile_anew(std::move(graph), signature, target, options);
  CompileReport sought;
  Hash128 key;
  std::optional<Compiled> found;
  {
    PhaseTimer timer(sought, "find");
    key = program_key(graph, signature, target, options);
    found = find_program(key, target);
  }
  if (found) {
    found->report.phases = std::move(sought.phases);
    return *std::move(found);
  }
  Compiled out = compile_anew(std::move(graph), signature, target, options);
  out.report.phases.insert(out.report.phases.begin(), sought.phases.begin(), sought.phases.end());
  keep_program(key, out);
  return out;
}

}  // namespace poot::compiler
