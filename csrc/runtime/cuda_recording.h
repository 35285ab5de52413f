// A recording on a CUDA device: launches with their parameters laid out as the kernels read them,
// and the graph that replays them, made when the recording has proved to be used again. A captured
// one has its graph from the start, with work of the host's between the launches.
#pragma once

#include "runtime/cuda_device.h"

namespace poot::runtime::cuda {

struct LoadedModule {
  Function function = nullptr;
  uint32_t threads = 0, words = 0;
  bool dependent = false;
};

struct CudaLaunch {
  Function function;
  uint32_t grid[3];
  uint32_t threads;
  uint32_t buffers;       // taken in order from the recording's
  uint32_t first, words;  // parameters: a stretch of the recording's words, buffers first
  bool dependent;         // it may begin while a kernel before it ends
};

// Kernel nodes in a row, each behind the one before. The graph lives as long as what was made of
// it: nodes are patched through it.
struct ReplayGraph {
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  std::vector<GraphNode> nodes;  // by launch
  std::vector<uint64_t> words;   // parameters that the nodes hold
};

struct CudaRecording final : Recording {
  explicit CudaRecording(CudaDevice& device) : Recording(device), owner(device) {}
  ~CudaRecording() override;
  CudaDevice& owner;
  std::vector<CudaLaunch> launches;  // of at least one block
  std::vector<uint32_t> numbers;     // of the launches, among those that were recorded
  std::vector<BufferRef> buffers;
  std::vector<uint64_t> words;  // metadata and status filled in, buffers zero
  uint32_t recorded = 0;        // launches that were recorded, those of no block among them
  StatusWords status;           // by launch
  std::vector<std::shared_ptr<const LoadedModule>> modules;

  bool captured = false;
  mutable std::mutex mutex;  // the graph
  mutable uint32_t replays = 0;
  mutable ReplayGraph graph;
};

}  // namespace poot::runtime::cuda
