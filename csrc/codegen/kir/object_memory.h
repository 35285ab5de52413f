// The storage of a kernel's objects while it is interpreted, with the checks that machine code does
// not make: bounds, uninitialised arrays, races between the threads of a workgroup.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "codegen/kir/kir.h"

namespace poot::kir {

class ObjectMemory {
 public:
  // `buffers` are the kernel's buffers in order; throws InvalidGraph kir-run-C6 if they do not
  // match.
  ObjectMemory(const Kernel& k, std::span<const std::span<std::byte>> buffers);

  void begin_block();  // arrays become uninitialised, every earlier access is ordered
  void barrier();      // of every workgroup for itself
  void cluster_barrier();

  // Throw InvalidGraph kir-run-C1 (bounds), -C2 (uninitialised), -C4 (race). Threads are counted
  // through the cluster; a workgroup's array is the thread's own or, if `rank` is given, that of
  // another workgroup.
  uint64_t load(ObjectId o, int64_t index, uint32_t thread);
  void store(ObjectId o, int64_t index, uint64_t bits, uint32_t thread);
  void store(ObjectId o, int64_t index, uint64_t bits, uint32_t thread, uint32_t rank);
  // The element becomes `combined(element)`: races with other accesses, not with others of this
  // kind.
  template <class F>
  void combine(ObjectId o, int64_t index, F&& combined) {
    note_atomic(o, index);
    write(o, index, combined(read(o, index)));
  }

 private:
  struct Access {
    uint32_t epoch = 0, thread = 0;
    bool shared = false;  // reads: by several threads
  };
  struct Store {
    const Object* object = nullptr;
    std::byte* bytes = nullptr;
    int64_t elems = 0;  // of one copy
    int64_t width = 0;  // bytes of an element
    std::vector<std::byte> own;
    std::vector<uint8_t> initialised;
    std::vector<Access> writes, reads;  // where races are possible
  };
  // Where the element lies: private arrays have one copy a thread, workgroup arrays one a rank.
  size_t place(const Store& s, int64_t index, uint32_t thread, uint32_t rank) const;
  uint32_t rank_of(uint32_t thread) const { return thread / k_.threads; }
  void note_atomic(ObjectId o, int64_t index);
  uint64_t read(ObjectId o, int64_t index) const;  // of a buffer, unchecked
  void write(ObjectId o, int64_t index, uint64_t bits);
  [[noreturn]] void race(const Store& s, int64_t index, uint32_t a, uint32_t b) const;
  // Nothing orders the access, by a thread of workgroup `rank`, before one of the thread now.
  bool current(const Store& s, const Access& a, uint32_t rank, uint32_t thread) const;

  const Kernel& k_;
  std::vector<Store> stores_;
  uint32_t epoch_ = 1;          // since the last barrier; workgroup arrays
  uint32_t cluster_epoch_ = 1;  // since the last one of all workgroups
  uint32_t block_epoch_ = 1;    // since the block began; buffers
};

}  // namespace poot::kir
