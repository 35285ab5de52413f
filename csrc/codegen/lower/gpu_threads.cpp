// Measured on one H200 with 16-byte accesses: pointwise work wants one vector a thread and small
// blocks; a reduced row wants about four vectors a thread, since few threads make the barriers
// short and the loads of one thread overlap. Rows of at most two vectors a lane stay in a warp,
// which needs no barrier.
#include "codegen/lower/gpu_threads.h"

#include <algorithm>
#include <bit>

namespace poot::codegen {
namespace {

constexpr int64_t kReducingThreads = 128;  // of a block of several rows
constexpr int64_t kVectors = 4;            // of a thread, in a row of several warps
constexpr int64_t kMostThreads = 512;
constexpr int64_t kVeryLong = 65536;  // rows that are longer, of unknown length for one
constexpr int64_t kVeryLongThreads = 256;

int64_t power(int64_t v) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(v, 1))));
}

}  // namespace

uint32_t gpu_vector(int64_t narrowest) {
  const int64_t bytes = std::max<int64_t>(narrowest, 1);
  return static_cast<uint32_t>(std::clamp<int64_t>(kVectorBytes / bytes, 1, kLongestVector));
}

bool gpu_row_alone(int64_t columns, uint32_t vector) {
  return (columns + vector - 1) / vector > 2 * kWarp;
}

GpuThreads gpu_threads(int64_t rows, int64_t columns, uint32_t vector, bool reduces) {
  const int64_t vectors = (columns + vector - 1) / vector;
  int64_t along = 0, across = 1;
  if (reduces && rows == 1 && gpu_row_alone(columns, vector)) {
    const int64_t wanted = power((vectors + kVectors - 1) / kVectors);
    along = columns > kVeryLong ? kVeryLongThreads
                                : std::clamp<int64_t>(wanted, 2 * kWarp, kMostThreads);
  } else {
    const int64_t threads = reduces ? kReducingThreads : kPointwiseThreads;
    along = std::min(power(vectors), reduces ? int64_t{kWarp} : threads);
    across = std::min(threads / along, power(rows));
    along = std::max(along, kWarp / std::min<int64_t>(across, kWarp));
  }
  return {static_cast<uint32_t>(across), static_cast<uint32_t>(along)};
}

}  // namespace poot::codegen
