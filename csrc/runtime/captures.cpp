// The first calls run step by step, which also lets libraries set up what cannot be set up during a
// capture, and show which arguments stay where they are. Then stretches are planned, and each is
// captured when it is reached. An argument that moves after that makes its stretches run step by
// step; one that moves again is taken for one that moves, and stretches are planned anew.
#include "runtime/captures.h"

#include <algorithm>
#include <utility>

namespace poot::runtime {
namespace {

using program::BufferClass;
using program::LibraryOp;

constexpr uint32_t kCallsBefore = 2;  // by step
constexpr uint32_t kMovesAllowed = 1;
constexpr uint32_t kMostPlans = 4;

// Calls whose work depends on their operands' addresses and sizes alone, without the host waiting
// for it.
bool repeats(LibraryOp op) {
  switch (op) {
    case LibraryOp::mm:
    case LibraryOp::addmm:
    case LibraryOp::bmm:
    case LibraryOp::baddbmm:
    case LibraryOp::convolution:
    case LibraryOp::max_pool2d:
    case LibraryOp::sdpa:
      return true;
    default:
      return false;
  }
}

template <class F>
void each_view(const BoundCall& call, F&& visit) {
  for (const uint32_t v : call.inputs)
    if (v != kAbsent) visit(v);
  for (const uint32_t v : call.outs) visit(v);
}

bool has(const std::vector<std::pair<uint32_t, Address>>& list, uint32_t buffer) {
  return std::any_of(list.begin(), list.end(),
                     [&](const auto& entry) { return entry.first == buffer; });
}

}  // namespace

bool Captures::worth(const Entry& entry) {
  return std::any_of(entry.calls.begin(), entry.calls.end(),
                     [](const BoundCall& c) { return c.library && repeats(c.op); });
}

Captures::Captures(const Entry& entry, Capturer& capturer) : entry_(entry), capturer_(capturer) {
  for (const BoundCall& call : entry.calls) {
    if (!call.library || !repeats(call.op)) continue;
    each_view(call, [&](uint32_t v) {
      const uint32_t b = entry.views[v].buffer;
      if (entry.buffers[b].cls != BufferClass::Input) return;
      if (std::none_of(watched_.begin(), watched_.end(),
                       [&](const Watched& w) { return w.buffer == b; }))
        watched_.push_back({b, nullptr, 0});
    });
  }
}

Captures::Turn Captures::begin(std::span<const CallArg> args) {
  Turn turn{std::unique_lock(mutex_, std::try_to_lock), {}};
  if (!turn || plans_ > kMostPlans) return {};
  const QueueState queue = capturer_.queue();
  if (queue.recorded) return {};
  note(args);
  if (calls_++ < kCallsBefore) return {};
  if (!planned_) plan();
  if (stretches_.empty() || queue.id != queue_) return {};
  turn.use = memory_->use(lasting_);
  if (!turn.use) return {};
  return turn;
}

// Recordings hold the addresses that the arenas had when the first was made. Arenas that come at
// another place twice have settled there (the host's allocator gave memory back to the system,
// say), and what was captured is captured anew; arenas that keep moving are taken from there.
CallArenas& Captures::arenas(CallArenas& fresh) {
  if (kept_) return *kept_;
  const Places now{fresh.early.data(), fresh.rest.data()};
  const std::optional<Places> before = std::exchange(last_, now);
  if (!places_) places_ = now;
  if (now == *places_) return fresh;
  if (now == before) {
    for (auto& s : stretches_) s->forget();
    places_ = now;
    arena_moves_ = 0;
  } else if (++arena_moves_ > kMovesAllowed) {
    stretches_.clear();
    planned_ = false;
    return kept_.emplace(std::move(fresh));
  }
  return fresh;
}

void Captures::Stretch::forget() {
  recording = nullptr;
  refused = false;
  fixed.clear();
  made.clear();
  held.clear();
  kernels.clear();
}

void Captures::note(std::span<const CallArg> args) {
  for (Watched& w : watched_) {
    const void* now = args[entry_.buffers[w.buffer].index].tensor.data;
    if (now == w.seen) continue;
    if (w.seen && ++w.changes > kMovesAllowed && planned_ &&
        std::any_of(stretches_.begin(), stretches_.end(),
                    [&](const auto& s) { return has(s->fixed, w.buffer); }))
      planned_ = false;
    w.seen = now;
  }
}

// Whether a library call of the stretch may have its operand there.
bool Captures::fixed_place(uint32_t buffer, const Stretch& stretch) const {
  switch (entry_.buffers[buffer].cls) {
    case BufferClass::Arena:
    case BufferClass::Const:
      return true;
    case BufferClass::Owned:
      return has(stretch.made, buffer);
    case BufferClass::Input:
      for (const Watched& w : watched_)
        if (w.buffer == buffer) return w.changes == 0 || (plans_ < 2 && w.changes <= kMovesAllowed);
      return false;
    case BufferClass::Output:
      return false;
  }
  return false;
}

bool Captures::capturable(const BoundCall& call, const Stretch& stretch) const {
  if (!call.library || !repeats(call.op)) return false;
  for (const uint32_t v : call.inputs)
    if (v != kAbsent && !fixed_place(entry_.views[v].buffer, stretch)) return false;
  for (const uint32_t v : call.outs) {
    const uint32_t b = entry_.views[v].buffer;
    if (call.owned ? entry_.keep[b] : !fixed_place(b, stretch)) return false;
  }
  return true;
}

std::shared_ptr<QueueMemory> Captures::queue_memory() const {
  try {
    return capturer_.memory();
  } catch (const std::exception&) {
    return nullptr;  // by step
  }
}

void Captures::plan() {
  stretches_.clear();
  planned_ = true;
  lasting_ = false;
  places_.reset();
  if (++plans_ > kMostPlans) {
    kept_.reset();
    return;
  }
  queue_ = capturer_.queue().id;
  memory_ = queue_memory();
  if (!memory_) return;
  auto now = std::make_unique<Stretch>();
  bool calls = false;
  // Ends the stretch before step i; the next begins with step `first`.
  const auto close = [&](size_t i, size_t first) {
    now->last = i;
    for (const auto& [buffer, _] : now->made)
      if (!released(buffer, now->first, i)) now->lasting.push_back(buffer);
    now->made.clear();
    lasting_ |= !now->lasting.empty();
    if (calls) stretches_.push_back(std::move(now));
    now = std::make_unique<Stretch>();
    now->first = first;
    calls = false;
  };
  for (size_t i = 0; i < entry_.steps.size(); ++i) {
    const BoundStep& step = entry_.steps[i];
    if (i == entry_.late_step) close(i, i);
    if (step.recording) continue;
    const BoundCall& call = entry_.calls[step.call];
    if (!capturable(call, *now)) {
      close(i, i + 1);
      continue;
    }
    calls = true;
    if (call.owned)
      for (const uint32_t v : call.outs) now->made.emplace_back(entry_.views[v].buffer, nullptr);
  }
  close(entry_.steps.size(), entry_.steps.size());
}

// Whether a step in [first, last) gives the buffer up.
bool Captures::released(uint32_t buffer, size_t first, size_t last) const {
  for (size_t i = first; i < last; ++i) {
    const std::vector<uint32_t>& release = entry_.steps[i].release;
    if (std::find(release.begin(), release.end(), buffer) != release.end()) return true;
  }
  return false;
}

void Captures::run_captured(const BoundCall& call, Stretch& s, Run& run) const {
  const auto note_place = [&](uint32_t v, std::vector<std::pair<uint32_t, Address>>& list) {
    const uint32_t b = entry_.views[v].buffer;
    if (!has(list, b)) list.emplace_back(b, run.slots()[b]);
  };
  each_view(call, [&](uint32_t v) {
    if (entry_.buffers[entry_.views[v].buffer].cls != BufferClass::Owned) note_place(v, s.fixed);
  });
  run.run_call(call);
  if (call.owned)
    for (const uint32_t v : call.outs) note_place(v, s.made);
}

void Captures::capture(Stretch& s, Run& run) {
  std::vector<CaptureStep> steps;
  for (size_t i = s.first; i < s.last; ++i) {
    const BoundStep& step = entry_.steps[i];
    if (step.recording) {
      steps.push_back({step.recording.get(), {}});
      s.kernels.insert(s.kernels.end(), step.kernels.begin(), step.kernels.end());
    } else {
      const BoundCall& call = entry_.calls[step.call];
      steps.push_back({nullptr, [this, &s, &run, &call] { run_captured(call, s, run); }});
    }
    // Memory that dies here serves later calls of the capture.
    if (!step.release.empty())
      steps.push_back({nullptr, [&s, &run, &step] {
                         for (const uint32_t b : step.release)
                           if (has(s.made, b)) run.disown(b);
                       }});
  }
  try {
    s.recording = capturer_.capture(steps, run.slots(), *memory_);
    for (const uint32_t b : s.lasting) s.held.push_back(run.surrender(b));
  } catch (const std::exception&) {
    s.recording = nullptr;  // by step, which tells what is wrong with the call itself
  }
  s.refused = !s.recording;
}

// False if the stretch is to run by step.
bool Captures::replay(Stretch& s, Run& run) {
  if (!s.recording && !s.refused) capture(s, run);
  if (s.refused) return false;
  for (const auto& [buffer, address] : s.fixed)
    if (run.slots()[buffer] != address) return false;
  for (const auto& [buffer, address] : s.made) {
    run.disown(buffer);
    run.set_address(buffer, address);
  }
  const std::shared_ptr<void> running = run.announce(s.first, s.last);
  run.replay(*s.recording, s.fault, s.kernels);
  for (size_t i = s.first; i < s.last; ++i) run.release(entry_.steps[i]);
  return true;
}

void Captures::run(Run& run) {
  size_t i = 0;
  for (const auto& stretch : stretches_) {
    run.run_steps(i, stretch->first);
    i = stretch->first;
    run.reach(i);
    if (replay(*stretch, run)) i = stretch->last;
  }
  run.run_steps(i, entry_.steps.size());
}

}  // namespace poot::runtime
