// Evaluation of a program's size expressions, once per symbol binding.

#include "runtime/entry.h"

#include "runtime/arena.h"
#include "support/errors.h"

namespace poot::runtime {
namespace {

using program::BufferClass;

// Below this many elements a launch runs on the calling thread: waking the team costs 1-2 us, in
// which one core touches about this much.
constexpr int64_t kSerialElements = 16384;

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

void bind_buffers(Entry& e, const program::Program& p) {
  std::vector<LiveRange> ranges;
  std::vector<uint32_t> owners;
  for (const program::Buffer& b : p.buffers) {
    BoundBuffer bound{b.cls, b.index};
    bound.bytes = static_cast<uint64_t>(eval_size(b.bytes, e.symbols, "a buffer's size"));
    if (b.cls == BufferClass::Const) bound.constant = b.data.data();
    if (b.cls == BufferClass::Arena) {
      ranges.push_back({bound.bytes, b.first, b.last});
      owners.push_back(static_cast<uint32_t>(e.buffers.size()));
    }
    e.buffers.push_back(bound);
  }
  const ArenaLayout layout = pack_arena(ranges);
  for (size_t i = 0; i < owners.size(); ++i) e.buffers[owners[i]].arena_offset = layout.offsets[i];
  e.arena_bytes = layout.bytes;
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

BoundKernel bind_kernel(const Entry& e, const program::Program& p, const program::KernelLaunch& l,
                        std::span<const std::shared_ptr<const Image>> images) {
  BoundKernel k;
  k.entry = images[l.kernel.index]->entry();
  k.name = &p.kernels[l.kernel.index].name;
  uint64_t blocks = 1;
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t n = eval_size(l.grid[axis], e.symbols, "a grid");
    blocks *= static_cast<uint64_t>(n);
    if (n > UINT32_MAX || blocks > UINT32_MAX)
      throw DeviceError("the grid of " + *k.name + " exceeds 2^32 blocks");
    k.grid[axis] = static_cast<uint32_t>(n);
  }
  k.blocks = static_cast<uint32_t>(blocks);
  k.parallel = k.blocks > 1 && static_cast<int64_t>(blocks) * l.block_cost > kSerialElements;
  k.meta = eval(l.meta, e.symbols);
  for (const auto& slot : l.buffers)
    k.slots.push_back({slot.buffer.index, slot.byte_offset.eval(e.symbols)});
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

void bind_launches(Entry& e, const program::Program& p,
                   std::span<const std::shared_ptr<const Image>> images) {
  for (const program::Segment& segment : p.segments) {
    for (const program::Launch& launch : segment.launches) {
      BoundLaunch bound;
      if (const auto* k = std::get_if<program::KernelLaunch>(&launch.body)) {
        bound.index = static_cast<uint32_t>(e.kernels.size());
        e.kernels.push_back(bind_kernel(e, p, *k, images));
      } else {
        bound.kernel = false;
        bound.index = static_cast<uint32_t>(e.calls.size());
        if (const auto* l = std::get_if<program::LibraryLaunch>(&launch.body)) {
          BoundCall c = bind_call(e, l->inputs, l->outs);
          c.op = l->op;
          c.ints = &l->ints;
          c.floats = &l->floats;
          e.calls.push_back(std::move(c));
        } else {
          const auto& o = std::get<program::OpaqueLaunch>(launch.body);
          BoundCall c = bind_call(e, o.inputs, o.outs);
          c.library = false;
          c.owned = true;
          c.opaque = o.call;
          e.calls.push_back(std::move(c));
        }
      }
      e.launches.push_back(std::move(bound));
    }
  }
}

// Marks what results view, and gives every other Owned buffer to the launch that reads it last.
void bind_lifetimes(Entry& e, const program::Program& p) {
  e.keep.assign(e.buffers.size(), false);
  e.result_ints.assign(p.results.size(), 0);
  for (size_t i = 0; i < p.results.size(); ++i) {
    if (const auto* v = std::get_if<program::ResultView>(&p.results[i]))
      e.keep[e.views[v->view.index].buffer] = true;
    if (const auto* n = std::get_if<program::ResultInt>(&p.results[i]))
      e.result_ints[i] = n->value.eval(e.symbols);
  }
  for (uint32_t b = 0; b < e.buffers.size(); ++b) {
    if (e.buffers[b].cls != BufferClass::Owned || e.keep[b] || e.launches.empty()) continue;
    const size_t last = std::min<size_t>(p.buffers[b].last, e.launches.size() - 1);
    e.launches[last].release.push_back(b);
  }
}

}  // namespace

void bind_entry(Entry& entry, const program::Program& program,
                std::span<const std::shared_ptr<const Image>> images,
                std::vector<int64_t> symbols) {
  entry.symbols = std::move(symbols);
  bind_buffers(entry, program);
  bind_views(entry, program);
  bind_launches(entry, program, images);
  bind_lifetimes(entry, program);
}

}  // namespace poot::runtime
