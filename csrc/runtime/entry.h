// An entry: a program with its size symbols bound. Every size, stride, grid and metadata word is a
// number and the arena is laid out, so that a call only fills in addresses.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "program/program.h"
#include "runtime/device.h"
#include "runtime/host_services.h"

namespace poot::runtime {

inline constexpr uint32_t kAbsent = ~uint32_t{0};

struct BoundBuffer {
  program::BufferClass cls;
  uint32_t index = 0;  // Input: argument
  uint64_t bytes = 0;  // Input: zero if the tensor is empty
  // Arena, and Owned where `placed`: in its arena, or in the Output that lends its memory.
  uint64_t arena_offset = 0;
  uint32_t lender = kAbsent;  // that Output's number
  bool placed = false;        // Owned: memory is planned that the host's library may put it in
  bool early = false;         // Arena: in the early one
  bool late = false;          // Output: has memory from the late step on
  bool lends = false;         // Output: transients and gaps may lie in it until it is written
  // Arena, Output: has memory of its own from its first launch on, an Arena to its last. Input: is
  // given up after its last.
  bool own = false;
  const char* constant = nullptr;
};

struct BoundView {
  uint32_t buffer = 0;
  DType dtype = DType::F32;
  int64_t byte_offset = 0;
  std::vector<int64_t> sizes, strides;
};

// Bytes from the first element to the last; none if it is empty.
uint64_t extent_bytes(const BoundView& view);

// Memory that nothing uses during one call.
struct BoundGap {
  uint32_t lender = kAbsent;  // in that Output, or in the arena
  uint64_t offset = 0, bytes = 0;
};

struct BoundCall {
  bool library = true;
  program::LibraryOp op{};
  uint32_t opaque = 0;
  bool owned = false;            // results live in memory that the host returns
  std::vector<uint32_t> inputs;  // view indices; kAbsent for an absent operand
  std::vector<uint32_t> outs;
  std::vector<BoundGap> gaps;  // for the library's own allocations
  const std::vector<int64_t>* ints = nullptr;
  const std::vector<double>* floats = nullptr;
};

// A run of kernel launches of one segment, recorded on the device with one slot a buffer, or one
// call of the host.
struct BoundStep {
  std::unique_ptr<const Recording> recording;  // null: a call
  std::vector<uint32_t> kernels;               // of the recording's launches, to name faults
  mutable Fault fault;  // where the device works asynchronously, and writes it after the call
  uint32_t call = 0;
  uint32_t launch = 0;             // number of its first launch in the program
  std::vector<uint32_t> allocate;  // own buffers whose first use this is
  std::vector<uint32_t> release;   // Owned and own buffers whose last use this is
};

struct Entry {
  std::vector<int64_t> symbols;
  std::vector<BoundBuffer> buffers;
  std::vector<uint32_t> lent;  // Arena buffers that lie in an Output
  std::vector<BoundView> views;
  std::vector<BoundCall> calls;
  std::vector<BoundStep> steps;
  std::vector<int64_t> result_ints;  // value of each ResultInt, by result number
  std::vector<bool> keep;            // buffers that results view: never released during the run
  uint64_t arena_bytes = 0;
  // Where results are written late (arena_split.h): the arena of transients that are dead by then,
  // which is given back before step `late_step`, when late results get their memory.
  uint64_t early_bytes = 0;
  uint32_t late_step = kAbsent;
};

// Evaluates `program` for `symbols` and records its kernel launches on `device`, where `modules[i]`
// is kernel i; `donated` as in placement.h; `apart`: each launch is a step of its own. Throws
// DeviceError if a size is negative or a grid exceeds 32 bits.
void bind_entry(Entry& entry, const program::Program& program, Device& device,
                std::span<const ModuleId> modules, std::vector<int64_t> symbols,
                const std::vector<bool>& donated, bool apart = false);

}  // namespace poot::runtime
