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

// What the owner of a device's memory was asked for, and what it is told to do.
class CapturePool;
struct Memory {
  uint64_t live = 0, peak = 0;       // bytes, of the device and of results
  bool move = false;                 // freed memory is not given again
  CapturePool* capturing = nullptr;  // where library calls take their memory now
  int pools = 0;                     // made so far
  uint64_t taken = 0, held = 0;      // bytes of pools: ever taken anew, given out now
  void add(uint64_t bytes) { peak = std::max(peak, live += bytes); }
};

// As torch's pools: what was given up serves later captures.
class CapturePool final : public QueueMemory {
 public:
  explicit CapturePool(Memory& memory) : memory_(memory) { ++memory_.pools; }
  std::shared_ptr<void> take(size_t bytes) {
    std::vector<void*>& idle = (*idle_)[bytes];
    void* p = nullptr;
    if (idle.empty()) {
      p = blocks_.emplace_back(std::malloc(bytes), &std::free).get();
      memory_.taken += bytes;
    } else {
      p = idle.back();
      idle.pop_back();
    }
    memory_.held += bytes;
    return {p, [this, bytes, known = idle_](void* block) {
              memory_.held -= bytes;
              (*known)[bytes].push_back(block);
            }};
  }

 private:
  Memory& memory_;
  std::vector<std::unique_ptr<void, void (*)(void*)>> blocks_;
  std::shared_ptr<std::map<size_t, std::vector<void*>>> idle_ =
      std::make_shared<std::map<size_t, std::vector<void*>>>();
};

class RecorderScope final : public cuda::CaptureScope {
 public:
  RecorderScope(Memory& memory, CapturePool& pool) : memory_(memory) { memory_.capturing = &pool; }
  ~RecorderScope() override { memory_.capturing = nullptr; }
  cuda::Stream stream() override { return RecordingDriver::kCaptureStream; }

 private:
  Memory& memory_;
};

// Caches what is freed, as torch's allocator does: the same sizes come at the same addresses.
class CapturingOwner final : public cuda::Owner {
 public:
  CapturingOwner(RecordingDriver& recorder, cuda::Stream& stream, Memory& memory)
      : driver_(recorder.table()), stream_(stream), memory_(memory) {}
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
  std::shared_ptr<QueueMemory> capture_memory() override {
    if (auto pool = pools_[stream_].lock()) return pool;
    auto pool = std::make_shared<CapturePool>(memory_);
    pools_[stream_] = pool;
    return pool;
  }
  std::unique_ptr<cuda::CaptureScope> begin_capture(QueueMemory& pool) override {
    return std::make_unique<RecorderScope>(memory_, static_cast<CapturePool&>(pool));
  }

 private:
  cuda::DriverOwner driver_;
  cuda::Stream& stream_;
  Memory& memory_;
  std::map<uint64_t, std::vector<Address>> idle_;
  std::map<Address, uint64_t> sizes_;
  std::map<cuda::Stream, std::weak_ptr<CapturePool>> pools_;
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
    const size_t bytes = static_cast<size_t>(in[0].sizes[0]) * 8;
    outs[0].owner = memory_.capturing ? memory_.capturing->take(bytes) : own(bytes);
    outs[0].data = outs[0].owner.get();
    queue(in[0], static_cast<int64_t*>(outs[0].data));
  }
  void opaque_call(uint32_t, std::span<const TensorRef> in, std::span<const int64_t>,
                   std::span<HostTensor> outs) override {
    if (meanwhile) meanwhile();
    outs[0].owner = own(static_cast<size_t>(in[0].sizes[0]) * 8);
    outs[0].data = outs[0].owner.get();
  }
  std::function<void()> meanwhile;  // in opaque calls
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
  static std::shared_ptr<void> own(size_t bytes) { return {std::malloc(bytes), &std::free}; }
  RecordingDriver& recorder_;
  Memory& memory_;
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

inline Program of_buffers(std::vector<program::Buffer> buffers, uint32_t result, int64_t n) {
  Program p;
  p.args = {vector_of(n), vector_of(n)};
  p.buffers = std::move(buffers);
  for (uint32_t b = 0; b < p.buffers.size(); ++b)
    p.views.push_back({BufferId(b), DType::I64, {n}, {1}, 0});
  const std::string kir = testing::add_meta_kir();
  p.kernels = {{"add_meta", kir, content_hash(kir), 2, 1}};
  p.results = {program::ResultView{ViewId(result)}};
  return p;
}

// y = conv(mm(x + 1) + 1) + 1 over n numbers, and mm of the second argument where `of_argument`.
inline Program around_products(bool of_argument, int64_t n = kSize) {
  Program p = of_buffers(
      {fixed(BufferClass::Input, 0, 0, 0, n), fixed(BufferClass::Input, 1, 1, 1, n),
       fixed(BufferClass::Arena, 0, 0, 1, n), fixed(BufferClass::Arena, 0, 1, 2, n),
       fixed(BufferClass::Arena, 0, 2, 3, n), fixed(BufferClass::Owned, 0, 3, 4, n),
       fixed(BufferClass::Output, 0, 4, 4, n)},
      6, n);
  p.name = "around_products";
  p.segments = {{program::SegmentKind::Replayable,
                 {plus_one(0, 2, n), product(program::LibraryOp::mm, of_argument ? 1 : 2, 3),
                  plus_one(3, 4, n)}},
                {program::SegmentKind::Live, {product(program::LibraryOp::convolution, 4, 5)}},
                {program::SegmentKind::Replayable, {plus_one(5, 6, n)}}};
  return p;
}

// y = conv(x + 1) + 1, with an opaque call before the last addition: the convolution's result
// outlives the recording that it is made in.
inline Program around_a_call(int64_t n = kSize) {
  Program p = of_buffers(
      {fixed(BufferClass::Input, 0, 0, 0, n), fixed(BufferClass::Input, 1, 1, 1, n),
       fixed(BufferClass::Arena, 0, 0, 1, n), fixed(BufferClass::Owned, 0, 1, 3, n),
       fixed(BufferClass::Owned, 0, 2, 2, n), fixed(BufferClass::Output, 0, 3, 3, n)},
      5, n);
  p.name = "around_a_call";
  p.segments = {{program::SegmentKind::Replayable, {plus_one(0, 2, n)}},
                {program::SegmentKind::Live,
                 {product(program::LibraryOp::convolution, 2, 3),
                  {program::OpaqueLaunch{0, "test", {ViewId(3)}, {ViewId(4)}}, {}}}},
                {program::SegmentKind::Replayable, {plus_one(3, 5, n)}}};
  return p;
}

}  // namespace poot::runtime
