// Ranges are RecordFunctions of scope FUNCTION, since kernels that are queued within one are told
// to profilers as its own. Nothing is done, and no text made, unless somebody observes.
#include "binding/launch_ranges.h"

#include <ATen/record_function.h>

#include <atomic>
#include <map>
#include <set>

#include "program/labels.h"

namespace poot::binding {
namespace py = pybind11;
namespace {

struct Row {
  program::LaunchKind kind;
  std::string name, range;
  std::vector<std::string> nodes, sources;
  int64_t bytes = 0;
};

// The launches that ran since the profile began. Rows stay where they are: ranges view their names.
struct Profile {
  std::atomic<bool> on{false};
  std::mutex mutex;
  std::vector<std::unique_ptr<Row>> rows;
  // Rows of a program with its sizes: the first.
  std::map<std::pair<const program::Program*, std::vector<int64_t>>, size_t> known;
};
Profile& profile() {
  static Profile& p = *new Profile;
  return p;
}

void add_rows(Profile& p, const program::Program& program, std::span<const int64_t> symbols) {
  const std::vector<int64_t> bytes = program::launch_traffic(program, symbols);
  const std::vector<program::LaunchLabel> labels = program::launch_labels(program);
  for (size_t i = 0; i < labels.size(); ++i) {
    const program::LaunchLabel& label = labels[i];
    auto row = std::make_unique<Row>(Row{label.kind, label.name, {}, {}, {}, bytes[i]});
    row->range = "poot::" + label.text() + " #" + std::to_string(p.rows.size());
    std::set<std::string> seen;
    for (const program::Origin* o : label.origins) {
      row->nodes.push_back(o->node);
      if (!o->source.empty() && seen.insert(o->source).second) row->sources.push_back(o->source);
    }
    p.rows.push_back(std::move(row));
  }
}

const char* profiled(const program::Program& program, std::span<const int64_t> symbols,
                     uint32_t launch) {
  Profile& p = profile();
  const std::lock_guard lock(p.mutex);
  const auto [it, fresh] = p.known.try_emplace(
      {&program, std::vector<int64_t>(symbols.begin(), symbols.end())}, p.rows.size());
  if (fresh) add_rows(p, program, symbols);
  return p.rows.at(it->second + launch)->range.c_str();
}

// `name` outlives the range.
std::shared_ptr<at::RecordFunction> range(const char* name) {
  auto f = std::make_shared<at::RecordFunction>(at::RecordScope::FUNCTION);
  if (f->isActive()) f->before(name);
  return f;
}

const char* name(program::LaunchKind kind) {
  switch (kind) {
    case program::LaunchKind::Generated:
      return "generated";
    case program::LaunchKind::Library:
      return "library";
    case program::LaunchKind::Opaque:
      return "fallback";
  }
  return "fallback";
}

}  // namespace

runtime::Watch LaunchRanges::watched() const {
  if (!at::hasCallbacks()) [[likely]]
    return runtime::Watch::Nothing;
  return profile().on.load() ? runtime::Watch::Launches : runtime::Watch::Steps;
}

std::shared_ptr<void> LaunchRanges::announce(const program::Program& program,
                                             std::span<const int64_t> symbols, uint32_t first,
                                             uint32_t count) {
  if (count == 1 && profile().on.load()) return range(profiled(program, symbols, first));
  std::call_once(labels_once_, [&] {
    for (const program::LaunchLabel& label : program::launch_labels(program))
      labels_.push_back("poot::" + label.text());
  });
  if (count == 1) return range(labels_.at(first).c_str());
  std::shared_ptr<void> all = range("poot::replay");
  for (uint32_t i = 0; i < count; ++i) range(labels_.at(first + i).c_str());
  return all;
}

void begin_launch_profile() {
  Profile& p = profile();
  const std::lock_guard lock(p.mutex);
  p.rows.clear();
  p.known.clear();
  p.on = true;
}

py::list end_launch_profile() {
  Profile& p = profile();
  const std::lock_guard lock(p.mutex);
  p.on = false;
  py::list out;
  for (const auto& row : p.rows) {
    py::dict d;
    d["class"] = name(row->kind);
    d["name"] = row->name;
    d["nodes"] = row->nodes;
    d["sources"] = row->sources;
    d["bytes"] = row->bytes;
    out.append(d);
  }
  return out;
}

}  // namespace poot::binding
