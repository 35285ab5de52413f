// An entry: a program with its size symbols bound. Every size, stride, grid and metadata word is a
// number and the arena is laid out, so that a call only fills in addresses.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "program/kernel_abi.h"
#include "program/program.h"
#include "runtime/host_services.h"
#include "runtime/kernel_store.h"

namespace poot::runtime {

struct BoundBuffer {
  program::BufferClass cls;
  uint32_t index = 0;  // Input: argument
  uint64_t bytes = 0;
  uint64_t arena_offset = 0;  // Arena
  const char* constant = nullptr;
};

struct BoundView {
  uint32_t buffer = 0;
  DType dtype = DType::F32;
  int64_t byte_offset = 0;
  std::vector<int64_t> sizes, strides;
};

struct BoundKernel {
  program::CpuEntry entry = nullptr;
  const std::string* name = nullptr;
  uint32_t blocks = 0;
  bool parallel = false;
  uint32_t grid[3] = {1, 1, 1};
  std::vector<int64_t> meta;
  struct Slot {
    uint32_t buffer;
    int64_t byte_offset;
  };
  std::vector<Slot> slots;
};

struct BoundCall {
  bool library = true;
  program::LibraryOp op{};
  uint32_t opaque = 0;
  bool owned = false;            // results live in memory that the host returns
  std::vector<uint32_t> inputs;  // view indices; kAbsent for an absent operand
  std::vector<uint32_t> outs;
  const std::vector<int64_t>* ints = nullptr;
  const std::vector<double>* floats = nullptr;
};
inline constexpr uint32_t kAbsent = ~uint32_t{0};

struct BoundLaunch {
  bool kernel = true;
  uint32_t index = 0;             // into kernels or calls
  std::vector<uint32_t> release;  // Owned buffers whose last use this is
};

struct Entry {
  std::vector<int64_t> symbols;
  std::vector<BoundBuffer> buffers;
  std::vector<BoundView> views;
  std::vector<BoundKernel> kernels;
  std::vector<BoundCall> calls;
  std::vector<BoundLaunch> launches;
  std::vector<int64_t> result_ints;  // value of each ResultInt, by result number
  std::vector<bool> keep;            // buffers that results view: never released during the run
  uint64_t arena_bytes = 0;

  // Arenas not in use by a call.
  std::mutex mutex;
  std::vector<void*> idle_arenas;
};

// Evaluates `program` for `symbols`. `images[i]` is kernel i's. Throws DeviceError if a size is
// negative or a grid exceeds 32 bits.
void bind_entry(Entry& entry, const program::Program& program,
                std::span<const std::shared_ptr<const Image>> images, std::vector<int64_t> symbols);

}  // namespace poot::runtime
