#include "recording_driver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace poot::testing {

using namespace runtime::cuda;

namespace {

// The one recording driver that lives, and what its functions keep.
struct Nodes;
struct State {
  RecordingDriver* driver = nullptr;
  Nodes* captured = nullptr;  // the graph of the capture that is under way
  GraphNode last = nullptr;   // of it
  std::mutex mutex;
  std::vector<std::string> calls;
  std::vector<Context> launched_in;
  std::map<std::string, Status> failures;
  std::set<Nodes*> graphs;
  int made = 0;
};
State& state() {
  static State s;
  return s;
}

// Contexts of this thread, the current one last.
thread_local std::vector<Context> contexts;
Context current() {
  return contexts.empty() ? reinterpret_cast<Context>(1) : contexts.back();
}

struct Node {
  KernelNode params;
  std::vector<uint64_t> words;
  std::function<void()> work;  // of the host, instead
};
struct Nodes {
  std::vector<std::shared_ptr<Node>> nodes;
  Nodes* source = nullptr;  // of an executable graph: what it was made of
};

std::vector<uint64_t> words_of(void** extra) {
  const size_t bytes = *static_cast<size_t*>(extra[3]);
  std::vector<uint64_t> words(bytes / 8);
  std::memcpy(words.data(), extra[1], bytes);
  return words;
}

std::string describe(const unsigned* grid, unsigned threads, size_t words) {
  std::string s = " grid";
  for (int i = 0; i < 3; ++i) s += (i ? "x" : " ") + std::to_string(grid[i]);
  return s + " block " + std::to_string(threads) + " words " + std::to_string(words);
}

// y[block] = x[block] + meta; status |= 1 if meta is -1.
void run(const unsigned* grid, const std::vector<uint64_t>& words) {
  const auto* x = reinterpret_cast<const int64_t*>(words[0]);
  auto* y = reinterpret_cast<int64_t*>(words[1]);
  const auto meta = static_cast<int64_t>(words[2]);
  for (unsigned b = 0; b < grid[0]; ++b) y[b] = x[b] + meta;
  if (meta == -1) *reinterpret_cast<uint32_t*>(words[3]) |= 1;
}

void add_captured(Node node) {
  State& s = state();
  s.captured->nodes.push_back(std::make_shared<Node>(std::move(node)));
  s.last = reinterpret_cast<GraphNode>(s.captured->nodes.back().get());
}

template <class Handle>
Handle fresh() {
  return reinterpret_cast<Handle>(static_cast<uintptr_t>(++state().made));
}

// Runs `body` under the lock unless a failure was asked for.
template <class F>
Status call(const char* member, const std::string& log, F&& body) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (const auto it = s.failures.find(member); it != s.failures.end()) {
    const Status status = it->second;
    s.failures.erase(it);
    return status;
  }
  if (!log.empty()) s.calls.push_back(log);
  body();
  return 0;
}

Status launch(const char* member, Function f, const unsigned* grid, unsigned threads, Stream stream,
              void** extra, const char* how) {
  const auto words = words_of(extra);
  const bool captured = state().captured && stream == RecordingDriver::kCaptureStream;
  const std::string log =
      (captured ? "capture" : "launch") + describe(grid, threads, words.size()) + how;
  return call(member, log, [&] {
    state().launched_in.push_back(current());
    if (!captured) return run(grid, words);
    KernelNode n;
    n.function = f;
    std::copy(grid, grid + 3, n.grid);
    add_captured({n, words, {}});
  });
}

int attribute(int number) {
  const int capability = state().driver->capability;
  switch (number) {
    case 75:
      return capability / 10;
    case 76:
      return capability % 10;
    case 16:
      return 132;
    case 97:
      return 227 << 10;
    default:
      return 1;
  }
}

void fill_queries(Driver& d) {
  d.init = [](unsigned) { return call("init", "", [] {}); };
  d.driver_version = [](int* v) {
    return call("driver_version", "", [&] { *v = state().driver->version; });
  };
  d.error_string = [](Status s, const char** text) {
    *text = s == kOutOfMemory ? "out of memory" : "an error";
    return 0;
  };
  d.device_get = [](DeviceHandle* h, int n) {
    if (n < 0 || n >= state().driver->devices) return int{kInvalidDevice};
    return call("device_get", "", [&] { *h = n; });
  };
  d.device_name = [](char* name, int length, DeviceHandle) {
    return call("device_name", "", [&] { std::strncpy(name, "recorder", size_t(length)); });
  };
  d.device_attribute = [](int* v, int number, DeviceHandle) {
    return call("device_attribute", "", [&] { *v = attribute(number); });
  };
  d.device_memory = [](size_t* bytes, DeviceHandle) {
    return call("device_memory", "", [&] { *bytes = size_t{1} << 37; });
  };
  d.context_retain = [](Context* c, DeviceHandle h) {
    return call("context_retain", "",
                [&] { *c = reinterpret_cast<Context>(static_cast<uintptr_t>(h) + 1); });
  };
  d.context_current = [](Context* c) {
    return call("context_current", "", [&] { *c = current(); });
  };
  d.context_push = [](Context c) {
    return call("context_push", "context_push", [&] { contexts.push_back(c); });
  };
  d.context_pop = [](Context* c) {
    return call("context_pop", "context_pop", [&] {
      *c = current();
      contexts.pop_back();
    });
  };
}

void fill_memory(Driver& d) {
  d.memory_allocate = [](DevicePointer* p, size_t bytes) {
    return call("memory_allocate", "", [&] {
      *p = reinterpret_cast<DevicePointer>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    });
  };
  d.memory_free = [](DevicePointer p) {
    return call("memory_free", "", [&] { std::free(reinterpret_cast<void*>(p)); });
  };
  d.host_allocate = [](void** p, size_t bytes, unsigned) {
    return call("host_allocate", "", [&] { *p = std::calloc(bytes, 1); });
  };
  d.host_free = [](void* p) { return call("host_free", "", [&] { std::free(p); }); };
  d.host_address = [](DevicePointer* p, void* host, unsigned) {
    return call("host_address", "", [&] { *p = reinterpret_cast<DevicePointer>(host); });
  };
  d.copy_to_device = [](DevicePointer to, const void* from, size_t bytes, Stream) {
    return call("copy_to_device", "",
                [&] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
  };
  d.copy_from_device = [](void* to, DevicePointer from, size_t bytes, Stream) {
    return call("copy_from_device", "",
                [&] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
  };
  d.copy_on_device = [](DevicePointer to, DevicePointer from, size_t bytes, Stream) {
    return call("copy_on_device", "", [&] {
      std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    });
  };
}

void fill_work(Driver& d) {
  d.module_load = [](Module* m, const void*, unsigned, int*, void**) {
    return call("module_load", "module_load", [&] { *m = fresh<Module>(); });
  };
  d.module_function = [](Function* f, Module, const char*) {
    return call("module_function", "", [&] { *f = fresh<Function>(); });
  };
  d.launch = [](Function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned, unsigned,
                unsigned, Stream stream, void**, void** extra) {
    const unsigned grid[3] = {gx, gy, gz};
    return launch("launch", f, grid, bx, stream, extra, "");
  };
  d.launch_with = [](const LaunchConfig* c, Function f, void**, void** extra) {
    const bool early = c->count == 1 && c->attributes->id == kProgrammaticSerialization &&
                       c->attributes->value == 1;
    return launch("launch_with", f, c->grid, c->block[0], c->stream, extra, early ? " early" : "");
  };
  d.event_create = [](EventHandle* e, unsigned) {
    return call("event_create", "", [&] { *e = fresh<EventHandle>(); });
  };
  d.event_destroy = [](EventHandle) { return call("event_destroy", "", [] {}); };
  d.event_record = [](EventHandle, Stream) { return call("event_record", "", [] {}); };
  d.event_synchronize = [](EventHandle) { return call("event_synchronize", "", [] {}); };
  d.stream_capturing = [](Stream, int* capturing) {
    return call("stream_capturing", "", [&] { *capturing = state().driver->capturing; });
  };
}

void fill_captures(Driver& d) {
  d.capture_begin = [](Stream, int) {
    return call("capture_begin", "", [] {
      state().captured = new Nodes;
      state().graphs.insert(state().captured);
    });
  };
  d.capture_end = [](Stream, Graph* g) {  // a capture ends also where the end fails
    Nodes* ended = nullptr;
    {
      std::lock_guard lock(state().mutex);
      ended = std::exchange(state().captured, nullptr);
    }
    const Status status = call("capture_end", "", [&] { *g = reinterpret_cast<Graph>(ended); });
    if (status == 0) return status;
    std::lock_guard lock(state().mutex);
    state().graphs.erase(ended);
    delete ended;
    return status;
  };
  d.capture_mode = [](int* mode) {
    thread_local int now = 0;
    return call("capture_mode", "", [&] { std::swap(*mode, now); });
  };
  d.capture_info = [](Stream, int* status, unsigned long long* id, Graph* graph,
                      const GraphNode** last, size_t* count) {
    return call("capture_info", "", [&] {
      *status = 1;
      *id = 1;
      *graph = reinterpret_cast<Graph>(state().captured);
      *last = &state().last;
      *count = 1;
    });
  };
}

void fill_graphs(Driver& d) {
  d.graph_create = [](Graph* g, unsigned) {
    return call("graph_create", "", [&] {
      auto* made = new Nodes;
      state().graphs.insert(made);
      *g = reinterpret_cast<Graph>(made);
    });
  };
  d.graph_destroy = [](Graph g) {
    return call("graph_destroy", "", [&] {
      state().graphs.erase(reinterpret_cast<Nodes*>(g));
      delete reinterpret_cast<Nodes*>(g);
    });
  };
  d.graph_add_kernel = [](GraphNode* made, Graph g, const GraphNode* before, size_t count,
                          const KernelNode* params) {
    const auto words = words_of(params->extra);
    auto* nodes = reinterpret_cast<Nodes*>(g);
    const bool chained =
        count == (nodes->nodes.empty() ? 0 : 1) &&
        (count == 0 || *before == reinterpret_cast<GraphNode>(nodes->nodes.back().get()));
    return call("graph_add_kernel",
                "graph_add_kernel" + describe(params->grid, params->block[0], words.size()) +
                    (chained ? "" : " out of order"),
                [&] {
                  nodes->nodes.push_back(std::make_shared<Node>(Node{*params, words, {}}));
                  *made = reinterpret_cast<GraphNode>(nodes->nodes.back().get());
                });
  };
  d.graph_instantiate = [](GraphExec* exec, Graph g, unsigned long long) {
    return call("graph_instantiate", "graph_instantiate", [&] {
      auto* made = new Nodes(*reinterpret_cast<Nodes*>(g));
      made->source = reinterpret_cast<Nodes*>(g);
      *exec = reinterpret_cast<GraphExec>(made);
    });
  };
  d.graph_set_kernel = [](GraphExec exec, GraphNode node, const KernelNode* params) {
    const auto words = words_of(params->extra);
    auto& nodes = reinterpret_cast<Nodes*>(exec)->nodes;
    if (!state().graphs.contains(reinterpret_cast<Nodes*>(exec)->source)) return int{kInvalidValue};
    size_t i = 0;
    while (i < nodes.size() && reinterpret_cast<GraphNode>(nodes[i].get()) != node) ++i;
    return call("graph_set_kernel", "graph_set_kernel " + std::to_string(i),
                [&] { nodes.at(i)->words = words; });
  };
  d.graph_exec_destroy = [](GraphExec exec) {
    return call("graph_exec_destroy", "graph_exec_destroy",
                [&] { delete reinterpret_cast<Nodes*>(exec); });
  };
  d.graph_launch = [](GraphExec exec, Stream) {
    return call("graph_launch", "graph_launch", [&] {
      state().launched_in.push_back(current());
      for (const auto& node : reinterpret_cast<Nodes*>(exec)->nodes)
        node->work ? node->work() : run(node->params.grid, node->words);
    });
  };
}

}  // namespace

RecordingDriver::RecordingDriver() {
  state().driver = this;
  contexts.clear();
  clear();
  fill_queries(table_);
  fill_memory(table_);
  fill_work(table_);
  fill_captures(table_);
  fill_graphs(table_);
}

RecordingDriver::~RecordingDriver() {
  state().driver = nullptr;
}

bool RecordingDriver::queue(std::function<void()> work) {
  std::lock_guard lock(state().mutex);
  if (!state().captured) return false;
  add_captured({{}, {}, std::move(work)});
  return true;
}

void RecordingDriver::fail(const std::string& member, Status status) {
  std::lock_guard lock(state().mutex);
  state().failures[member] = status;
}

std::vector<std::string> RecordingDriver::calls() {
  std::lock_guard lock(state().mutex);
  return state().calls;
}

std::vector<Context> RecordingDriver::launched_in() {
  std::lock_guard lock(state().mutex);
  return state().launched_in;
}

void RecordingDriver::clear() {
  std::lock_guard lock(state().mutex);
  state().calls.clear();
  state().launched_in.clear();
  state().failures.clear();
}

}  // namespace poot::testing
