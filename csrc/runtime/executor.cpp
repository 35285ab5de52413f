// A call: bind symbols, find (or evaluate) the entry, lease an arena, fill the buffer table, run
// the launches in order, hand out the results. The buffer table and the metadata are all that a
// launch reads; nothing is looked up by name and nothing is evaluated on the way.

#include "runtime/executor.h"

#include <algorithm>
#include <list>

#include "runtime/bind_args.h"
#include "runtime/entry.h"
#include "support/errors.h"

namespace poot::runtime {
namespace {

using program::BufferClass;

constexpr size_t kMaxEntries = 64;
constexpr size_t kMaxIdleArenas = 4;

std::string status_text(uint32_t bits, const std::string& kernel) {
  std::string s;
  if (bits & program::kIndexOutOfRange) s = "index out of range";
  if (bits & program::kDivideByZero) s += std::string(s.empty() ? "" : "; ") + "ZeroDivisionError";
  return s + " in kernel " + kernel;
}

// Returns the arena to its entry, whatever happens in the call.
class ArenaLease {
 public:
  ArenaLease(std::shared_ptr<Entry> entry, HostServices& host)
      : entry_(std::move(entry)), host_(host) {
    if (entry_->arena_bytes == 0) return;
    {
      std::lock_guard lock(entry_->mutex);
      if (!entry_->idle_arenas.empty()) {
        data_ = entry_->idle_arenas.back();
        entry_->idle_arenas.pop_back();
      }
    }
    if (!data_) data_ = host_.allocate(entry_->arena_bytes);
  }
  ~ArenaLease() {
    if (!data_) return;
    std::lock_guard lock(entry_->mutex);
    if (entry_->idle_arenas.size() < kMaxIdleArenas)
      entry_->idle_arenas.push_back(data_);
    else
      host_.free(data_);
  }
  ArenaLease(const ArenaLease&) = delete;
  ArenaLease& operator=(const ArenaLease&) = delete;
  char* data() const { return static_cast<char*>(data_); }

 private:
  std::shared_ptr<Entry> entry_;
  HostServices& host_;
  void* data_ = nullptr;
};

// One run of an entry.
class Run {
 public:
  Run(const Entry& entry, HostServices& host) : entry_(entry), host_(host) {}

  void place_buffers(std::span<const CallArg> args, char* arena) {
    base_.resize(entry_.buffers.size());
    owned_.resize(entry_.buffers.size());
    for (size_t b = 0; b < base_.size(); ++b) {
      const BoundBuffer& buffer = entry_.buffers[b];
      switch (buffer.cls) {
        case BufferClass::Input:
          base_[b] = static_cast<char*>(args[buffer.index].tensor.data);
          break;
        case BufferClass::Arena:
          base_[b] = arena + buffer.arena_offset;
          break;
        case BufferClass::Output:
          owned_[b] = host_.allocate_output(buffer.bytes);
          base_[b] = static_cast<char*>(owned_[b].data);
          break;
        case BufferClass::Const:
          base_[b] = const_cast<char*>(buffer.constant);
          break;
        case BufferClass::Owned:
          break;
      }
    }
  }

  void launch_all() {
    for (const BoundLaunch& launch : entry_.launches) {
      if (launch.kernel)
        run_kernel(entry_.kernels[launch.index]);
      else
        run_call(entry_.calls[launch.index]);
      for (uint32_t b : launch.release) {
        owned_[b] = {};
        base_[b] = nullptr;
      }
    }
  }

  HostTensor result(uint32_t view) const {
    const BoundView& v = entry_.views[view];
    return {base_[v.buffer] + v.byte_offset, owned_[v.buffer].owner, v.sizes, v.strides};
  }

 private:
  void run_kernel(const BoundKernel& k) {
    if (k.blocks == 0) return;
    pointers_.clear();
    for (const auto& slot : k.slots) pointers_.push_back(base_[slot.buffer] + slot.byte_offset);
    uint32_t status = 0;
    program::Args args{pointers_.data(), k.meta.data(), &status, {k.grid[0], k.grid[1], k.grid[2]}};
    if (k.parallel) {
      struct Job {
        program::CpuEntry entry;
        const program::Args* args;
      } job{k.entry, &args};
      host_.parallel_for(
          k.blocks,
          [](void* ctx, uint32_t first, uint32_t last) {
            const Job& j = *static_cast<const Job*>(ctx);
            j.entry(j.args, first, last);
          },
          &job);
    } else {
      k.entry(&args, 0, k.blocks);
    }
    if (status != 0) throw StatusError(status, *k.name);
  }

  void run_call(const BoundCall& call) {
    inputs_.clear();
    for (uint32_t v : call.inputs) inputs_.push_back(v == kAbsent ? TensorRef{} : ref(v));
    if (!call.owned) {
      outs_.clear();
      for (uint32_t v : call.outs) outs_.push_back(ref(v));
      host_.library_call(call.op, inputs_, outs_, *call.ints, *call.floats);
      return;
    }
    results_.clear();
    for (uint32_t v : call.outs)
      results_.push_back({nullptr, nullptr, entry_.views[v].sizes, entry_.views[v].strides});
    if (call.library)
      host_.library_call_owned(call.op, inputs_, results_, *call.ints, *call.floats);
    else
      host_.opaque_call(call.opaque, inputs_, entry_.symbols, results_);
    for (size_t i = 0; i < call.outs.size(); ++i) {
      const uint32_t b = entry_.views[call.outs[i]].buffer;
      base_[b] = static_cast<char*>(results_[i].data);
      owned_[b] = std::move(results_[i]);
    }
  }

  TensorRef ref(uint32_t view) const {
    const BoundView& v = entry_.views[view];
    return {base_[v.buffer] + v.byte_offset, v.dtype, v.sizes, v.strides};
  }

  const Entry& entry_;
  HostServices& host_;
  std::vector<char*> base_;
  std::vector<HostTensor> owned_;
  std::vector<void*> pointers_;
  std::vector<TensorRef> inputs_, outs_;
  std::vector<HostTensor> results_;
};

}  // namespace

StatusError::StatusError(uint32_t bits, const std::string& kernel)
    : Error(status_text(bits, kernel)), bits_(bits) {}

struct Executor::Impl {
  program::Program program;
  std::vector<std::shared_ptr<const Image>> images;
  HostServices& host;
  std::unique_ptr<ArgBinder> binder;
  mutable std::mutex mutex;
  std::list<std::shared_ptr<Entry>> entries;  // most recently used first
  uint64_t arena_high_water = 0;

  Impl(program::Program p, std::vector<std::shared_ptr<const Image>> i, HostServices& h)
      : program(std::move(p)), images(std::move(i)), host(h) {
    program::check(program);
    binder = std::make_unique<ArgBinder>(program);
  }

  ~Impl() {
    for (const auto& e : entries)
      for (void* a : e->idle_arenas) host.free(a);
  }

  std::shared_ptr<Entry> find(std::vector<int64_t> symbols) {
    std::lock_guard lock(mutex);
    for (auto it = entries.begin(); it != entries.end(); ++it) {
      if ((*it)->symbols != symbols) continue;
      entries.splice(entries.begin(), entries, it);
      return entries.front();
    }
    auto fresh = std::make_shared<Entry>();
    bind_entry(*fresh, program, images, std::move(symbols));
    arena_high_water = std::max(arena_high_water, fresh->arena_bytes);
    entries.push_front(fresh);
    if (entries.size() > kMaxEntries) drop_oldest();
    trim_idle();
    return fresh;
  }

  void drop_oldest() {
    release_idle(*entries.back());
    entries.pop_back();
  }

  // Only the newest entries keep an idle arena, so that memory does not grow with the number of
  // sizes.
  void trim_idle() {
    size_t kept = 0;
    for (const auto& e : entries)
      if (++kept > 2) release_idle(*e);
  }

  void release_idle(Entry& e) {
    std::lock_guard lock(e.mutex);
    for (void* a : e.idle_arenas) host.free(a);
    e.idle_arenas.clear();
  }
};

Executor::Executor(program::Program program, std::vector<std::shared_ptr<const Image>> images,
                   HostServices& host)
    : impl_(std::make_unique<Impl>(std::move(program), std::move(images), host)) {}
Executor::~Executor() = default;

const program::Program& Executor::program() const {
  return impl_->program;
}

void Executor::run(std::span<const CallArg> args, std::span<CallResult> results) {
  const program::Program& p = impl_->program;
  if (args.size() != p.args.size() || results.size() != p.results.size())
    throw InternalError("call with " + std::to_string(args.size()) +
                        " arguments, the program has " + std::to_string(p.args.size()));
  std::vector<int64_t> symbols = impl_->binder->symbols(args);
  impl_->binder->check(args, symbols);
  const std::shared_ptr<Entry> entry = impl_->find(std::move(symbols));
  const ArenaLease arena(entry, impl_->host);
  Run run(*entry, impl_->host);
  run.place_buffers(args, arena.data());
  run.launch_all();
  for (size_t i = 0; i < p.results.size(); ++i) {
    if (const auto* v = std::get_if<program::ResultView>(&p.results[i]))
      results[i].tensor = run.result(v->view.index);
    results[i].integer = entry->result_ints[i];
  }
}

std::vector<int64_t> Executor::wanted_strides(std::span<const CallArg> args, uint32_t arg) const {
  const std::vector<int64_t> symbols = impl_->binder->symbols(args);
  std::vector<int64_t> out;
  for (const Dim& d : std::get<program::ArgTensor>(impl_->program.args[arg]).strides)
    out.push_back(d.eval(symbols));
  return out;
}

uint64_t Executor::entries() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->entries.size();
}

uint64_t Executor::arena_bytes() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->arena_high_water;
}

}  // namespace poot::runtime
