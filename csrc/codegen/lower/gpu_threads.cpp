// Measured on one H200 with 16-byte accesses: pointwise work wants one vector a thread and small
// blocks; a row that is reduced twice wants about four vectors a thread, since few threads make the
// barriers short and the loads of one thread overlap, one that is reduced once wants one. Rows of
// at most two vectors a lane stay in a warp, which needs no barrier. A row that is walked twice is
// best read from the cache the second time: the rows that the device works on together must fit
// there, so that long ones are shared by clusters of workgroups.
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
constexpr uint32_t kCluster = 8;

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

uint32_t gpu_cluster(int64_t columns) {
  return columns > kVeryLong ? kCluster : 1;
}

GpuThreads gpu_threads(int64_t rows, int64_t columns, uint32_t vector, int reductions) {
  const int64_t vectors = (columns + vector - 1) / vector;
  const bool reduces = reductions > 0;
  int64_t along = 0, across = 1;
  if (reduces && rows == 1 && gpu_row_alone(columns, vector)) {
    const int64_t each = reductions > 1 ? kVectors : 1;
    const int64_t wanted = power((vectors + each - 1) / each);
    along = columns > kVeryLong ? kVeryLongThreads
                                : std::clamp<int64_t>(wanted, 2 * kWarp, kMostThreads);
  } else {
    const bool many = rows * vectors >= kMostThreads;
    const int64_t threads = reduces ? kReducingThreads : many ? kMostThreads : kPointwiseThreads;
    along = std::min(power(vectors), reduces ? int64_t{kWarp} : threads);
    across = std::min(threads / along, power(rows));
    along = std::max(along, kWarp / std::min<int64_t>(across, kWarp));
  }
  return {static_cast<uint32_t>(across), static_cast<uint32_t>(along)};
}

}  // namespace poot::codegen
