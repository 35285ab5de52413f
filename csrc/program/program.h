// Program: what the planner hands to the runtime. Plain records, serialisable, nothing of the
// compiler in them and no Python needed to replay them. Every size is a Dim over the program's
// symbols; the executor evaluates them once per symbol binding. Pinned interface, version below:
// golden file tests/program/program.golden.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "program/library.h"
#include "support/dim.h"
#include "support/dtype.h"
#include "support/hash.h"
#include "support/ids.h"

namespace poot::program {

inline constexpr uint32_t kProgramVersion = 2;

using BufferId = Id<struct BufferTag>;
using ViewId = Id<struct ViewTag>;
using KernelId = Id<struct KernelTag>;

// Who owns the memory.
//   Input   the caller's tensor number `index` of the call
//   Arena   transient: part of the entry's arena, live from launch `first` to launch `last`
//   Output  fresh memory of the host for each call; results are views of it
//   Owned   memory that a library or opaque call returned in this run; freed after `last`
//   Const   `data` of the program, written once
enum class BufferClass : uint8_t { Input, Arena, Output, Owned, Const };

struct Buffer {
  BufferClass cls = BufferClass::Arena;
  uint32_t index = 0;  // Input: position among the call's arguments
  DType dtype = DType::F32;
  Dim bytes;  // size of the allocation (Input, Owned: extent that launches touch)
  uint32_t first = 0, last = 0;  // launch numbers, inclusive, over all segments in order
  std::string data;              // Const only
};

// A strided window on a buffer: operand of library and opaque calls, and results.
struct View {
  BufferId buffer;
  DType dtype = DType::F32;
  Shape shape;
  Shape strides;  // elements
  Dim offset;     // elements
};

// A generated kernel. `kir` is the text that the worker compiles; its content hash with the target
// key is the artifact key. Buffers and metadata arrive in the order of the kernel ABI.
struct Kernel {
  std::string name;  // says what it fuses: "fused_add_relu"
  std::string kir;
  Hash128 hash;  // of kir
  uint32_t buffers = 0;
  uint32_t meta = 0;
};

struct KernelLaunch {
  KernelId kernel;
  struct Slot {
    BufferId buffer;
    Dim byte_offset;
  };
  std::vector<Slot> buffers;  // data inputs, then outputs, as the kernel declares them
  std::vector<Dim> meta;      // 64-bit words
  Dim grid[3] = {1, 1, 1};    // blocks
  int64_t block_cost = 0;     // elements touched by one block, for the serial cut-off
  Dim traffic = 0;            // bytes that it must read and write, each once: for profiles
};

// One call of the closed list in library.def. Results are written into `outs` where the library has
// a real out variant (OutVariant); otherwise each out view's buffer is Owned and adopts what it
// returns.
struct LibraryLaunch {
  LibraryOp op;
  std::vector<ViewId> inputs;  // none() for an absent optional operand
  std::vector<ViewId> outs;
  std::vector<int64_t> ints;  // attributes in the order that library.def documents
  std::vector<double> floats;
};

// An op run by the host's dispatcher: `call` indexes the host's table of prepared calls. Out
// buffers are Owned. Always in a live segment.
struct OpaqueLaunch {
  uint32_t call = 0;
  std::string target;
  std::vector<ViewId> inputs;
  std::vector<ViewId> outs;  // shapes, strides as the FX meta says; the executor checks them
};

using LaunchBody = std::variant<KernelLaunch, LibraryLaunch, OpaqueLaunch>;
struct Launch {
  LaunchBody body;
  std::vector<uint32_t> origins;  // indices into Program::origins
};

// Replayable: kernel and out-variant library launches only. Live: anything else.
enum class SegmentKind : uint8_t { Replayable, Live };
struct Segment {
  SegmentKind kind = SegmentKind::Replayable;
  std::vector<Launch> launches;
};

// The calling convention: arguments and results of the boxed callable, in order.
struct ArgTensor {
  DType dtype;
  Shape shape, strides;  // what the traced tensor had; binds symbols, checked against the call
  bool mutated = false;  // written by StateNext: its range must not overlap other arguments'
};
struct ArgInt {
  Dim value;  // a plain symbol is bound by it; an expression is checked against it
};
struct ArgNone {};  // an argument that the graph never reads (any object)
using Arg = std::variant<ArgTensor, ArgInt, ArgNone>;

struct ResultView {
  ViewId view;
};
struct ResultArg {
  uint32_t arg;
};  // the caller's argument itself, passed through
struct ResultInt {
  Dim value;
};
struct ResultNone {};
using Result = std::variant<ResultView, ResultArg, ResultInt, ResultNone>;

struct Origin {
  std::string node, source;
};

struct Program {
  std::string name;
  SymbolTable symbols;
  std::vector<Arg> args;
  std::vector<Result> results;
  std::vector<Buffer> buffers;
  std::vector<View> views;
  std::vector<Kernel> kernels;
  std::vector<Segment> segments;
  std::vector<Origin> origins;
};

std::string serialize(const Program& p);      // versioned, ends in a checksum
Program deserialize(std::string_view bytes);  // throws InvalidGraph program-C1 if damaged
std::string dump(const Program& p);           // readable, for reports and goldens
// Structural check (ids in range, launches after definitions, live ranges right); throws
// InvalidGraph program-C2.
void check(const Program& p);

}  // namespace poot::program
