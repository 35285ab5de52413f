// Races are found by shadow records: an element remembers who wrote and who read it since the last
// point that orders accesses. A barrier orders workgroup arrays, among the threads of a workgroup
// or of the whole cluster; nothing inside a block orders buffers, so two threads of a block must
// never meet in one element that either writes, but in atomic accesses.
#include "codegen/kir/object_memory.h"

#include <cstring>

namespace poot::kir {

namespace {

constexpr uint32_t kAtomic = ~uint32_t{0};  // in place of a thread: any that access so

}  // namespace

ObjectMemory::ObjectMemory(const Kernel& k, std::span<const std::span<std::byte>> buffers)
    : k_(k), stores_(k.objects.size()) {
  size_t next = 0;
  for (size_t i = 0; i < stores_.size(); ++i) {
    Store& s = stores_[i];
    s.object = &k.objects[i];
    s.width = bit_width(s.object->elem) / 8;
    s.elems = s.object->size;
    if (s.object->kind == ObjectKind::Buffer) {
      if (next == buffers.size())
        throw InvalidGraph("kir-run-C6", "@" + k.name, "fewer buffers than the kernel has");
      s.bytes = buffers[next].data();
      s.elems = static_cast<int64_t>(buffers[next].size()) / s.width;
      ++next;
    } else if (s.object->kind != ObjectKind::Table) {
      const bool per_thread = s.object->kind == ObjectKind::Private;
      const auto count = static_cast<size_t>(s.elems) * k.cluster * (per_thread ? k.threads : 1);
      s.own.resize(count * static_cast<size_t>(s.width));
      s.initialised.resize(count);
      s.bytes = s.own.data();
    }
    const bool shared = s.object->kind == ObjectKind::Workgroup ||
                        (s.object->kind == ObjectKind::Buffer && s.object->writable);
    if (shared && k.threads > 1) {
      const bool copies = s.object->kind == ObjectKind::Workgroup;
      s.writes.resize(static_cast<size_t>(s.elems) * (copies ? k.cluster : 1));
      s.reads.resize(s.writes.size());
    }
  }
  if (next != buffers.size())
    throw InvalidGraph("kir-run-C6", "@" + k.name, "more buffers than the kernel has");
}

void ObjectMemory::begin_block() {
  ++epoch_;
  block_epoch_ = cluster_epoch_ = epoch_;
  for (Store& s : stores_) s.initialised.assign(s.initialised.size(), 0);
}

void ObjectMemory::barrier() {
  ++epoch_;
  if (k_.cluster == 1) cluster_epoch_ = epoch_;
}

void ObjectMemory::cluster_barrier() {
  cluster_epoch_ = ++epoch_;
}

size_t ObjectMemory::place(const Store& s, int64_t index, uint32_t thread, uint32_t rank) const {
  if (index < 0 || index >= s.elems)
    throw InvalidGraph("kir-run-C1", "%" + s.object->name,
                       "element " + std::to_string(index) + " of " + std::to_string(s.elems));
  size_t copy = 0;
  if (s.object->kind == ObjectKind::Private) copy = thread;
  if (s.object->kind == ObjectKind::Workgroup) copy = rank;
  return copy * static_cast<size_t>(s.elems) + static_cast<size_t>(index);
}

void ObjectMemory::race(const Store& s, int64_t index, uint32_t a, uint32_t b) const {
  throw InvalidGraph("kir-run-C4", "%" + s.object->name,
                     "threads " + std::to_string(a) + " and " + std::to_string(b) +
                         " meet in element " + std::to_string(index));
}

bool ObjectMemory::current(const Store& s, const Access& a, uint32_t rank, uint32_t thread) const {
  if (s.object->kind != ObjectKind::Workgroup) return a.epoch >= block_epoch_;
  return a.epoch >= (rank == rank_of(thread) ? epoch_ : cluster_epoch_);
}

uint64_t ObjectMemory::load(ObjectId o, int64_t index, uint32_t thread) {
  Store& s = stores_[o.index];
  const uint32_t rank = rank_of(thread);
  const size_t at = place(s, index, thread, rank);
  if (s.object->kind == ObjectKind::Table) return s.object->bits[at];
  if (!s.initialised.empty() && !s.initialised[at])
    throw InvalidGraph("kir-run-C2", "%" + s.object->name,
                       "element " + std::to_string(index) + " is read before it is written");
  if (!s.writes.empty()) {
    const Access& w = s.writes[at];
    if (current(s, w, rank_of(w.thread), thread) && w.thread != thread)
      race(s, index, w.thread, thread);
    Access& r = s.reads[at];
    r.shared = current(s, r, rank, thread) && (r.shared || r.thread != thread);
    r.epoch = epoch_;
    r.thread = thread;
  }
  uint64_t bits = 0;
  std::memcpy(&bits, s.bytes + at * static_cast<size_t>(s.width), static_cast<size_t>(s.width));
  return bits;
}

void ObjectMemory::note_atomic(ObjectId o, int64_t index) {
  Store& s = stores_[o.index];
  const size_t at = place(s, index, 0, 0);
  if (s.writes.empty()) return;
  for (const Access* a : {&s.writes[at], &s.reads[at]})
    if (a->epoch >= block_epoch_ && a->thread != kAtomic) race(s, index, a->thread, kAtomic);
  s.writes[at].epoch = epoch_;
  s.writes[at].thread = kAtomic;
}

uint64_t ObjectMemory::read(ObjectId o, int64_t index) const {
  const Store& s = stores_[o.index];
  uint64_t bits = 0;
  std::memcpy(&bits, s.bytes + index * s.width, static_cast<size_t>(s.width));
  return bits;
}

void ObjectMemory::write(ObjectId o, int64_t index, uint64_t bits) {
  Store& s = stores_[o.index];
  std::memcpy(s.bytes + index * s.width, &bits, static_cast<size_t>(s.width));
}

void ObjectMemory::store(ObjectId o, int64_t index, uint64_t bits, uint32_t thread) {
  store(o, index, bits, thread, rank_of(thread));
}

// Only threads of the workgroup whose array it is read it.
void ObjectMemory::store(ObjectId o, int64_t index, uint64_t bits, uint32_t thread, uint32_t rank) {
  Store& s = stores_[o.index];
  const size_t at = place(s, index, thread, rank);
  if (!s.writes.empty()) {
    Access& w = s.writes[at];
    const Access& r = s.reads[at];
    if (current(s, w, rank_of(w.thread), thread) && w.thread != thread)
      race(s, index, w.thread, thread);
    if (current(s, r, rank, thread) && (r.shared || r.thread != thread))
      race(s, index, r.thread, thread);
    w.epoch = epoch_;
    w.thread = thread;
  }
  if (!s.initialised.empty()) s.initialised[at] = 1;
  std::memcpy(s.bytes + at * static_cast<size_t>(s.width), &bits, static_cast<size_t>(s.width));
}

}  // namespace poot::kir
