#include "runtime/placement.h"

#include <algorithm>

#include "runtime/arena.h"
#include "runtime/arena_gaps.h"
#include "runtime/arena_split.h"

namespace poot::runtime {
namespace {

using program::BufferClass;

constexpr uint64_t kLeastGap = 512;
constexpr uint64_t kLarge = 64 << 10;  // worth lending, or memory of its own
constexpr uint64_t kWorth = 1 << 20;   // bytes that own memory saves at least
constexpr uint64_t kWorthPart = 8;     // and this part of all

// Live ranges and results, with the buffers' numbers.
struct Memory {
  std::vector<LiveRange> ranges;
  std::vector<FreshResult> results;
  std::vector<uint32_t> transients, outputs;
};

Memory memory_of(const Entry& e, const program::Program& p) {
  Memory m;
  for (uint32_t b = 0; b < e.buffers.size(); ++b) {
    if (e.buffers[b].cls == BufferClass::Arena) {
      m.ranges.push_back({e.buffers[b].bytes, p.buffers[b].first, p.buffers[b].last});
      m.transients.push_back(b);
    }
    if (e.buffers[b].cls == BufferClass::Output) {
      m.results.push_back({e.buffers[b].bytes, p.buffers[b].first});
      m.outputs.push_back(b);
    }
  }
  return m;
}

// What library calls return takes part, but for what results view: those must lie in memory of
// their own.
void add_library_results(Entry& e, const program::Program& p, Memory& m) {
  for (const program::Segment& segment : p.segments)
    for (const program::Launch& launch : segment.launches) {
      const auto* l = std::get_if<program::LibraryLaunch>(&launch.body);
      if (!l) continue;
      for (const program::ViewId out : l->outs) {
        const BoundView& v = e.views[out.index];
        BoundBuffer& b = e.buffers[v.buffer];
        if (b.cls != BufferClass::Owned || e.keep[v.buffer] || b.bytes == 0) continue;
        if (v.byte_offset != 0 || extent_bytes(v) != b.bytes || b.placed) continue;
        b.placed = true;
        m.ranges.push_back({b.bytes, p.buffers[v.buffer].first, p.buffers[v.buffer].last});
        m.transients.push_back(v.buffer);
      }
    }
}

uint32_t launches_of(const program::Program& p) {
  size_t n = 0;
  for (const program::Segment& s : p.segments) n += s.launches.size();
  return static_cast<uint32_t>(n);
}

// What lends, and where transients came to lie.
struct Lent {
  ArenaLayout layout;
  std::vector<Loan> loans;
  std::vector<uint32_t> lenders;  // by loan: the Output
  uint32_t lender(uint32_t loan) const { return loan == kNoLoan ? kAbsent : lenders[loan]; }
};

Lent lend(Entry& e, const Memory& m) {
  Lent lent;
  for (size_t i = 0; i < m.results.size(); ++i) {
    if (m.results[i].bytes < kLarge) continue;
    lent.loans.push_back({m.results[i].bytes, m.results[i].first});
    lent.lenders.push_back(m.outputs[i]);
    e.buffers[m.outputs[i]].lends = true;
  }
  lent.layout = pack_arena(m.ranges, lent.loans);
  for (size_t i = 0; i < m.transients.size(); ++i) {
    BoundBuffer& b = e.buffers[m.transients[i]];
    b.arena_offset = lent.layout.offsets[i];
    b.lender = lent.lender(lent.layout.loans[i]);
    if (b.lender != kAbsent && b.cls == BufferClass::Arena) e.lent.push_back(m.transients[i]);
  }
  e.arena_bytes = lent.layout.bytes;
  return lent;
}

// By library call: what the layout leaves free while it runs.
std::vector<std::vector<BoundGap>> gaps_of(const program::Program& p, const Memory& m,
                                           const Lent& lent) {
  std::vector<uint32_t> calls;
  uint32_t number = 0;
  for (const program::Segment& segment : p.segments)
    for (const program::Launch& launch : segment.launches) {
      if (std::holds_alternative<program::LibraryLaunch>(launch.body)) calls.push_back(number);
      ++number;
    }
  std::vector<std::vector<BoundGap>> out;
  for (const auto& gaps : arena_gaps(lent.layout, m.ranges, lent.loans, calls, kLeastGap)) {
    out.emplace_back();
    for (const ArenaGap& g : gaps) out.back().push_back({lent.lender(g.loan), g.offset, g.bytes});
  }
  return out;
}

uint32_t split(Entry& e, const Memory& m) {
  const uint32_t at = split_launch(m.ranges, m.results);
  for (const bool early : {true, false}) {
    std::vector<LiveRange> ranges;
    std::vector<uint32_t> buffers;
    for (size_t i = 0; i < m.ranges.size(); ++i) {
      if ((at != kNoSplit && m.ranges[i].last < at) != early) continue;
      ranges.push_back(m.ranges[i]);
      buffers.push_back(m.transients[i]);
    }
    const ArenaLayout layout = pack_arena(ranges);
    for (size_t i = 0; i < buffers.size(); ++i) {
      e.buffers[buffers[i]].arena_offset = layout.offsets[i];
      e.buffers[buffers[i]].early = early;
    }
    (early ? e.early_bytes : e.arena_bytes) = layout.bytes;
  }
  for (size_t i = 0; i < m.outputs.size(); ++i)
    e.buffers[m.outputs[i]].late = at != kNoSplit && m.results[i].first >= at;
  return at;
}

// Bytes that live at the worst launch if large buffers have memory of their own, small transients
// aside.
uint64_t own_peak(const Entry& e, const program::Program& p, const std::vector<bool>& donated) {
  const uint32_t launches = launches_of(p), end = launches - 1;
  std::vector<int64_t> change(launches + 1, 0);  // before each launch
  auto lives = [&](uint64_t bytes, uint32_t first, uint32_t last) {
    change[first] += static_cast<int64_t>(bytes);
    change[last + 1] -= static_cast<int64_t>(bytes);
  };
  for (size_t b = 0; b < e.buffers.size(); ++b) {
    const BoundBuffer& buffer = e.buffers[b];
    const bool large = buffer.bytes >= kLarge;
    if ((buffer.cls == BufferClass::Arena && large) || buffer.placed)
      lives(buffer.bytes, p.buffers[b].first, p.buffers[b].last);
    if (buffer.cls == BufferClass::Output) lives(buffer.bytes, large ? p.buffers[b].first : 0, end);
    if (buffer.cls == BufferClass::Input && donated[buffer.index])
      lives(buffer.bytes, 0, large && !e.keep[b] ? p.buffers[b].last : end);
  }
  int64_t live = 0, worst = 0;
  for (const int64_t c : change) worst = std::max(worst, live += c);
  return static_cast<uint64_t>(worst);
}

// Small transients share an arena, all others have memory of their own. False, and nothing is done,
// where that does not save much beside what `lend` did.
bool own(Entry& e, const program::Program& p, const Memory& m, const std::vector<bool>& donated) {
  if (launches_of(p) == 0) return false;
  std::vector<LiveRange> small;
  std::vector<uint32_t> buffers;
  for (size_t i = 0; i < m.ranges.size(); ++i) {
    if (m.ranges[i].bytes >= kLarge || e.buffers[m.transients[i]].placed) continue;
    small.push_back(m.ranges[i]);
    buffers.push_back(m.transients[i]);
  }
  const ArenaLayout layout = pack_arena(small);
  uint64_t lent = e.arena_bytes;
  for (const FreshResult& r : m.results) lent += r.bytes;
  for (const BoundBuffer& b : e.buffers)
    if (b.cls == BufferClass::Input && donated[b.index]) lent += b.bytes;
  if (own_peak(e, p, donated) + layout.bytes + std::max(kWorth, lent / kWorthPart) > lent)
    return false;
  e.lent.clear();
  e.arena_bytes = layout.bytes;
  for (size_t i = 0; i < buffers.size(); ++i) {
    e.buffers[buffers[i]].arena_offset = layout.offsets[i];
    e.buffers[buffers[i]].lender = kAbsent;
  }
  for (size_t b = 0; b < e.buffers.size(); ++b) {
    const BufferClass c = e.buffers[b].cls;
    e.buffers[b].placed = false;  // libraries return memory of their own as well
    e.buffers[b].lends = false;
    const bool ours = c == BufferClass::Arena || c == BufferClass::Output;
    const bool given = c == BufferClass::Input && !e.keep[b];
    e.buffers[b].own = (ours || given) && e.buffers[b].bytes >= kLarge;
  }
  return true;
}

}  // namespace

Placement place_buffers(Entry& entry, const program::Program& program, bool host_memory,
                        const std::vector<bool>& donated) {
  Memory m = memory_of(entry, program);
  if (!host_memory) return {split(entry, m), {}};
  add_library_results(entry, program, m);
  const Lent lent = lend(entry, m);
  if (own(entry, program, m, donated)) return {};
  return {kNoSplit, gaps_of(program, m, lent)};
}

}  // namespace poot::runtime
