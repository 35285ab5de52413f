// The buffer table is the table of slots that recorded launches are replayed with; nothing is
// looked up by name and nothing is evaluated on the way.
#include "runtime/run.h"

#include <utility>

namespace poot::runtime {

using program::BufferClass;

void Run::allocate(uint32_t buffer) {
  owned_[buffer] = host_.allocate_output(entry_.buffers[buffer].bytes);
  base_[buffer] = static_cast<char*>(owned_[buffer].data);
}

void Run::place_buffers(std::span<const CallArg> args, CallArenas& arenas, bool keep) {
  early_ = keep ? nullptr : &arenas.early;
  arena_ = &arenas.rest;
  base_.resize(entry_.buffers.size());
  owned_.resize(entry_.buffers.size());
  for (size_t b = 0; b < base_.size(); ++b) {
    const BoundBuffer& buffer = entry_.buffers[b];
    switch (buffer.cls) {
      case BufferClass::Input:
        base_[b] = static_cast<char*>(args[buffer.index].tensor.data);
        break;
      case BufferClass::Arena:
        if (!buffer.own)
          base_[b] = (buffer.early ? arenas.early : arenas.rest).data() + buffer.arena_offset;
        break;
      case BufferClass::Output:
        if (!buffer.late && !buffer.own) allocate(static_cast<uint32_t>(b));
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

void Run::reach(size_t i) {
  if (i != entry_.late_step || late_) return;
  late_ = true;
  if (early_) *early_ = {};
  for (uint32_t b = 0; b < base_.size(); ++b)
    if (entry_.buffers[b].late) allocate(b);
}

void Run::run_steps(size_t first, size_t last) {
  for (size_t i = first; i < last; ++i) {
    reach(i);
    const std::shared_ptr<void> running = announce(i, i + 1);
    run_step(entry_.steps[i]);
  }
}

std::shared_ptr<void> Run::announce(size_t first, size_t last) const {
  if (!watched_) [[likely]]
    return nullptr;
  uint32_t count = 0;
  for (size_t i = first; i < last; ++i)
    count += entry_.steps[i].recording ? static_cast<uint32_t>(entry_.steps[i].kernels.size()) : 1;
  return host_.announce(program_, entry_.symbols, entry_.steps[first].launch, count);
}

void Run::run_step(const BoundStep& step) {
  for (const uint32_t b : step.allocate) allocate(b);
  if (!step.recording) {
    run_call(entry_.calls[step.call]);
  } else if (device_.facts().host_memory) {
    Fault fault;
    device_.replay(*step.recording, base_, fault);
    device_.wait(device_.event());
    if (fault.bits != 0) [[unlikely]]
      throw StatusError(fault.bits, program_.kernels[step.kernels[fault.launch]].name);
  } else {
    replay(*step.recording, step.fault, step.kernels);
  }
  release(step);
}

void Run::replay(const Recording& recording, Fault& fault, std::span<const uint32_t> kernels) {
  device_.replay(recording, base_, fault);
  if (fault.bits == 0) return;
  const Fault found = std::exchange(fault, {});
  throw StatusError(found.bits, program_.kernels[kernels[found.launch]].name);
}

void Run::release(const BoundStep& step) {
  for (const uint32_t b : step.release) {
    owned_[b] = {};
    base_[b] = nullptr;
    if (entry_.buffers[b].cls == BufferClass::Input && caller_)
      caller_->give_up(entry_.buffers[b].index);
  }
}

void Run::run_call(const BoundCall& call) {
  set_operands(call);
  if (lending(call)) {
    run_lending(call);
    return;
  }
  call_host(call);
  if (call.owned)
    for (size_t i = 0; i < call.outs.size(); ++i) take_result(call, i);
}

void Run::set_operands(const BoundCall& call) {
  inputs_.clear();
  for (uint32_t v : call.inputs) inputs_.push_back(v == kAbsent ? TensorRef{} : ref(v));
  outs_.clear();
  results_.clear();
  for (uint32_t v : call.outs) {
    if (call.owned)
      results_.push_back({nullptr, nullptr, entry_.views[v].sizes, entry_.views[v].strides,
                          entry_.views[v].dtype});
    else
      outs_.push_back(ref(v));
  }
}

void Run::call_host(const BoundCall& call) {
  if (!call.owned)
    host_.library_call(call.op, inputs_, outs_, *call.ints, *call.floats);
  else if (call.library)
    host_.library_call_owned(call.op, inputs_, results_, *call.ints, *call.floats);
  else
    host_.opaque_call(call.opaque, inputs_, entry_.symbols, results_);
}

void Run::take_result(const BoundCall& call, size_t i) {
  const uint32_t b = entry_.views[call.outs[i]].buffer;
  base_[b] = static_cast<char*>(results_[i].data);
  owned_[b] = std::move(results_[i]);
}

HostTensor Run::result(uint32_t view) const {
  const BoundView& v = entry_.views[view];
  return {base_[v.buffer] + v.byte_offset, owned_[v.buffer].owner, v.sizes, v.strides, v.dtype};
}

TensorRef Run::ref(uint32_t view) const {
  const BoundView& v = entry_.views[view];
  return {base_[v.buffer] + v.byte_offset, v.dtype, v.sizes, v.strides};
}

}  // namespace poot::runtime
