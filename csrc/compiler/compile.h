// The driver: graph in, Program with compiled kernels out. Joins passes, planning, codegen and the
// store.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "ir/graph.h"
#include "passes/plan.h"
#include "program/program.h"
#include "runtime/kernel_store.h"

namespace poot::compiler {

struct Phase {
  std::string name;  // "find", "passes", "plan", "generate", "compile"
  double milliseconds = 0;
};

struct KernelReport {
  std::string name;
  std::string origin;  // "compiled", "disk", "memory"
  double milliseconds = 0;
  uint32_t launches = 0;
  std::vector<uint32_t> origins;
  std::vector<std::string> events;
};

// What the compiler tells of one graph; the binding turns it into the Python report.
struct CompileReport {
  std::vector<Phase> phases;
  std::vector<passes::PassRecord> passes;
  std::vector<passes::FusionMade> fusions;
  std::vector<passes::Decline> declines, numerical_declines;
  std::vector<passes::EqnPlan> plans;
  std::vector<passes::ContractionPlan> contractions;
  std::vector<passes::LayoutCopy> layout_copies;
  std::vector<KernelReport> kernels;
  uint32_t dispatches_before = 0, dispatches_after = 0;
  int64_t peak_transient_bytes = 0;
};

struct Compiled {
  program::Program program;
  std::vector<std::shared_ptr<const runtime::Image>> images;  // CPU: one a kernel
  std::vector<std::string> modules;                           // GPU: one a kernel
  CompileReport report;
};

// Puts the kernels' code into `compiled`, one artifact for each kernel of its program, in order,
// and tells of each in the report.
void add_kernels(Compiled& compiled, const Target& target,
                 std::vector<runtime::KernelArtifact> artifacts);

// Throws the typed errors of support/errors.h. Kernels compile in parallel. Whole compiles are
// looked up in the artifact cache first and kept there (program_cache.h).
Compiled compile(ir::Graph graph, const passes::Signature& signature, const Target& target,
                 const passes::Options& options);

}  // namespace poot::compiler
