// How the threads of a workgroup share out rows x columns. Generators ask it for the size of a
// block, the lowering for the threads of it; where they disagree (an access turns out not to be
// aligned) threads take more rows or columns one after the other.
#pragma once

#include <cstdint>

namespace poot::codegen {

// Thread t has place t / columns among the rows and t % columns along them. Both are powers of
// two; rows > 1 only where columns <= 32 or nothing is reduced, and count() is a multiple of 32.
struct GpuThreads {
  uint32_t rows = 1, columns = 32;
  uint32_t count() const { return rows * columns; }
};

inline constexpr uint32_t kWarp = 32;
inline constexpr uint32_t kVectorBytes = 16;       // of one access
inline constexpr uint32_t kLongestVector = 8;      // elements of a thread side by side
inline constexpr int64_t kPointwiseThreads = 256;  // of a block without reductions

// Elements side by side of a thread, given the bytes of the narrowest element accessed.
uint32_t gpu_vector(int64_t narrowest);

// Whether a reduced row is shared by several warps; a block has then this row alone, unless its
// generator gives each warp a row.
bool gpu_row_alone(int64_t columns, uint32_t vector);

// For blocks of at most rows x columns, that are reduced so many times.
GpuThreads gpu_threads(int64_t rows, int64_t columns, uint32_t vector, int reductions);

// Workgroups that share a row of so many columns, which is read again after its reductions.
uint32_t gpu_cluster(int64_t columns);

}  // namespace poot::codegen
