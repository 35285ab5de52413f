// A call: bind symbols, find (or evaluate) the entry, lease an arena, fill the buffer table, run
// the steps in order, or stretches of them that were captured, hand out the results.
#include "runtime/executor.h"

#include <atomic>
#include <list>
#include <optional>
#include <utility>

#include "program/kernel_abi.h"
#include "runtime/arena_pool.h"
#include "runtime/bind_args.h"
#include "runtime/captures.h"
#include "runtime/cpu_device.h"
#include "runtime/run.h"
#include "support/errors.h"

namespace poot::runtime {
namespace {

using program::BufferClass;

constexpr size_t kMaxEntries = 64;

std::string status_text(uint32_t bits, const std::string& kernel) {
  std::string s;
  if (bits & (program::kIndexOutOfRange | program::kPlaceOutOfRange)) s = "index out of range";
  if (bits & program::kDivideByZero) s += std::string(s.empty() ? "" : "; ") + "ZeroDivisionError";
  return s + " in kernel " + kernel;
}

}  // namespace

StatusError::StatusError(uint32_t bits, const std::string& kernel)
    : Error(status_text(bits, kernel)), bits_(bits) {}

// An entry, and what was captured of its runs. Where each launch is watched, another entry of the
// same sizes is used, in which each launch is a step.
struct Kept {
  Entry entry;
  std::unique_ptr<Captures> captures;
  std::once_flag apart_once;
  Entry apart;
};

struct Executor::Impl {
  program::Program program;
  HostServices& host;
  std::unique_ptr<CpuDevice> own;  // where the caller brought no device
  Device& device;
  Capturer* const capturer;
  ArenaPool arenas;
  std::vector<ModuleId> modules;
  std::vector<bool> donated;       // by argument
  std::vector<Address> constants;  // by buffer, where the device has copies of its own
  std::unique_ptr<ArgBinder> binder;
  mutable std::mutex mutex;
  std::list<std::shared_ptr<Kept>> entries;  // most recently used first
  std::atomic<bool> lends{true};             // until a library keeps memory that was lent to it

  Impl(program::Program p, std::vector<ModuleId> m, HostServices& h, Device* d, Capturer* c,
       std::vector<bool> given = {})
      : program(std::move(p)),
        host(h),
        own(d ? nullptr : std::make_unique<CpuDevice>(h)),
        device(d ? *d : *own),
        capturer(c),
        arenas(device),
        modules(std::move(m)),
        donated(std::move(given)) {
    donated.resize(program.args.size(), false);
    program::check(program);
    binder = std::make_unique<ArgBinder>(program);
    if (!device.facts().host_memory) upload_constants();
  }
  ~Impl() {
    for (const Address a : constants)
      if (a) device.free(a);
  }

  void upload_constants() {
    constants.resize(program.buffers.size(), nullptr);
    for (size_t b = 0; b < constants.size(); ++b) {
      const std::string& data = program.buffers[b].data;
      if (program.buffers[b].cls != BufferClass::Const) continue;
      constants[b] = device.allocate(data.size());
      device.copy(CopyKind::ToDevice, constants[b], data.data(), data.size());
    }
    device.wait(device.event());
  }

  const Entry& apart(Kept& kept) {
    std::call_once(kept.apart_once, [&] {
      bind_entry(kept.apart, program, device, modules, kept.entry.symbols, donated,
                 /*apart=*/true);
    });
    return kept.apart;
  }

  CallArenas lease(const Entry& entry) {
    CallArenas a;
    a.early = {arenas, entry.early_bytes};
    a.rest = {arenas, entry.arena_bytes};
    return a;
  }

  std::shared_ptr<Kept> find(std::vector<int64_t> symbols) {
    std::lock_guard lock(mutex);
    for (auto it = entries.begin(); it != entries.end(); ++it) {
      if ((*it)->entry.symbols != symbols) continue;
      entries.splice(entries.begin(), entries, it);
      return entries.front();
    }
    auto fresh = std::make_shared<Kept>();
    bind_entry(fresh->entry, program, device, modules, std::move(symbols), donated);
    if (capturer && Captures::worth(fresh->entry))
      fresh->captures = std::make_unique<Captures>(fresh->entry, *capturer);
    arenas.reserve(fresh->entry.early_bytes + fresh->entry.arena_bytes);
    entries.push_front(fresh);
    if (entries.size() > kMaxEntries) entries.pop_back();  // calls in flight keep theirs alive
    return fresh;
  }
};

Executor::Executor(program::Program program, std::vector<std::shared_ptr<const Image>> images,
                   HostServices& host, std::vector<bool> donated)
    : impl_(std::make_unique<Impl>(std::move(program), std::vector<ModuleId>{}, host, nullptr,
                                   nullptr, std::move(donated))) {
  for (auto& image : images) impl_->modules.push_back(impl_->own->adopt(std::move(image)));
}
Executor::Executor(program::Program program, std::vector<ModuleId> modules, HostServices& host,
                   Device& device, Capturer* capturer)
    : impl_(std::make_unique<Impl>(std::move(program), std::move(modules), host, &device,
                                   capturer)) {}
Executor::~Executor() = default;

const program::Program& Executor::program() const {
  return impl_->program;
}

void Executor::run(std::span<const CallArg> args, std::span<CallResult> results, Caller* caller) {
  const program::Program& p = impl_->program;
  if (args.size() != p.args.size() || results.size() != p.results.size())
    throw InternalError("call with " + std::to_string(args.size()) +
                        " arguments, the program has " + std::to_string(p.args.size()));
  std::vector<int64_t> symbols = impl_->binder->symbols(args);
  impl_->binder->check(args, symbols);
  const std::shared_ptr<Kept> kept = impl_->find(std::move(symbols));
  const Watch watch = impl_->host.watched();
  const Entry& entry = watch == Watch::Launches ? impl_->apart(*kept) : kept->entry;
  Run run(p, entry, impl_->host, impl_->device, impl_->constants, caller, watch != Watch::Nothing,
          impl_->lends);
  Captures::Turn captured;
  if (kept->captures && watch != Watch::Launches) captured = kept->captures->begin(args);
  CallArenas fresh;
  if (!captured || !kept->captures->keeps_arenas()) fresh = impl_->lease(entry);
  if (captured) {
    CallArenas& arenas = kept->captures->arenas(fresh);
    run.place_buffers(args, arenas, /*keep=*/&arenas != &fresh);
    kept->captures->run(run);
  } else {
    run.place_buffers(args, fresh);
    run.run_all();
  }
  for (size_t i = 0; i < p.results.size(); ++i) {
    if (const auto* v = std::get_if<program::ResultView>(&p.results[i]))
      results[i].tensor = run.result(v->view.index);
    results[i].integer = entry.result_ints[i];
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
  return impl_->arenas.high_water();
}

uint64_t Executor::kept_bytes() const {
  return impl_->arenas.kept_bytes();
}

}  // namespace poot::runtime
