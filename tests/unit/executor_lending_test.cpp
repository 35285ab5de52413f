// Library calls that allocate from the run: where results come to lie, and what happens to a
// library that keeps memory.
#include <cstring>
#include <functional>

#include "executor_fixture.h"

namespace poot::runtime {
namespace {

// convolution doubles its input, as `library` says.
class LendingHost : public CountingHost {
 public:
  std::shared_ptr<void> make(size_t bytes) {
    if (memory)
      if (void* p = memory->take(bytes)) {
        ++served;
        return {p, [m = memory](void* block) { EXPECT_TRUE(m->give(block)); }};
      }
    ++forwarded;
    return {MallocHost::allocate(bytes), [](void* block) { std::free(block); }};
  }
  bool lend(const std::shared_ptr<CallMemory>& lent) override {
    memory = lent;
    ++loans;
    return true;
  }
  bool settle(const std::shared_ptr<CallMemory>& lent) noexcept override {
    EXPECT_EQ(lent, memory);
    memory = nullptr;
    if (lent->taken() == 0) return true;
    left_behind().push_back(lent);
    return false;
  }
  void library_call_owned(program::LibraryOp, std::span<const TensorRef> in,
                          std::span<HostTensor> outs, std::span<const int64_t>,
                          std::span<const double>) override {
    library(in[0], outs[0]);
  }
  static std::vector<std::shared_ptr<CallMemory>>& left_behind() {
    static auto& all = *new std::vector<std::shared_ptr<CallMemory>>;
    return all;
  }
  // 2 * in + add, in fresh memory.
  HostTensor twice(const TensorRef& in, int64_t add = 0) {
    const auto n = static_cast<size_t>(in.sizes[0]);
    HostTensor out;
    out.owner = make(n * 8);
    out.data = out.owner.get();
    out.sizes = {in.sizes[0]};
    out.strides = {1};
    auto* data = static_cast<int64_t*>(out.data);
    for (size_t i = 0; i < n; ++i) data[i] = 2 * static_cast<const int64_t*>(in.data)[i] + add;
    return out;
  }

  std::function<void(const TensorRef&, HostTensor&)> library = [this](const TensorRef& in,
                                                                      HostTensor& out) {
    const auto scratch = make(static_cast<size_t>(in.sizes[0]) * 4);
    std::memset(scratch.get(), 0xee, static_cast<size_t>(in.sizes[0]) * 4);
    out = twice(in);
  };
  std::shared_ptr<CallMemory> memory;
  int served = 0, forwarded = 0, loans = 0;
};

program::Launch convolution(uint32_t in, uint32_t out) {
  return {
      program::LibraryLaunch{program::LibraryOp::convolution, {ViewId(in)}, {ViewId(out)}, {}, {}},
      {}};
}

program::View vector_in(uint32_t b) {
  return {BufferId(b), DType::I64, {s0}, {1}, 0};
}

// a = x + 1; c = 2a; d = 2c; y = d + a: what the calls return dies in the run.
Program two_calls() {
  Program p = chain();
  p.buffers = {buffer(BufferClass::Input, 0, 0, 0), buffer(BufferClass::Arena, 0, 0, 4),
               buffer(BufferClass::Owned, 0, 1, 2), buffer(BufferClass::Owned, 0, 2, 3),
               buffer(BufferClass::Arena, 0, 3, 4), buffer(BufferClass::Output, 0, 4, 4)};
  p.views = {vector_in(5), vector_in(1), vector_in(2), vector_in(3)};
  p.segments = {{program::SegmentKind::Replayable, {add(0, 1, 1)}},
                {program::SegmentKind::Live, {convolution(1, 2), convolution(2, 3)}},
                {program::SegmentKind::Replayable, {add(3, 4, 5), add(4, 5, 7)}}};
  return p;
}

std::vector<int64_t> expected(int64_t n) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(4 * (i + 1) + 12);
  return out;
}

class LendingTest : public ::testing::TestWithParam<int64_t> {
 protected:
  std::unique_ptr<Executor> make(Program p) {
    return std::make_unique<Executor>(std::move(p),
                                      std::vector{Image::map(testing::add_meta_image())}, host_);
  }
  LendingHost host_;
};

// With 20,000 elements transients lie in the result's memory, with 100 in the arena.
INSTANTIATE_TEST_SUITE_P(Sizes, LendingTest, ::testing::Values(100, 20000));

TEST_P(LendingTest, ResultsAndScratchComeFromTheRun) {
  const auto e = make(two_calls());
  Vector x(GetParam());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call(*e, x), expected(GetParam()));
  EXPECT_EQ(host_.loans, 6);
  EXPECT_GE(host_.served, 3 * 3);
  EXPECT_LE(host_.allocations, 1) << "the arena, if there is one";
  EXPECT_TRUE(LendingHost::left_behind().empty());
}

TEST_P(LendingTest, ScratchOfTheResultsSizeMayTakeItsPlace) {
  host_.library = [this](const TensorRef& in, HostTensor& out) {
    const auto scratch = host_.make(static_cast<size_t>(in.sizes[0]) * 8);
    out = host_.twice(in);
  };
  const auto e = make(two_calls());
  Vector x(GetParam());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call(*e, x), expected(GetParam()));
}

TEST_P(LendingTest, AResultInsideALargerBlockIsMoved) {
  host_.library = [this](const TensorRef& in, HostTensor& out) {
    const HostTensor made = host_.twice(in);
    const auto bytes = static_cast<size_t>(in.sizes[0]) * 8;
    out.owner = host_.make(bytes + 64);
    out.data = static_cast<char*>(out.owner.get()) + 64;
    std::memcpy(out.data, made.data, bytes);
  };
  const auto e = make(two_calls());
  Vector x(GetParam());
  EXPECT_EQ(call(*e, x), expected(GetParam()));
}

// y = 2x for the caller, who keeps it.
TEST_P(LendingTest, WhatTheCallerGetsLiesInMemoryOfItsOwn) {
  Program p = two_calls();
  p.results.push_back(program::ResultView{ViewId(3)});
  p.buffers[3].last = 4;
  for (const bool scratch_first : {false, true}) {
    host_.library = [&](const TensorRef& in, HostTensor& out) {
      std::shared_ptr<void> scratch;
      if (scratch_first) scratch = host_.make(static_cast<size_t>(in.sizes[0]) * 8);
      out = host_.twice(in);
    };
    const auto e = make(p);
    Vector x(GetParam()), other(GetParam(), 5);
    const CallArg args[] = {x.arg()};
    std::vector<CallResult> results(3);
    e->run(args, results);
    ASSERT_NE(results[2].tensor.owner, nullptr);
    for (int i = 0; i < 3; ++i) call(*e, other);
    std::vector<int64_t> doubled;
    for (int64_t i = 0; i < GetParam(); ++i) doubled.push_back(4 * (i + 1));
    EXPECT_EQ(values(results[2]), doubled);
  }
}

// What the library still holds is written to after the call, and by nobody else.
TEST_P(LendingTest, MemoryThatALibraryKeepsIsLeftToIt) {
  std::vector<HostTensor> kept;
  host_.library = [&](const TensorRef& in, HostTensor& out) {
    const auto n = static_cast<size_t>(in.sizes[0]);
    for (HostTensor& t : kept) std::memset(t.data, 0x55, n * 4);
    HostTensor mine;
    mine.owner = host_.make(n * 4);
    mine.data = mine.owner.get();
    out = host_.twice(in);
    kept.push_back(std::move(mine));
  };
  const size_t before = LendingHost::left_behind().size();
  const auto e = make(two_calls());
  Vector x(GetParam());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(call(*e, x), expected(GetParam()));
    for (const HostTensor& t : kept) std::memset(t.data, 0xaa, static_cast<size_t>(GetParam()) * 4);
  }
  EXPECT_EQ(host_.loans, 1) << "the program lends no more";
  EXPECT_EQ(LendingHost::left_behind().size(), before + 1);
}

TEST_P(LendingTest, AResultThatALibraryKeepsIsLeftToIt) {
  std::vector<CallResult> kept;
  std::vector<std::vector<int64_t>> then;
  host_.library = [&](const TensorRef& in, HostTensor& out) {
    out = host_.twice(in);
    kept.push_back({out, 0});
    then.push_back(values(kept.back()));
  };
  const auto e = make(two_calls());
  Vector x(GetParam());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call(*e, x), expected(GetParam()));
  EXPECT_EQ(host_.loans, 1);
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(values(kept[i]), then[i]);
}

// y = 2(x + 1) + 4 but for its last 64, which leaves it too small for any transient, so that it
// lends nothing but gaps.
TEST_P(LendingTest, MemoryThatALibraryKeepsOfAnEmptyResultIsLeftToIt) {
  const Dim n = s0 - 64;
  Program p = chain();
  p.buffers = {buffer(BufferClass::Input, 0, 0, 0), buffer(BufferClass::Arena, 0, 0, 1),
               buffer(BufferClass::Owned, 0, 1, 2), buffer(BufferClass::Output, 0, 2, 2)};
  p.buffers[3].bytes = 8 * n;
  p.views = {{BufferId(3), DType::I64, {n}, {1}, 0}, vector_in(1), vector_in(2)};
  program::Launch last = add(2, 3, 4);
  std::get<program::KernelLaunch>(last.body).grid[0] = n;
  p.segments = {{program::SegmentKind::Replayable, {add(0, 1, 1)}},
                {program::SegmentKind::Live, {convolution(1, 2)}},
                {program::SegmentKind::Replayable, {last}}};
  p.results = {program::ResultView{ViewId(0)}};
  std::vector<HostTensor> kept;
  host_.library = [&](const TensorRef& in, HostTensor& out) {
    HostTensor mine;
    mine.owner = host_.make(static_cast<size_t>(in.sizes[0]) * 4);
    mine.data = mine.owner.get();
    out = host_.twice(in);
    kept.push_back(std::move(mine));
  };
  const auto e = make(p);
  Vector x(GetParam());
  const CallArg args[] = {x.arg()};
  std::vector<CallResult> results(1);
  e->run(args, results);
  const std::vector<int64_t> before = values(results[0]);
  EXPECT_EQ(before[5], 2 * (5 + 1) + 4);
  for (const HostTensor& t : kept) std::memset(t.data, 0x55, static_cast<size_t>(GetParam()) * 4);
  EXPECT_EQ(values(results[0]), before);
}

TEST_P(LendingTest, AFailedCallLeavesNothingBehind) {
  bool fails = true, keeps = false;
  std::shared_ptr<void> kept;
  host_.library = [&](const TensorRef& in, HostTensor& out) {
    const auto scratch = host_.make(static_cast<size_t>(in.sizes[0]) * 4);
    if (fails && keeps) kept = scratch;
    if (fails) throw DeviceError("no");
    out = host_.twice(in);
  };
  const auto e = make(two_calls());
  Vector x(GetParam());
  EXPECT_THROW(call(*e, x), DeviceError);
  fails = false;
  EXPECT_EQ(call(*e, x), expected(GetParam()));
  fails = keeps = true;
  EXPECT_THROW(call(*e, x), DeviceError);
  fails = false;
  const int loans = host_.loans;
  EXPECT_EQ(call(*e, x), expected(GetParam()));
  EXPECT_EQ(host_.loans, loans) << "the program lends no more";
}

TEST_P(LendingTest, AHostThatCannotLendReturnsItsOwn) {
  class Plain : public LendingHost {
    bool lend(const std::shared_ptr<CallMemory>&) override { return false; }
  } host;
  Executor e(two_calls(), std::vector{Image::map(testing::add_meta_image())}, host);
  Vector x(GetParam());
  EXPECT_EQ(call(e, x), expected(GetParam()));
  EXPECT_EQ(host.served, 0);
}

}  // namespace
}  // namespace poot::runtime
