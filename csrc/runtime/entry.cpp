// Evaluation of a program's size expressions, once per symbol binding.

#include "runtime/entry.h"

#include <algorithm>

#include "runtime/arena_split.h"
#include "runtime/placement.h"
#include "support/errors.h"

namespace poot::runtime {
namespace {

using program::BufferClass;

std::vector<int64_t> eval(const Shape& dims, std::span<const int64_t> symbols) {
  std::vector<int64_t> out;
  out.reserve(dims.size());
  for (const Dim& d : dims) out.push_back(d.eval(symbols));
  return out;
}

int64_t eval_size(const Dim& d, std::span<const int64_t> symbols, const char* what) {
  const int64_t v = d.eval(symbols);
  if (v < 0) throw DeviceError(std::string(what) + " evaluates to " + std::to_string(v));
  return v;
}

// The extent of an empty strided tensor may evaluate to anything.
bool is_empty(const program::Arg& arg, std::span<const int64_t> symbols) {
  const auto* t = std::get_if<program::ArgTensor>(&arg);
  return t && std::any_of(t->shape.begin(), t->shape.end(),
                          [&](const Dim& d) { return d.eval(symbols) == 0; });
}

void bind_buffers(Entry& e, const program::Program& p) {
  for (const program::Buffer& b : p.buffers) {
    BoundBuffer bound{b.cls, b.index};
    bound.bytes = static_cast<uint64_t>(eval_size(b.bytes, e.symbols, "a buffer's size"));
    if (b.cls == BufferClass::Input && is_empty(p.args[b.index], e.symbols)) bound.bytes = 0;
    if (b.cls == BufferClass::Const) bound.constant = b.data.data();
    e.buffers.push_back(bound);
  }
}

void bind_views(Entry& e, const program::Program& p) {
  for (const program::View& v : p.views) {
    BoundView bound;
    bound.buffer = v.buffer.index;
    bound.dtype = v.dtype;
    bound.sizes = eval(v.shape, e.symbols);
    bound.strides = eval(v.strides, e.symbols);
    bound.byte_offset = v.offset.eval(e.symbols) * byte_size(v.dtype);
    e.views.push_back(std::move(bound));
  }
}

DeviceLaunch bind_kernel(const Entry& e, const program::Program& p, const program::KernelLaunch& l,
                         std::span<const ModuleId> modules) {
  DeviceLaunch k;
  k.module = modules[l.kernel.index];
  uint64_t blocks = 1;
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t n = eval_size(l.grid[axis], e.symbols, "a grid");
    blocks *= static_cast<uint64_t>(n);
    if (n > UINT32_MAX || blocks > UINT32_MAX)
      throw DeviceError("the grid of " + p.kernels[l.kernel.index].name + " exceeds 2^32 blocks");
    k.grid[axis] = static_cast<uint32_t>(n);
  }
  k.cost = static_cast<int64_t>(blocks) * l.block_cost;
  k.meta = eval(l.meta, e.symbols);
  for (const auto& slot : l.buffers) {
    const uint64_t bytes = e.buffers[slot.buffer.index].bytes;
    const int64_t offset = slot.byte_offset.eval(e.symbols);
    const uint64_t skipped = static_cast<uint64_t>(std::max<int64_t>(offset, 0));
    k.buffers.push_back({slot.buffer.index, offset, bytes > skipped ? bytes - skipped : 0});
  }
  return k;
}

BoundCall bind_call(const Entry& e, std::span<const program::ViewId> inputs,
                    std::span<const program::ViewId> outs) {
  BoundCall c;
  for (program::ViewId v : inputs) c.inputs.push_back(v ? v.index : kAbsent);
  for (program::ViewId v : outs) {
    c.outs.push_back(v.index);
    c.owned |= e.buffers[e.views[v.index].buffer].cls == BufferClass::Owned;
  }
  return c;
}

// Marks what results view.
void bind_results(Entry& e, const program::Program& p) {
  e.keep.assign(e.buffers.size(), false);
  e.result_ints.assign(p.results.size(), 0);
  for (size_t i = 0; i < p.results.size(); ++i) {
    if (const auto* v = std::get_if<program::ResultView>(&p.results[i]))
      e.keep[e.views[v->view.index].buffer] = true;
    if (const auto* n = std::get_if<program::ResultInt>(&p.results[i]))
      e.result_ints[i] = n->value.eval(e.symbols);
  }
}

// By launch number: buffers that get memory of their own before it, and those whose memory goes
// after it.
struct Changes {
  std::vector<uint32_t> begin, end;
};

std::vector<Changes> changes(const Entry& e, const program::Program& p) {
  size_t launches = 0;
  for (const program::Segment& s : p.segments) launches += s.launches.size();
  std::vector<Changes> out(launches);
  for (uint32_t b = 0; b < e.buffers.size() && launches != 0; ++b) {
    const BoundBuffer& buffer = e.buffers[b];
    const bool ours = buffer.cls == BufferClass::Arena || buffer.cls == BufferClass::Output;
    if (buffer.own && ours) out[p.buffers[b].first].begin.push_back(b);
    if ((buffer.own || buffer.cls == BufferClass::Owned) && !e.keep[b])
      out[std::min<size_t>(p.buffers[b].last, launches - 1)].end.push_back(b);
  }
  return out;
}

void bind_call_step(Entry& e, const program::LaunchBody& body) {
  if (const auto* l = std::get_if<program::LibraryLaunch>(&body)) {
    BoundCall c = bind_call(e, l->inputs, l->outs);
    c.op = l->op;
    c.ints = &l->ints;
    c.floats = &l->floats;
    e.calls.push_back(std::move(c));
  } else {
    const auto& o = std::get<program::OpaqueLaunch>(body);
    BoundCall c = bind_call(e, o.inputs, o.outs);
    c.library = false;
    c.owned = true;
    c.opaque = o.call;
    e.calls.push_back(std::move(c));
  }
  BoundStep step;
  step.call = static_cast<uint32_t>(e.calls.size() - 1);
  e.steps.push_back(std::move(step));
}

// Kernel launches in a row become one recording; it ends early where memory comes or goes, and
// before the launch at which the late step begins.
void bind_steps(Entry& e, const program::Program& p, Device& device,
                std::span<const ModuleId> modules, uint32_t split, bool apart) {
  std::vector<Changes> memory = changes(e, p);
  std::vector<DeviceLaunch> run;
  std::vector<uint32_t> kernels, fresh;
  uint32_t number = 0;  // of launches bound so far
  auto end_run = [&] {
    if (run.empty()) return;
    BoundStep step;
    step.recording = device.record(run);
    step.launch = number - static_cast<uint32_t>(run.size());
    step.kernels = std::move(kernels);
    step.allocate = std::move(fresh);
    e.steps.push_back(std::move(step));
    run.clear();
    kernels.clear();
    fresh.clear();
  };
  for (const program::Segment& segment : p.segments) {
    for (const program::Launch& launch : segment.launches) {
      if (number == split) {
        end_run();
        e.late_step = static_cast<uint32_t>(e.steps.size());
      }
      Changes& change = memory[number];
      if (!change.begin.empty()) end_run();
      if (const auto* k = std::get_if<program::KernelLaunch>(&launch.body)) {
        if (!change.begin.empty()) fresh = std::move(change.begin);
        run.push_back(bind_kernel(e, p, *k, modules));
        kernels.push_back(k->kernel.index);
      } else {
        end_run();
        bind_call_step(e, launch.body);
        e.steps.back().launch = number;
        e.steps.back().allocate = std::move(change.begin);
      }
      ++number;
      if (apart || !change.end.empty()) {
        end_run();
        e.steps.back().release = std::move(change.end);
      }
    }
    end_run();
  }
}

}  // namespace

uint64_t extent_bytes(const BoundView& view) {
  int64_t elems = 1;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == 0) return 0;
    elems += (view.sizes[d] - 1) * view.strides[d];
  }
  return static_cast<uint64_t>(elems) * static_cast<uint64_t>(byte_size(view.dtype));
}

void bind_entry(Entry& entry, const program::Program& program, Device& device,
                std::span<const ModuleId> modules, std::vector<int64_t> symbols,
                const std::vector<bool>& donated, bool apart) {
  entry.symbols = std::move(symbols);
  bind_buffers(entry, program);
  bind_views(entry, program);
  bind_results(entry, program);
  Placement placement = place_buffers(entry, program, device.facts().host_memory, donated);
  bind_steps(entry, program, device, modules, placement.split, apart);
  auto gaps = placement.gaps.begin();
  for (BoundCall& call : entry.calls)
    if (call.library && gaps != placement.gaps.end()) call.gaps = std::move(*gaps++);
}

}  // namespace poot::runtime
