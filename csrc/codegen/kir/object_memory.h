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
  void barrier() { ++epoch_; }

  // Throw InvalidGraph kir-run-C1 (bounds), -C2 (uninitialised), -C4 (race).
  uint64_t load(ObjectId o, int64_t index, uint32_t thread);
  void store(ObjectId o, int64_t index, uint64_t bits, uint32_t thread);

 private:
  struct Access {
    uint32_t epoch = 0, thread = 0;
    bool shared = false;  // reads: by several threads
  };
  struct Store {
    const Object* object = nullptr;
    std::byte* bytes = nullptr;
    int64_t elems = 0;  // of one thread
    int64_t width = 0;  // bytes of an element
    std::vector<std::byte> own;
    std::vector<uint8_t> initialised;
    std::vector<Access> writes, reads;  // where races are possible
  };
  // Where the element lies; private arrays have one copy a thread.
  size_t place(const Store& s, int64_t index, uint32_t thread) const;
  [[noreturn]] void race(const Store& s, int64_t index, uint32_t a, uint32_t b) const;
  bool current(const Store& s, const Access& a) const;

  const Kernel& k_;
  std::vector<Store> stores_;
  uint32_t epoch_ = 1;        // since the last barrier; workgroup arrays
  uint32_t block_epoch_ = 1;  // since the block began; buffers
};

}  // namespace poot::kir
