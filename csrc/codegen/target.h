// Facts about a target that schedules and lowerings read. Filled by the device (runtime) or by
// name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace poot {

enum class Isa : uint8_t { X86, Ptx };

// GPU: the least products in half precision whose odd sizes are padded for the library.
struct LeastPadded {
  double operations = 1e10;
  double per_byte = 200;  // operations for each byte of the three matrices
};

struct Target {
  Isa isa = Isa::X86;
  std::string cpu;             // LLVM name: "sapphirerapids", "sm_90a"
  std::string features;        // LLVM feature string
  uint32_t vector_bytes = 64;  // CPU: 64 (AVX-512), 32 (AVX2), 16
  bool bf16_dot = false;       // CPU: AVX512-BF16 (and VNNI)
  bool bf16_tiles = false;     // CPU: AMX
  uint32_t warp = 32;          // GPU lanes in a warp
  uint32_t max_threads = 1024;
  uint32_t shared_bytes = 0;  // GPU workgroup memory
  bool clusters = false;      // GPU workgroups may exchange within clusters
  uint32_t overlapped_blocks =
      0;  // workgroups of the largest GPU kernel that overlaps the one before
  LeastPadded least_padded;
  uint32_t cores = 1;               // CPU threads or GPU multiprocessors
  uint64_t cache_bytes = 2u << 20;  // private cache of one core; a GPU's last cache
  std::string key() const;          // part of every artifact key
  static Target host();             // reads the processor
  // "x86-64-v4", "x86-64-v4-bf16", "sm_75", "sm_90a" and others; throws Unsupported
  static Target parse(std::string_view name);
  // The newest known target whose code runs on NVIDIA devices of this compute capability (7.5 or
  // above).
  static Target cuda(int major, int minor);
};

// Asks the system, once a process, to save the matrix unit's registers; false where it does not:
// instructions on tiles then fault.
bool allow_matrix_unit();

}  // namespace poot
