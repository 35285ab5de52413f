// A call: bind symbols, find (or evaluate) the entry, lease an arena, fill the buffer table, run
// the steps in order, hand out the results. The buffer table is the table of slots that recorded
// launches are replayed with; nothing is looked up by name and nothing is evaluated on the way.

#include "runtime/executor.h"

#include <algorithm>
#include <list>
#include <utility>

#include "program/kernel_abi.h"
#include "runtime/arena_pool.h"
#include "runtime/bind_args.h"
#include "runtime/cpu_device.h"
#include "runtime/entry.h"
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

// One run of an entry.
class Run {
 public:
  // `constants`: addresses by buffer; empty where the device reads the program's own.
  Run(const program::Program& program, const Entry& entry, HostServices& host, Device& device,
      std::span<const Address> constants)
      : program_(program), entry_(entry), host_(host), device_(device), constants_(constants) {}

  void place_buffers(std::span<const CallArg> args, Address arena) {
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
          base_[b] = constants_.empty() ? const_cast<char*>(buffer.constant) : constants_[b];
          break;
        case BufferClass::Owned:
          break;
      }
    }
    for (uint32_t b : entry_.lent)
      base_[b] = base_[entry_.buffers[b].lender] + entry_.buffers[b].arena_offset;
  }

  void run_all() {
    for (const BoundStep& step : entry_.steps) {
      if (step.recording)
        replay(step);
      else
        run_call(entry_.calls[step.call]);
      for (uint32_t b : step.release) {
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
  void replay(const BoundStep& step) {
    const bool waits = device_.facts().host_memory;
    Fault own;
    Fault& fault = waits ? own : step.fault;
    device_.replay(*step.recording, base_, fault);
    if (waits) device_.wait(device_.event());
    if (fault.bits == 0) return;
    const Fault found = std::exchange(fault, {});
    throw StatusError(found.bits, program_.kernels[step.kernels[found.launch]].name);
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

  const program::Program& program_;
  const Entry& entry_;
  HostServices& host_;
  Device& device_;
  std::span<const Address> constants_;
  std::vector<Address> base_;  // by buffer: the slots of replays
  std::vector<HostTensor> owned_;
  std::vector<TensorRef> inputs_, outs_;
  std::vector<HostTensor> results_;
};

}  // namespace

StatusError::StatusError(uint32_t bits, const std::string& kernel)
    : Error(status_text(bits, kernel)), bits_(bits) {}

struct Executor::Impl {
  program::Program program;
  HostServices& host;
  std::unique_ptr<CpuDevice> own;  // where the caller brought no device
  Device& device;
  ArenaPool arenas;
  std::vector<ModuleId> modules;
  std::vector<Address> constants;  // by buffer, where the device has copies of its own
  std::unique_ptr<ArgBinder> binder;
  mutable std::mutex mutex;
  std::list<std::shared_ptr<Entry>> entries;  // most recently used first

  Impl(program::Program p, std::vector<ModuleId> m, HostServices& h, Device* d)
      : program(std::move(p)),
        host(h),
        own(d ? nullptr : std::make_unique<CpuDevice>(h)),
        device(d ? *d : *own),
        arenas(device),
        modules(std::move(m)) {
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

  std::shared_ptr<Entry> find(std::vector<int64_t> symbols) {
    std::lock_guard lock(mutex);
    for (auto it = entries.begin(); it != entries.end(); ++it) {
      if ((*it)->symbols != symbols) continue;
      entries.splice(entries.begin(), entries, it);
      return entries.front();
    }
    auto fresh = std::make_shared<Entry>();
    bind_entry(*fresh, program, device, modules, std::move(symbols));
    arenas.reserve(fresh->arena_bytes);
    entries.push_front(fresh);
    if (entries.size() > kMaxEntries) entries.pop_back();  // calls in flight keep theirs alive
    return fresh;
  }
};

Executor::Executor(program::Program program, std::vector<std::shared_ptr<const Image>> images,
                   HostServices& host)
    : impl_(std::make_unique<Impl>(std::move(program), std::vector<ModuleId>{}, host, nullptr)) {
  for (auto& image : images) impl_->modules.push_back(impl_->own->adopt(std::move(image)));
}
Executor::Executor(program::Program program, std::vector<ModuleId> modules, HostServices& host,
                   Device& device)
    : impl_(std::make_unique<Impl>(std::move(program), std::move(modules), host, &device)) {}
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
  const ArenaPool::Lease arena(impl_->arenas, entry->arena_bytes);
  Run run(p, *entry, impl_->host, impl_->device, impl_->constants);
  run.place_buffers(args, arena.data());
  run.run_all();
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
  return impl_->arenas.high_water();
}

}  // namespace poot::runtime
