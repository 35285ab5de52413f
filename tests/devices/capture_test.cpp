// Library calls in replay, over the recording driver: a program of kernels around products whose
// library doubles what it is given.
#include <gtest/gtest.h>

#include "../unit/executor_fixture.h"
#include "recording_driver.h"
#include "runtime/cuda_device.h"

namespace poot::runtime {
namespace {

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

class CapturingOwner final : public cuda::Owner {
 public:
  CapturingOwner(RecordingDriver& recorder, cuda::Stream& stream)
      : recorder_(recorder), memory_(recorder.table()), stream_(stream) {}
  Address allocate(uint64_t bytes) override { return memory_.allocate(bytes); }
  void free(Address address) override { memory_.free(address); }
  cuda::Stream stream() override { return stream_; }
  std::unique_ptr<cuda::GraphCapture> begin_capture() override {
    return std::make_unique<RecorderCapture>(recorder_);
  }

 private:
  RecordingDriver& recorder_;
  cuda::DriverOwner memory_;
  cuda::Stream& stream_;
};

// mm doubles its first operand, into the result; convolution does so in memory of its own.
class LibraryHost final : public CountingHost {
 public:
  explicit LibraryHost(RecordingDriver& recorder) : recorder_(recorder) {}
  void library_call(program::LibraryOp, std::span<const TensorRef> in,
                    std::span<const TensorRef> outs, std::span<const int64_t>,
                    std::span<const double>) override {
    queue(in[0], static_cast<int64_t*>(outs[0].data));
  }
  void library_call_owned(program::LibraryOp, std::span<const TensorRef> in,
                          std::span<HostTensor> outs, std::span<const int64_t>,
                          std::span<const double>) override {
    auto* data = static_cast<int64_t*>(MallocHost::allocate(1024));
    outs[0].data = data;
    // What a capture took stays: the graph's pool keeps it.
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
};

constexpr int64_t kSize = 4;

program::Launch product(program::LibraryOp op, uint32_t from, uint32_t to) {
  return {program::LibraryLaunch{op, {ViewId(from)}, {ViewId(to)}, {}, {}}, {}};
}

program::Buffer fixed(BufferClass cls, uint32_t index, uint32_t first, uint32_t last) {
  return {cls, index, DType::I64, 8 * kSize, first, last, {}};
}

program::Launch plus_one(uint32_t from, uint32_t to) {
  program::KernelLaunch k{KernelId(0), {{BufferId(from), 0}, {BufferId(to), 0}}, {Dim(1)}};
  k.grid[0] = kSize;
  return {k, {}};
}

// y = conv(mm(x + 1) + 1) + 1, and mm of the second argument where `of_argument`.
Program around_products(bool of_argument) {
  Program p;
  p.name = "around_products";
  p.args = {vector_of(kSize), vector_of(kSize)};
  p.buffers = {fixed(BufferClass::Input, 0, 0, 0), fixed(BufferClass::Input, 1, 1, 1),
               fixed(BufferClass::Arena, 0, 0, 1), fixed(BufferClass::Arena, 0, 1, 2),
               fixed(BufferClass::Arena, 0, 2, 3), fixed(BufferClass::Owned, 0, 3, 4),
               fixed(BufferClass::Output, 0, 4, 4)};
  for (uint32_t b = 0; b < p.buffers.size(); ++b)
    p.views.push_back({BufferId(b), DType::I64, {kSize}, {1}, 0});
  const std::string kir = testing::add_meta_kir();
  p.kernels = {{"add_meta", kir, content_hash(kir), 2, 1}};
  p.segments = {
      {program::SegmentKind::Replayable,
       {plus_one(0, 2), product(program::LibraryOp::mm, of_argument ? 1 : 2, 3), plus_one(3, 4)}},
      {program::SegmentKind::Live, {product(program::LibraryOp::convolution, 4, 5)}},
      {program::SegmentKind::Replayable, {plus_one(5, 6)}}};
  p.results = {program::ResultView{ViewId(6)}};
  return p;
}

class Capture : public ::testing::Test {
 protected:
  std::unique_ptr<Executor> make(bool of_argument) {
    return std::make_unique<Executor>(around_products(of_argument),
                                      std::vector{device_.load(testing::add_meta_module())}, host_,
                                      device_, &device_);
  }
  // Calls, checks the values, and returns what the driver was asked for.
  std::vector<std::string> run(Executor& e, Vector& x, Vector& w, bool of_argument) {
    recorder_.clear();
    const CallArg args[] = {x.arg(), w.arg()};
    auto& results = kept_.emplace_back(1);  // so that each call's result lies elsewhere
    e.run(args, results);
    for (int64_t i = 0; i < kSize; ++i) {
      const int64_t product = 2 * (of_argument ? w.data[i] : x.data[i] + 1);
      EXPECT_EQ(values(results[0])[i], 2 * (product + 1) + 1);
    }
    return recorder_.calls();
  }

  std::vector<std::vector<CallResult>> kept_;
  RecordingDriver recorder_;
  cuda::Stream stream_ = nullptr;
  cuda::CudaDevice device_{recorder_.table(), 0,
                           std::make_unique<CapturingOwner>(recorder_, stream_)};
  LibraryHost host_{recorder_};
};

const std::string kNode = "grid 4x1x1 block 1 words 4";

TEST_F(Capture, TheThirdCallIsCapturedAndLaterOnesAreOneLaunch) {
  const auto e = make(false);
  Vector x(kSize), w(kSize), other(kSize, 7);
  const std::vector<std::string> by_step(3, "launch " + kNode);
  EXPECT_EQ(run(*e, x, w, false), by_step);
  EXPECT_EQ(run(*e, x, w, false), by_step);
  const std::vector<std::string> captured(3, "capture " + kNode);
  std::vector<std::string> third = run(*e, x, w, false);
  ASSERT_EQ(third.size(), 5u);
  EXPECT_TRUE(std::equal(captured.begin(), captured.end(), third.begin()));
  EXPECT_EQ(third[3], "graph_instantiate");
  EXPECT_EQ(third.back(), "graph_launch");
  const int calls = host_.calls;
  // The argument is read by a kernel alone: its node is patched, and the result's.
  for (Vector* v : {&other, &x})
    EXPECT_EQ(
        run(*e, *v, w, false),
        (std::vector<std::string>{"graph_set_kernel 0", "graph_set_kernel 4", "graph_launch"}));
  EXPECT_EQ(host_.calls, calls) << "the library is not called again";
}

TEST_F(Capture, AnArgumentThatMovesRunsByStep) {
  const auto e = make(true);
  Vector x(kSize), w(kSize), other(kSize, 7), third(kSize, 9);
  for (int i = 0; i < 4; ++i) run(*e, x, w, true);
  EXPECT_EQ(run(*e, x, w, true).back(), "graph_launch");
  const int calls = host_.calls;
  run(*e, x, other, true);
  EXPECT_EQ(host_.calls, calls + 2) << "both calls of the stretch";
  // Now the product is by step for good, and what follows it is captured.
  run(*e, x, third, true);
  const int after = host_.calls;
  const std::vector<std::string> later = run(*e, x, w, true);
  EXPECT_EQ(host_.calls, after + 1);
  EXPECT_EQ(later.front(), "launch " + kNode);
  EXPECT_EQ(later.back(), "graph_launch");
}

TEST_F(Capture, OtherQueuesAndTheHostsOwnCapturesRunByStep) {
  const auto e = make(false);
  Vector x(kSize), w(kSize);
  for (int i = 0; i < 4; ++i) run(*e, x, w, false);
  const std::vector<std::string> by_step(3, "launch " + kNode);
  stream_ = reinterpret_cast<cuda::Stream>(3);
  EXPECT_EQ(run(*e, x, w, false), by_step);
  stream_ = nullptr;
  recorder_.capturing = 1;
  EXPECT_EQ(run(*e, x, w, false), by_step);
  recorder_.capturing = 0;
  EXPECT_EQ(run(*e, x, w, false).back(), "graph_launch");
}

TEST_F(Capture, WhatCannotBeCapturedRunsByStep) {
  host_.fails_in_captures = true;
  const auto e = make(false);
  Vector x(kSize), w(kSize);
  for (int i = 0; i < 3; ++i) run(*e, x, w, false);
  EXPECT_EQ(run(*e, x, w, false), std::vector<std::string>(3, "launch " + kNode));
  host_.fails_in_captures = false;
  recorder_.fail("graph_instantiate", cuda::kOutOfMemory);
  const auto again = make(false);
  for (int i = 0; i < 3; ++i) {
    const CallArg args[] = {x.arg(), w.arg()};
    std::vector<CallResult> results(1);
    again->run(args, results);
    EXPECT_EQ(values(results[0])[0], 7);
  }
}

TEST_F(Capture, AFaultNamesTheKernelAtALaterCall) {
  Program p = around_products(false);
  std::get<program::KernelLaunch>(p.segments[2].launches[0].body).meta = {Dim(-1)};
  Executor e(std::move(p), {device_.load(testing::add_meta_module())}, host_, device_, &device_);
  Vector x(kSize), w(kSize);
  const CallArg args[] = {x.arg(), w.arg()};
  std::vector<CallResult> results(1);
  int faults = 0;
  for (int i = 0; i < 8; ++i) {
    try {
      e.run(args, results);
    } catch (const StatusError& error) {
      ++faults;
      EXPECT_NE(std::string(error.what()).find("kernel add_meta"), std::string::npos);
    }
  }
  EXPECT_GE(faults, 2);
}

}  // namespace
}  // namespace poot::runtime
