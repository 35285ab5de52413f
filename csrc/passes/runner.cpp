// Runs passes in the order of passes.def. Around each: switches from the environment, a dump before
// and after, the verifier at the stage that the pass promises, a round trip through text, and a
// reproducer when something throws.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "passes/pass.h"
#include "support/env.h"

namespace poot::passes {
namespace {

constexpr PassInfo kPasses[] = {
#define PASS(name, stage, doc) {#name, &name, ir::Stage::stage, doc},
#include "passes/passes.def"
#undef PASS
};

// True if `word` is one of the comma separated words of `list`.
bool lists(const std::string& list, std::string_view word) {
  size_t at = 0;
  while (at <= list.size()) {
    const size_t end = std::min(list.find(',', at), list.size());
    if (std::string_view(list).substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

void dump(const ir::Graph& graph, std::string_view pass, const char* when) {
  std::fprintf(stderr, "# %s %.*s\n%s\n", when, static_cast<int>(pass.size()), pass.data(),
               graph.str().c_str());
}

std::string write_reproducer(const std::string& text, std::string_view pass) {
  std::error_code ec;
  std::string dir = env::get(env::Var::POOT_REPRO_DIR);
  if (dir.empty()) dir = std::filesystem::temp_directory_path(ec).string();
  std::filesystem::create_directories(dir, ec);
  const std::string path =
      dir + "/poot-" + std::string(pass) + "-" + content_hash(text).hex().substr(0, 12) + ".poot";
  std::ofstream out(path);
  out << "# poot-opt --passes " << pass << "\n" << text;
  return out.good() ? path : "";
}

void round_trip(const ir::Graph& graph) {
  const std::string text = graph.str();
  const std::string again = ir::parse_graph(text).str();
  if (again != text) throw InternalError("the graph's text does not survive parsing:\n" + again);
}

void run_one(ir::Graph& graph, PassContext& context, const PassInfo& pass) {
  const std::string wanted = env::get(env::Var::POOT_DUMP);
  const bool dumped = wanted == "all" || lists(wanted, pass.name);
  if (dumped) dump(graph, pass.name, "before");
  const ir::Graph before = graph;
  const auto start = std::chrono::steady_clock::now();
  bool changed = false;
  try {
    changed = pass.run(graph, context);
    if (changed) ir::verify_or_throw(graph, pass.stage);
    if (env::flag(env::Var::POOT_ROUNDTRIP)) round_trip(graph);
  } catch (const std::exception& e) {
    const std::string path = write_reproducer(before.str(), pass.name);
    throw InternalError("pass " + std::string(pass.name) + ": " + e.what() +
                        (path.empty() ? "" : "; the graph before it is in " + path));
  }
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  context.records.push_back(
      {std::string(pass.name), changed, spent.count(), static_cast<uint32_t>(graph.eqns().size())});
  if (dumped) dump(graph, pass.name, changed ? "after" : "unchanged by");
}

// False once the runner is to stop.
bool step(ir::Graph& graph, PassContext& context, const PassInfo& pass) {
  if (!lists(env::get(env::Var::POOT_SKIP), pass.name)) run_one(graph, context, pass);
  return env::get(env::Var::POOT_STOP_AFTER) != pass.name;
}

}  // namespace

std::span<const PassInfo> all_passes() {
  return kPasses;
}

const PassInfo* find_pass(std::string_view name) {
  for (const PassInfo& pass : kPasses)
    if (pass.name == name) return &pass;
  return nullptr;
}

void run_passes(ir::Graph& graph, PassContext& context) {
  for (const PassInfo& pass : kPasses)
    if (!step(graph, context, pass)) return;
}

void run_passes(ir::Graph& graph, PassContext& context, std::span<const std::string> names) {
  for (const std::string& name : names) {
    const PassInfo* pass = find_pass(name);
    if (!pass) throw InvalidGraph("pass-C1", name, "no pass has this name");
    if (!step(graph, context, *pass)) return;
  }
}

}  // namespace poot::passes
