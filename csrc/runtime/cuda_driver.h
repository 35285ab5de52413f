// The CUDA driver's interface, opened at run time: a table of the functions in cuda_driver.def. No
// header or library of CUDA is needed to build; a machine without a driver gets a DeviceError that
// says so when it first asks for a device. Tests fill the same table with functions that record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "codegen/target.h"

namespace poot::runtime::cuda {

using Status = int;  // CUresult; 0 is success
using DeviceHandle = int;
using DevicePointer = unsigned long long;
using Context = struct ContextOpaque*;
using Module = struct ModuleOpaque*;
using Function = struct FunctionOpaque*;
using Stream = struct StreamOpaque*;
using EventHandle = struct EventOpaque*;
using Graph = struct GraphOpaque*;
using GraphNode = struct GraphNodeOpaque*;
using GraphExec = struct GraphExecOpaque*;

// CUDA_KERNEL_NODE_PARAMS_v2.
struct KernelNode {
  Function function = nullptr;
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  void** params = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;
  Context context = nullptr;
};

// CUlaunchAttribute.
struct alignas(8) LaunchAttribute {
  int id = 0, unused = 0;
  int value = 0;
  char rest[60] = {};
};
inline constexpr int kProgrammaticSerialization = 6;  // its id

// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned count = 0;
};

// Values of `extra`: one buffer holds all parameters, in order.
inline void* const kParamBuffer = reinterpret_cast<void*>(1);
inline void* const kParamBytes = reinterpret_cast<void*>(2);
inline void* const kParamEnd = nullptr;

// CUstreamCaptureMode: what a thread may not ask of the driver while it captures.
enum CaptureMode : int { kUnsafeOfThisThread = 1, kNothingRefused = 2 };

enum Code : Status {
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kNoBinaryForGpu = 209,
  kInvalidPtx = 218,
  kUnsupportedPtxVersion = 222,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kSystemDriverMismatch = 803,
};

struct Driver {
#define CUDA_FUNCTION(member, exported, params) Status(*member) params = nullptr;
#include "runtime/cuda_driver.def"
#undef CUDA_FUNCTION

  // The process's driver, opened and initialised at the first call. Throws DeviceError (each time)
  // if there is none, if it is too old or if it finds no device.
  static const Driver& get();
  // Opens a library that exports the list, which tests replace. Throws DeviceError.
  static Driver open(const char* library);
  // Initialises, and checks the version. Throws DeviceError.
  void start() const;
  // Throws DeviceError, naming `what` and what to change, unless `status` is success.
  void check(Status status, const std::string& what) const {
    if (status != 0) [[unlikely]]
      fail(status, what);
  }
  [[noreturn]] void fail(Status status, const std::string& what) const;
};

// What schedules and limits are decided by.
struct Properties {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  uint32_t multiprocessors = 1;
  uint32_t shared_bytes = 0;  // of a block that opts in
  uint64_t l2_bytes = 0;
  uint64_t memory_bytes = 0;
  uint32_t clock_khz = 0, memory_clock_khz = 0, memory_bus_bits = 0;
};

// Throws DeviceError if the device does not exist or its compute capability is below 7.5.
Properties properties(const Driver& driver, int ordinal);
// The target that kernels for such a device are compiled for.
Target target_of(const Properties& properties);

}  // namespace poot::runtime::cuda
