// Library calls that allocate from the memory of the run. What a library returns in it is known by
// its address, and moved where it is not in its place. Nothing is assumed of what the library does
// with its memory: if some is still in use when the call is over, the run goes on in a copy, nobody
// uses the old memory again, and the program lends no more.

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/run.h"

namespace poot::runtime {

using program::BufferClass;

bool Run::lending(const BoundCall& call) const {
  if (!call.library || !lends_.load(std::memory_order_relaxed)) return false;
  return !call.gaps.empty() || std::any_of(call.outs.begin(), call.outs.end(), [&](uint32_t v) {
    return entry_.buffers[entry_.views[v].buffer].placed;
  });
}

Address Run::lent_address(uint32_t lender, uint64_t offset) const {
  return (lender == kAbsent ? arena_->data() : base_[lender]) + offset;
}

void Run::offer(const BoundCall& call) {
  if (!lent_) lent_ = std::make_shared<CallMemory>();
  lent_->open();
  if (call.owned)
    for (const uint32_t v : call.outs) {
      const BoundBuffer& b = entry_.buffers[entry_.views[v].buffer];
      lent_->add_place(b.placed ? lent_address(b.lender, b.arena_offset) : nullptr,
                       extent_bytes(entry_.views[v]));
    }
  for (const BoundGap& g : call.gaps) lent_->add_gap(lent_address(g.lender, g.offset), g.bytes);
}

void Run::run_lending(const BoundCall& call) {
  offer(call);
  const bool lent = host_.lend(lent_);
  try {
    call_host(call);
    lent_->close();
    if (call.owned) take_results(call);
  } catch (...) {
    results_.clear();
    if (lent && !host_.settle(lent_)) leave_lent();
    throw;
  }
  if (lent && !host_.settle(lent_)) move_from_lent();
}

// One result may lie where another belongs, so all are read before any is written.
void Run::take_results(const BoundCall& call) {
  std::vector<std::pair<Address, std::vector<char>>> moved;
  for (size_t i = 0; i < call.outs.size(); ++i) {
    const auto data = static_cast<const char*>(results_[i].data);
    if (!lent_->holds(data)) {
      take_result(call, i);
      continue;
    }
    const BoundView& view = entry_.views[call.outs[i]];
    const BoundBuffer& b = entry_.buffers[view.buffer];
    if (b.placed)
      base_[view.buffer] = lent_address(b.lender, b.arena_offset);
    else
      allocate(view.buffer);
    if (data != base_[view.buffer])
      moved.emplace_back(base_[view.buffer], std::vector<char>(data, data + extent_bytes(view)));
  }
  results_.clear();
  for (const auto& [to, bytes] : moved) std::memcpy(to, bytes.data(), bytes.size());
}

void Run::leave_lent() {
  lends_ = false;
  arena_->leave();
  for (uint32_t b = 0; b < base_.size(); ++b)
    if (entry_.buffers[b].lends) lent_->keep(owned_[b].owner);
}

void Run::move_from_lent() {
  const Address arena = arena_->data();
  leave_lent();
  arena_->leave_for(entry_.arena_bytes);
  if (arena) std::memcpy(arena_->data(), arena, entry_.arena_bytes);
  for (uint32_t b = 0; b < base_.size(); ++b) {
    if (!entry_.buffers[b].lends) continue;
    const Address old = base_[b];
    allocate(b);
    std::memcpy(base_[b], old, entry_.buffers[b].bytes);
  }
  for (uint32_t b = 0; b < base_.size(); ++b) {
    const BoundBuffer& buffer = entry_.buffers[b];
    const bool owned = buffer.placed && base_[b] && !owned_[b].owner;
    if (buffer.cls == BufferClass::Arena || owned)
      base_[b] = lent_address(buffer.lender, buffer.arena_offset);
  }
}

}  // namespace poot::runtime
