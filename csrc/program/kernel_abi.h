// Kernel ABI, version 1. Pinned interface: golden file tests/program/kernel_abi.golden.
//
// CPU: `void entry(const Args* args, uint32_t first_block, uint32_t last_block)` runs the blocks
// [first_block, last_block) of the flattened grid (x fastest). It calls nothing, allocates nothing,
// keeps no state. Blocks are independent; which thread runs which is the host's choice.
// Buffers: data inputs, then outputs, in the kernel's declaration order. `meta` is the fixed list
// of 64-bit words. A fault is reported by atomically or-ing its bit into *status; a kernel with a
// bad index writes nothing outside its buffers.
#pragma once

#include <cstdint>

namespace poot::program {

inline constexpr uint32_t kKernelAbiVersion = 1;

struct Args {
  void* const* buffers;
  const int64_t* meta;
  uint32_t* status;
  uint32_t grid[3];
};

using CpuEntry = void (*)(const Args*, uint32_t first_block, uint32_t last_block);

enum StatusBit : uint32_t {
  kIndexOutOfRange = 1,  // indexing: Python's IndexError
  kDivideByZero = 2,
  kPlaceOutOfRange = 4,  // gather and scatter by element: a RuntimeError in eager
};

}  // namespace poot::program
