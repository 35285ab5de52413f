// Planning: a fused graph becomes a Program. Chooses for each equation a plan (generated kernel,
// library call, opaque call, alias or strided view, none), assigns buffers, decides in-place
// updates and donation, orders launches into segments. Refuses, typed, what no plan can run.
#pragma once

#include <functional>

#include "passes/pass.h"
#include "passes/request.h"
#include "program/program.h"

namespace poot::passes {

// How the boxed callable's arguments and results map to the graph. Made by the importer.
struct SignatureArg {
  enum class Kind : uint8_t { Tensor, Int, None } kind = Kind::None;
  ir::ValueId value;  // Tensor: the graph input
  Dim expr;           // Int
};
// Arg hands the argument back as it is after the call.
struct SignatureResult {
  enum class Kind : uint8_t { Tensor, Int, None, Arg } kind = Kind::None;
  uint32_t output = 0;  // Tensor: index among the graph's outputs of kind Result
  Dim expr;             // Int
  uint32_t arg = 0;     // Arg: position among the callable's arguments
  // Tensor: whose memory the result may show. Results of one base may share memory, as views of one
  // tensor do in eager; results of different bases never do, whatever the graph made of a clone.
  // `of_argument`: the base is an argument, which the result then shows without a copy (AOTAutograd
  // owns alias semantics), unless the call overwrites it (a state) or may (a donated argument).
  uint32_t base = 0;
  bool of_argument = false;
};
// A graph input of storage Const: its bytes, contiguous.
struct SignatureConst {
  ir::ValueId value;
  std::string data;
};
struct Signature {
  std::vector<SignatureArg> args;
  std::vector<SignatureResult> results;
  std::vector<SignatureConst> constants;
  // Argument positions whose memory the callee may overwrite once it is dead (donated backward
  // inputs).
  std::vector<uint32_t> donated;
};

enum class PlanKind : uint8_t { Generated, Library, Opaque, Alias, None };

struct EqnPlan {
  PlanKind kind;
  std::string op;      // op name or "aten::…" target
  std::string kernel;  // kernel or library op
  std::vector<uint32_t> origins;
};

struct LayoutCopy {
  std::string value, reason;
  Dim bytes;
};

struct PlanResult {
  program::Program program;  // kernels without KIR text: `requests[i]` is kernel i's
  std::vector<KernelRequest> requests;
  std::vector<EqnPlan> plans;
  // The kernel of each equation of the graph that is a region; none() for the others.
  std::vector<program::KernelId> eqn_kernels;
  std::vector<LayoutCopy> layout_copies;
  Dim peak_transient_bytes;  // sum of what lives at the worst launch (of the hint sizes if
                             // symbolic)
};

// `graph` must be verified at Stage::Fused.
PlanResult plan(const ir::Graph& graph, const Signature& signature, PassContext& context);

// Symbols as int arguments, then the graph's inputs; its results. For tools and tests.
Signature default_signature(const ir::Graph& graph);

}  // namespace poot::passes
