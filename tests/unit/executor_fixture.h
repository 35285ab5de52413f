// Hand-made programs over the kernel of tests/devices, and a host that counts, for executor tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>

#include "../devices/add_meta.h"
#include "runtime/executor.h"
#include "runtime/malloc_host.h"

namespace poot::runtime {

using program::BufferClass;
using program::BufferId;
using program::KernelId;
using program::Program;
using program::ViewId;

// Counts what it hands out; opaque call 0 returns its input doubled.
class CountingHost : public MallocHost {
 public:
  void* allocate(size_t bytes) override {
    ++allocations;
    std::lock_guard lock(mutex);
    void* p = MallocHost::allocate(bytes);
    live_bytes += sizes[p] = bytes;
    return p;
  }
  void free(void* p) override {
    std::lock_guard lock(mutex);
    live_bytes -= sizes.at(p);
    sizes.erase(p);
    MallocHost::free(p);
  }
  HostTensor allocate_output(size_t bytes) override {
    HostTensor t;
    t.data = MallocHost::allocate(bytes);
    owned_bytes += bytes;
    owned_peak = std::max(owned_peak, owned_bytes);
    t.owner = std::shared_ptr<void>(t.data, [this, bytes](void* p) {
      owned_bytes -= bytes;
      std::free(p);
    });
    return t;
  }
  void opaque_call(uint32_t, std::span<const TensorRef> in, std::span<const int64_t>,
                   std::span<HostTensor> outs) override {
    const int64_t n = in[0].sizes[0];
    auto* data = static_cast<int64_t*>(MallocHost::allocate(static_cast<size_t>(n) * 8));
    for (int64_t i = 0; i < n; ++i) data[i] = 2 * static_cast<const int64_t*>(in[0].data)[i];
    outs[0].data = data;
    outs[0].owner = std::shared_ptr<void>(data, [this](void* p) {
      ++released;
      std::free(p);
    });
  }
  std::mutex mutex;
  std::map<void*, size_t> sizes;
  size_t live_bytes = 0;
  size_t owned_bytes = 0, owned_peak = 0;  // of outputs, on one thread
  std::atomic<int> allocations{0}, released{0};
};

inline const Dim s0 = Dim::symbol(0);

inline program::Launch add(uint32_t from, uint32_t to, const Dim& meta) {
  program::KernelLaunch k{KernelId(0), {{BufferId(from), 0}, {BufferId(to), 0}}, {meta}};
  k.grid[0] = s0;
  k.block_cost = 1;
  return {k, {}};
}

inline program::Buffer buffer(BufferClass cls, uint32_t index, uint32_t first, uint32_t last) {
  return {cls, index, DType::I64, 8 * s0, first, last, {}};
}

inline program::ArgTensor vector_of(const Dim& n, bool mutated = false) {
  return {DType::I64, {n}, {1}, mutated};
}

// y = x + (s0 - 8), three times over, through two arena buffers.
inline Program chain() {
  Program p;
  p.name = "chain";
  p.symbols = {Symbol{{0, INT64_MAX}, 16}};
  p.args = {vector_of(s0)};
  p.buffers = {buffer(BufferClass::Input, 0, 0, 0), buffer(BufferClass::Arena, 0, 0, 1),
               buffer(BufferClass::Arena, 0, 1, 2), buffer(BufferClass::Output, 0, 2, 2)};
  p.views = {{BufferId(3), DType::I64, {s0}, {1}, 0}};
  const std::string kir = testing::add_meta_kir();
  p.kernels = {{"add_meta", kir, content_hash(kir), 2, 1}};
  const Dim meta = s0 - 8;
  p.segments = {
      {program::SegmentKind::Replayable, {add(0, 1, meta), add(1, 2, meta), add(2, 3, meta)}}};
  p.results = {program::ResultView{ViewId(0)}, program::ResultInt{2 * s0}};
  return p;
}

struct Vector {
  explicit Vector(int64_t n, int64_t start = 0) : data(static_cast<size_t>(n)), sizes{n} {
    std::iota(data.begin(), data.end(), start);
  }
  CallArg arg() { return {{data.data(), DType::I64, sizes, strides}}; }
  std::vector<int64_t> data, sizes, strides = {1};
};

inline std::vector<int64_t> values(const CallResult& r) {
  const auto* p = static_cast<const int64_t*>(r.tensor.data);
  return {p, p + r.tensor.sizes.at(0)};
}

inline std::vector<int64_t> call(Executor& e, Vector& x) {
  const CallArg args[] = {x.arg()};
  std::vector<CallResult> results(e.program().results.size());
  e.run(args, results);
  return values(results[0]);
}

class ExecutorTest : public ::testing::Test {
 protected:
  std::unique_ptr<Executor> make(Program p, std::vector<bool> donated = {}) {
    return std::make_unique<Executor>(std::move(p),
                                      std::vector{Image::map(testing::add_meta_image())}, host_,
                                      std::move(donated));
  }
  CountingHost host_;
};

}  // namespace poot::runtime
