// A program of kernels around library products over the recording driver, with a host whose library
// doubles what it is given, for tests of captures and of failures.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "../unit/executor_fixture.h"
#include "recording_driver.h"
#include "runtime/cuda_device.h"
#include "support/errors.h"

namespace poot::runtime {

using testing::RecordingDriver;

// Captures into a graph of the recording driver.
class RecorderCapture final : public cuda::GraphCapture {
 public:
  explicit RecorderCapture(RecordingDriver& recorder) : recorder_(recorder) {
    recorder_.begin_capture();
  }
  ~RecorderCapture() override {
    if (!ended_) recorder_.end_capture();
  }
  cuda::Stream stream() override { return RecordingDriver::kCaptureStream; }
  cuda::Graph end() override {
    ended_ = true;
    return recorder_.end_capture();
  }

 private:
  RecordingDriver& recorder_;
  bool ended_ = false;
};

// What the owner of a device's memory was asked for, and what it is told to do.
struct Memory {
  uint64_t live = 0, peak = 0;  // bytes, of the device and of results
  bool move = false;            // freed memory is not given again
  std::vector<bool> lasting;    // of each capture
  void add(uint64_t bytes) { peak = std::max(peak, live += bytes); }
};

// Caches what is freed, as torch's allocator does: the same sizes come at the same addresses.
class CapturingOwner final : public cuda::Owner {
 public:
  CapturingOwner(RecordingDriver& recorder, cuda::Stream& stream, Memory& memory)
      : recorder_(recorder), driver_(recorder.table()), stream_(stream), memory_(memory) {}
  ~CapturingOwner() override {
    for (const auto& [address, bytes] : sizes_) driver_.free(address);
  }
  Address allocate(uint64_t bytes) override {
    std::vector<Address>& idle = idle_[bytes];
    Address a = nullptr;
    if (memory_.move || idle.empty()) {
      a = driver_.allocate(bytes);
      sizes_[a] = bytes;
    } else {
      a = idle.back();
      idle.pop_back();
    }
    memory_.add(bytes);
    return a;
  }
  void free(Address address) override {
    memory_.live -= sizes_.at(address);
    idle_[sizes_.at(address)].push_back(address);
  }
  cuda::Stream stream() override { return stream_; }
  std::unique_ptr<cuda::GraphCapture> begin_capture(bool lasting) override {
    memory_.lasting.push_back(lasting);
    return std::make_unique<RecorderCapture>(recorder_);
  }

 private:
  RecordingDriver& recorder_;
  cuda::DriverOwner driver_;
  cuda::Stream& stream_;
  Memory& memory_;
  std::map<uint64_t, std::vector<Address>> idle_;
  std::map<Address, uint64_t> sizes_;
};

// mm doubles its first operand, into the result; convolution does so in memory of its own.
class LibraryHost final : public CountingHost {
 public:
  LibraryHost(RecordingDriver& recorder, Memory& memory) : recorder_(recorder), memory_(memory) {}
  HostTensor allocate_output(size_t bytes) override {
    memory_.add(bytes);
    HostTensor t = CountingHost::allocate_output(bytes);
    t.owner = std::shared_ptr<void>(
        t.data, [this, bytes, owner = t.owner](void*) { memory_.live -= bytes; });
    return t;
  }
  void library_call(program::LibraryOp, std::span<const TensorRef> in,
                    std::span<const TensorRef> outs, std::span<const int64_t>,
                    std::span<const double>) override {
    queue(in[0], static_cast<int64_t*>(outs[0].data));
  }
  void library_call_owned(program::LibraryOp, std::span<const TensorRef> in,
                          std::span<HostTensor> outs, std::span<const int64_t>,
                          std::span<const double>) override {
    auto* data =
        static_cast<int64_t*>(MallocHost::allocate(static_cast<size_t>(in[0].sizes[0]) * 8));
    outs[0].data = data;
    // What a capture took stays: the graph's pool keeps it.
    pool_.emplace_back(data, &std::free);
    outs[0].owner = std::shared_ptr<void>(data, [](void*) {});
    queue(in[0], data);
  }
  int calls = 0;
  bool fails_in_captures = false;

 private:
  void queue(const TensorRef& in, int64_t* to) {
    ++calls;
    const auto* from = static_cast<const int64_t*>(in.data);
    const int64_t n = in.sizes[0];
    const auto work = [from, to, n] {
      for (int64_t i = 0; i < n; ++i) to[i] = 2 * from[i];
    };
    if (!recorder_.queue(work)) return work();
    if (fails_in_captures) throw DeviceError("not in a capture");
  }
  RecordingDriver& recorder_;
  Memory& memory_;
  std::vector<std::unique_ptr<void, void (*)(void*)>> pool_;
};

inline constexpr int64_t kSize = 4;

inline program::Launch product(program::LibraryOp op, uint32_t from, uint32_t to) {
  return {program::LibraryLaunch{op, {ViewId(from)}, {ViewId(to)}, {}, {}}, {}};
}

inline program::Buffer fixed(BufferClass cls, uint32_t index, uint32_t first, uint32_t last,
                             int64_t n) {
  return {cls, index, DType::I64, 8 * n, first, last, {}};
}

inline program::Launch plus_one(uint32_t from, uint32_t to, int64_t n) {
  program::KernelLaunch k{KernelId(0), {{BufferId(from), 0}, {BufferId(to), 0}}, {Dim(1)}};
  k.grid[0] = n;
  return {k, {}};
}

// y = conv(mm(x + 1) + 1) + 1 over n numbers, and mm of the second argument where `of_argument`.
inline Program around_products(bool of_argument, int64_t n = kSize) {
  Program p;
  p.name = "around_products";
  p.args = {vector_of(n), vector_of(n)};
  p.buffers = {fixed(BufferClass::Input, 0, 0, 0, n), fixed(BufferClass::Input, 1, 1, 1, n),
               fixed(BufferClass::Arena, 0, 0, 1, n), fixed(BufferClass::Arena, 0, 1, 2, n),
               fixed(BufferClass::Arena, 0, 2, 3, n), fixed(BufferClass::Owned, 0, 3, 4, n),
               fixed(BufferClass::Output, 0, 4, 4, n)};
  for (uint32_t b = 0; b < p.buffers.size(); ++b)
    p.views.push_back({BufferId(b), DType::I64, {n}, {1}, 0});
  const std::string kir = testing::add_meta_kir();
  p.kernels = {{"add_meta", kir, content_hash(kir), 2, 1}};
  p.segments = {{program::SegmentKind::Replayable,
                 {plus_one(0, 2, n), product(program::LibraryOp::mm, of_argument ? 1 : 2, 3),
                  plus_one(3, 4, n)}},
                {program::SegmentKind::Live, {product(program::LibraryOp::convolution, 4, 5)}},
                {program::SegmentKind::Replayable, {plus_one(5, 6, n)}}};
  p.results = {program::ResultView{ViewId(6)}};
  return p;
}

}  // namespace poot::runtime
