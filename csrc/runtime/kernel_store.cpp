// Memory, disk, worker, in this order. The caller's thread looks at the disk, since that takes less
// time than waking another; a pool thread does everything after the compile (map, publish, fulfil).
//
// Fork: the prepare handler takes every store's mutexes, so that the child finds them consistent.
// The child has none of the pool's threads, so it leaks the pool, fails what was in flight and
// starts a pool of its own when it needs one.
#include "runtime/kernel_store.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "build_id.h"
#include "runtime/artifact_cache.h"
#include "runtime/artifact_key.h"
#include "runtime/gpu_module.h"
#include "runtime/worker_pool.h"
#include "support/env.h"
#include "support/errors.h"

namespace poot::runtime {

namespace {

constexpr uint32_t kMaxWorkers = 8;

std::string worker_beside_library() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&worker_beside_library), &info) == 0 ||
      !info.dli_fname)
    return "poot-kernelc";
  const std::string library = info.dli_fname;
  const size_t slash = library.rfind('/');
  return (slash == std::string::npos ? "." : library.substr(0, slash)) + "/bin/poot-kernelc";
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

struct KernelStore::State {
  struct Entry {
    std::promise<KernelArtifact> promise;
    std::shared_future<KernelArtifact> future;
    std::shared_ptr<const KernelArtifact> found;  // once it is there
  };

  explicit State(Options o) : options(std::move(o)), cache(options.cache_directory) {}

  // What the worker or the cache gave, checked and, on the CPU, mapped.
  KernelArtifact finish(std::string bytes, const Target& target, KernelOrigin origin) {
    KernelArtifact a;
    a.bytes = std::move(bytes);
    a.origin = origin;
    if (target.isa == Isa::X86) {
      a.image = Image::map(a.bytes);
    } else {
      if (origin == KernelOrigin::Compiled) pack(a, target);
      parse_gpu_module(a.bytes);
    }
    return a;
  }
  // PTX becomes a GPU module, of machine code where there is a linker that takes it.
  void pack(KernelArtifact& a, const Target& target) {
    std::string cubin;
    PtxLinker link;
    {
      std::lock_guard lock(mutex);
      link = linker;
    }
    try {
      if (link) cubin = link(a.bytes, target.cpu);
    } catch (const CompileError& e) {
      a.events.push_back(e.what());
    }
    a.bytes = pack_gpu_module(a.bytes, cubin);
  }
  std::string build_id(const Target& target) const {  // with the mutex held
    return kWorkerBuildId + (target.isa == Isa::Ptx ? linker_version : std::string());
  }
  void fulfil(const Hash128& key, KernelArtifact artifact);
  void fail(const Hash128& key, std::exception_ptr error);
  bool find_on_disk(const Hash128& key, const Target& target);
  void compile(const Hash128& key, const std::string& kir, const Target& target, int opt_level);
  void compiled(const Hash128& key, const WorkerRequest& request, CompileOutcome outcome,
                std::chrono::steady_clock::time_point start);
  WorkerPool& workers();  // with the mutex held

  const Options options;
  ArtifactCache cache;
  mutable std::mutex mutex;
  std::map<Hash128, Entry> entries;
  Stats stats;
  PtxLinker linker;
  std::string linker_version;
  uint64_t next_id = 1;
  // Last: its threads use the rest, so it goes first.
  std::unique_ptr<WorkerPool> pool;
};

namespace {

// Stores that live, for the fork handlers. Leaked, as it must outlive every store.
struct Registry {
  std::mutex mutex;
  std::vector<KernelStore::State*> states;
};
Registry& registry() {
  static Registry* r = new Registry;
  return *r;
}

void before_fork() {
  registry().mutex.lock();
  for (KernelStore::State* s : registry().states) {
    s->mutex.lock();
    s->cache.lock();
  }
}

void after_fork_in_parent() {
  for (KernelStore::State* s : registry().states) {
    s->cache.unlock();
    s->mutex.unlock();
  }
  registry().mutex.unlock();
}

void after_fork_in_child() {
  for (KernelStore::State* s : registry().states) {
    s->cache.unlock();
    if (s->pool) s->pool.release()->abandon_after_fork();
    for (auto it = s->entries.begin(); it != s->entries.end();) {
      if (it->second.found) {
        ++it;
        continue;
      }
      it->second.promise.set_exception(std::make_exception_ptr(
          CompileError("the process forked while the kernel was compiling; ask for it again", "")));
      it = s->entries.erase(it);
    }
    s->mutex.unlock();
  }
  registry().mutex.unlock();
}

void enter(KernelStore::State* state) {
  static const int installed =
      ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  (void)installed;
  std::lock_guard lock(registry().mutex);
  registry().states.push_back(state);
}

}  // namespace

KernelStore::Options KernelStore::Options::from_environment() {
  using env::Var;
  Options o;
  o.worker_path = env::get(Var::POOT_KERNELC);
  if (o.worker_path.empty()) o.worker_path = worker_beside_library();
  o.cache_directory = ArtifactCache::default_directory();
  const int64_t workers = env::integer(Var::POOT_WORKERS);
  o.workers = workers > 0 ? static_cast<uint32_t>(std::min<int64_t>(workers, 64))
                          : std::clamp(std::thread::hardware_concurrency(), 1u, kMaxWorkers);
  o.timeout_seconds = static_cast<double>(env::integer(Var::POOT_COMPILE_TIMEOUT));
  return o;
}

KernelStore& KernelStore::instance() {
  static KernelStore* store = new KernelStore(Options::from_environment());
  return *store;
}

KernelStore::KernelStore(Options options) : state_(new State(std::move(options))) {
  enter(state_.get());
}

KernelStore::~KernelStore() {
  {
    std::lock_guard lock(registry().mutex);
    std::erase(registry().states, state_.get());
  }
  std::unique_ptr<WorkerPool> pool;
  {
    std::lock_guard lock(state_->mutex);
    pool = std::move(state_->pool);
  }
  pool.reset();  // answers what is in flight, which takes the mutex
}

void KernelStore::State::fulfil(const Hash128& key, KernelArtifact artifact) {
  std::lock_guard lock(mutex);
  Entry& e = entries.at(key);
  ++(artifact.origin == KernelOrigin::Disk ? stats.disk : stats.compiled);
  e.found = std::make_shared<const KernelArtifact>(artifact);
  e.promise.set_value(std::move(artifact));
}

// The entry goes, so that a later request tries again.
void KernelStore::State::fail(const Hash128& key, std::exception_ptr error) {
  std::lock_guard lock(mutex);
  const auto it = entries.find(key);
  if (it == entries.end() || it->second.found) return;
  it->second.promise.set_exception(std::move(error));
  entries.erase(it);
}

bool KernelStore::State::find_on_disk(const Hash128& key, const Target& target) {
  const auto start = std::chrono::steady_clock::now();
  std::optional<std::string> bytes = cache.load(key);
  if (!bytes) return false;
  try {
    KernelArtifact a = finish(*std::move(bytes), target, KernelOrigin::Disk);
    a.milliseconds = milliseconds_since(start);
    fulfil(key, std::move(a));
    return true;
  } catch (const InvalidGraph&) {
    return false;  // a good file around a bad image: compile it anew
  }
}

WorkerPool& KernelStore::State::workers() {
  if (!pool)
    pool = std::make_unique<WorkerPool>(WorkerPool::Options{
        options.worker_path, kWorkerBuildId, options.workers,
        std::chrono::milliseconds(static_cast<int64_t>(options.timeout_seconds * 1000))});
  return *pool;
}

void KernelStore::State::compile(const Hash128& key, const std::string& kir, const Target& target,
                                 int opt_level) {
  const auto start = std::chrono::steady_clock::now();
  WorkerRequest request{0, target, static_cast<uint32_t>(opt_level), kir};
  WorkerPool* p = nullptr;
  {
    std::lock_guard lock(mutex);
    request.id = next_id++;
    p = &workers();
  }
  // Without the mutex: where no thread can be started, the answer comes at once.
  p->submit(request, [this, key, request, start](CompileOutcome outcome) {
    compiled(key, request, std::move(outcome), start);
  });
}

void KernelStore::State::compiled(const Hash128& key, const WorkerRequest& request,
                                  CompileOutcome outcome,
                                  std::chrono::steady_clock::time_point start) {
  try {
    if (!outcome.ok) {
      std::string text = outcome.bytes;
      for (const std::string& e : outcome.events) text += "\n  before: " + e;
      throw CompileError(text, request.kir);
    }
    KernelArtifact a = finish(std::move(outcome.bytes), request.target, KernelOrigin::Compiled);
    a.events.insert(a.events.begin(), outcome.events.begin(), outcome.events.end());
    // A kernel that only compiled without optimisation is not kept: the next process tries again.
    if (outcome.opt_level == request.opt_level && cache.enabled() && !cache.store(key, a.bytes)) {
      std::lock_guard lock(mutex);
      ++stats.cache_write_failures;
    }
    a.milliseconds = milliseconds_since(start);
    fulfil(key, std::move(a));
  } catch (const CompileError&) {
    fail(key, std::current_exception());
  } catch (const std::exception& e) {
    fail(key, std::make_exception_ptr(CompileError(e.what(), request.kir)));
  }
}

std::shared_future<KernelArtifact> KernelStore::get(const std::string& kir, const Target& target,
                                                    int opt_level) {
  State& s = *state_;
  std::shared_future<KernelArtifact> future;
  Hash128 key;
  {
    std::lock_guard lock(s.mutex);
    key = artifact_key(kir, target, opt_level, s.build_id(target));
    auto [it, fresh] = s.entries.try_emplace(key);
    State::Entry& e = it->second;
    if (e.found) {
      ++s.stats.memory;
      KernelArtifact a = *e.found;
      a.origin = KernelOrigin::Memory;
      a.milliseconds = 0;
      a.events.clear();
      std::promise<KernelArtifact> ready;
      ready.set_value(std::move(a));
      return ready.get_future().share();
    }
    if (!fresh) return e.future;
    future = e.future = e.promise.get_future().share();
  }
  try {
    if (!s.find_on_disk(key, target)) s.compile(key, kir, target, opt_level);
  } catch (const std::exception& e) {
    s.fail(key, std::make_exception_ptr(CompileError(e.what(), kir)));
  }
  return future;
}

void KernelStore::link_ptx(PtxLinker linker, const std::string& version) {
  std::lock_guard lock(state_->mutex);
  state_->linker = std::move(linker);
  state_->linker_version = version;
}

std::optional<std::string> KernelStore::find_record(const Hash128& key) {
  std::optional<std::string> bytes = state_->cache.load(key);
  if (bytes) {
    std::lock_guard lock(state_->mutex);
    ++state_->stats.records;
  }
  return bytes;
}

void KernelStore::keep_record(const Hash128& key, std::string_view bytes) {
  if (!state_->cache.enabled() || state_->cache.store(key, bytes)) return;
  std::lock_guard lock(state_->mutex);
  ++state_->stats.cache_write_failures;
}

void KernelStore::warm_up() {
  std::lock_guard lock(state_->mutex);
  state_->workers().start_all();
}

KernelStore::Stats KernelStore::stats() const {
  std::lock_guard lock(state_->mutex);
  Stats stats = state_->stats;
  if (state_->pool) {
    stats.worker_restarts = state_->pool->restarts();
    stats.timeouts = state_->pool->timeouts();
  }
  return stats;
}

std::vector<int> KernelStore::worker_pids() const {
  std::lock_guard lock(state_->mutex);
  return state_->pool ? state_->pool->pids() : std::vector<int>{};
}

std::vector<std::string> KernelStore::take_events() {
  return state_->cache.take_events();
}

}  // namespace poot::runtime
