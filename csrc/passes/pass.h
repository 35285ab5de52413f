// Passes and their runner. A pass is one free function in one file: `bool fuse_row(Graph&,
// PassContext&)`, true if it changed the graph. No global state, deterministic order, work linear
// in graph size.
//
// The runner verifies after every change, and reads these switches from the environment (env.def):
// POOT_DUMP (pass names or "all": text before and after), POOT_SKIP, POOT_STOP_AFTER,
// POOT_ROUNDTRIP (print and parse after each pass). On failure it writes the graph before the pass
// as a reproducer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "ir/graph.h"

namespace poot::passes {

struct Options {
  bool fuse = true;
  int64_t memory_limit_bytes = 0;  // 0: none
  bool freeze = false;             // weights may be kept in other layouts between calls
  bool training = false;           // has gradients: f32 convolutions keep eager's layouts and bits
  bool deterministic = true;       // sums have equal bits from call to call, however long they take
};

// A fusion that was considered and refused: the value it would have joined, and the first check
// that failed.
struct Decline {
  std::string pass, value, reason;
};
struct FusionMade {
  std::string pass, kernel;
  uint32_t eqns = 0;
};
// How a product is planned, and why.
struct ContractionPlan {
  std::string value;
  bool generated = false;
  std::string reason;
};
struct PassRecord {
  std::string name;
  bool changed = false;
  double milliseconds = 0;
  uint32_t eqns_after = 0;
};

struct PassContext {
  const Target& target;
  Options options;
  std::vector<Decline> declines;
  std::vector<Decline> numerical_declines;
  std::vector<FusionMade> fusions;
  std::vector<PassRecord> records;
  std::vector<ContractionPlan> contractions = {};
};

using PassFn = bool (*)(ir::Graph&, PassContext&);
struct PassInfo {
  std::string_view name;
  PassFn run;
  ir::Stage stage;
  std::string_view doc;
};
std::span<const PassInfo> all_passes();  // in order
const PassInfo* find_pass(std::string_view name);

// Runs all passes (or the named ones) in order.
void run_passes(ir::Graph& graph, PassContext& context);
void run_passes(ir::Graph& graph, PassContext& context, std::span<const std::string> names);

#define PASS(name, ...) bool name(ir::Graph& graph, PassContext& context);
#include "passes/passes.def"
#undef PASS

// Number of dispatches a graph costs as it stands: equations that launch something (views, literals
// and pass-throughs cost none).
uint32_t dispatch_count(const ir::Graph& graph);

}  // namespace poot::passes
