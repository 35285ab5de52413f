// A GPU kernel as it is kept and loaded, version 3: what a launch must know, then the code.
//
//   GpuModuleHeader | name of the entry, a zero byte | code
//
// `hash` is the low word of content_hash over everything behind the header, so a damaged module is
// refused before a driver sees it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace poot::runtime {

inline constexpr char kGpuModuleMagic[8] = {'P', 'O', 'O', 'T', 'G', 'P', 'U', '3'};
inline constexpr uint32_t kGpuModuleVersion = 3;

enum class GpuCode : uint32_t { Ptx, Cubin };

struct GpuModuleHeader {
  char magic[8];
  uint32_t version;
  uint32_t abi;  // kKernelAbiVersion
  uint64_t size;
  uint64_t hash;
  uint32_t threads;  // of a block, along x
  uint32_t words;    // parameters of 8 bytes each: buffers, metadata, status
  GpuCode code;
  uint32_t name_bytes;  // the zero byte included
  uint32_t dependent;   // 1: it waits for the kernel before it, and may begin earlier
  uint32_t unused;
};
static_assert(sizeof(GpuModuleHeader) == 56);

struct GpuModule {
  uint32_t threads = 0, words = 0;
  bool dependent = false;
  GpuCode code = GpuCode::Ptx;
  const char* entry = nullptr;
  std::string_view bytes;  // PTX ends in a zero byte; points into what was parsed
};

// Reads threads and parameters from the PTX that the worker wrote; throws CompileError if it is
// not such. `cubin`: machine code linked from it, or empty.
std::string pack_gpu_module(const std::string& ptx, std::string_view cubin);
// Throws InvalidGraph module-C1 (not a module of this version, or not whole) or module-C2 (the hash
// does not match).
GpuModule parse_gpu_module(std::string_view bytes);

}  // namespace poot::runtime
