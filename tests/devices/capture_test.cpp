// Library calls in replay, over the recording driver.
#include "capture_fixture.h"

namespace poot::runtime {
namespace {

class Capture : public ::testing::Test {
 protected:
  std::unique_ptr<Executor> make(bool of_argument, int64_t n = kSize) {
    return make(around_products(of_argument, n));
  }
  std::unique_ptr<Executor> make(Program p) {
    return std::make_unique<Executor>(std::move(p),
                                      std::vector{device_.load(testing::add_meta_module())}, host_,
                                      device_, &device_);
  }
  // Calls, checks the values, and returns what the driver was asked for.
  std::vector<std::string> run(Executor& e, Vector& x, Vector& w, bool of_argument) {
    recorder_.clear();
    const CallArg args[] = {x.arg(), w.arg()};
    auto& results = kept_.emplace_back(1);  // so that each call's result lies elsewhere
    e.run(args, results);
    std::vector<int64_t> expected;
    for (int64_t i = 0; i < x.sizes[0]; ++i)
      expected.push_back(4 * (of_argument ? w.data[i] : x.data[i] + 1) + 3);
    EXPECT_EQ(values(results[0]), expected);
    return recorder_.calls();
  }

  Memory memory_;
  RecordingDriver recorder_;
  cuda::Stream stream_ = nullptr;
  cuda::CudaDevice device_{recorder_.table(), 0,
                           std::make_unique<CapturingOwner>(recorder_, stream_, memory_)};
  LibraryHost host_{recorder_, memory_};
  std::vector<std::vector<CallResult>> kept_;
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

TEST_F(Capture, ArenasGoBackBetweenCalls) {
  const auto e = make(false);
  Vector x(kSize), w(kSize);
  for (int i = 0; i < 6; ++i) {
    run(*e, x, w, false);
    kept_.clear();
    EXPECT_EQ(memory_.live, 0u);
  }
  EXPECT_EQ(run(*e, x, w, false).back(), "graph_launch");
}

TEST_F(Capture, AnArenaThatMovesIsKeptAndCapturedAnew) {
  const auto e = make(false);
  Vector x(kSize), w(kSize);
  for (int i = 0; i < 4; ++i) run(*e, x, w, false);
  const std::vector<std::string> by_step(3, "launch " + kNode);
  memory_.move = true;
  EXPECT_EQ(run(*e, x, w, false), by_step) << "once";
  std::vector<std::string> twice = run(*e, x, w, false);
  EXPECT_EQ(twice.front(), "graph_exec_destroy");
  twice.erase(twice.begin());
  EXPECT_EQ(twice, by_step) << "twice: this arena stays";
  run(*e, x, w, false);  // captures
  const int calls = host_.calls;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(*e, x, w, false).back(), "graph_launch");
  EXPECT_EQ(host_.calls, calls);
  kept_.clear();
  EXPECT_GT(memory_.live, 0u);
}

TEST_F(Capture, AnArenaThatSettlesElsewhereIsCapturedThere) {
  const auto e = make(false);
  Vector x(kSize), w(kSize);
  for (int i = 0; i < 4; ++i) run(*e, x, w, false);
  for (int round = 0; round < 3; ++round) {
    memory_.move = true;
    EXPECT_EQ(run(*e, x, w, false), std::vector<std::string>(3, "launch " + kNode));
    memory_.move = false;
    run(*e, x, w, false);  // captures
    const int calls = host_.calls;
    EXPECT_EQ(run(*e, x, w, false).back(), "graph_launch");
    EXPECT_EQ(host_.calls, calls);
    kept_.clear();
    EXPECT_EQ(memory_.live, 0u);
  }
}

// The result is written last: its memory need not be there beside the transients'.
TEST_F(Capture, LateResultsComeAfterTheArenaIsGivenBack) {
  const int64_t n = 1 << 18, bytes = 8 * n;
  const auto e = make(false, n);
  Vector x(n), w(n);
  for (int i = 0; i < 5; ++i) {
    kept_.clear();
    memory_.peak = 0;
    const std::vector<std::string> calls = run(*e, x, w, false);
    EXPECT_EQ(memory_.peak, 2u * bytes) << "two transients at once, then one result";
    if (i < 3) continue;
    EXPECT_EQ(calls[calls.size() - 2], "graph_launch");
    EXPECT_TRUE(calls.back().starts_with("launch ")) << "behind the graph: into the new result";
  }
  EXPECT_EQ(memory_.held, uint64_t{bytes}) << "the convolution's result is read later";
}

TEST_F(Capture, OfAQueueShareTheMemoryThatNothingReadsAfterThem) {
  Vector x(kSize), w(kSize);
  std::vector<std::unique_ptr<Executor>> executors;
  for (int n = 0; n < 3; ++n) {
    executors.push_back(make(false));
    for (int i = 0; i < 4; ++i) run(*executors.back(), x, w, false);
  }
  for (const auto& e : executors) EXPECT_EQ(run(*e, x, w, false).back(), "graph_launch");
  EXPECT_EQ(memory_.pools, 1);
  EXPECT_EQ(memory_.taken, 8u * kSize);
  EXPECT_EQ(memory_.held, 0u);
  stream_ = reinterpret_cast<cuda::Stream>(3);
  const auto other = make(false);
  for (int i = 0; i < 4; ++i) run(*other, x, w, false);
  EXPECT_EQ(memory_.pools, 2);
  executors.clear();
  stream_ = nullptr;
  const auto later = make(false);
  for (int i = 0; i < 4; ++i) run(*later, x, w, false);
  EXPECT_EQ(memory_.pools, 3) << "nobody held the first pool";
}

// What a recording leaves to later steps is written where an older recording has its scratch, which
// therefore does not run until it was read.
TEST_F(Capture, WhatOutlivesARecordingIsNotOverwritten) {
  Vector x(kSize), w(kSize), other(kSize, 50);
  const auto older = make(false), younger = make(false), outer = make(around_a_call());
  for (int i = 0; i < 4; ++i) run(*older, x, w, false);
  EXPECT_EQ(memory_.held, 0u);
  const auto call_outer = [&](bool within) {
    const CallArg args[] = {x.arg(), w.arg()};
    std::vector<CallResult> results(1);
    std::vector<std::string> inner;
    host_.meanwhile = [&] {
      if (within) inner = run(*older, other, w, false);
    };
    outer->run(args, results);
    for (int64_t i = 0; i < kSize; ++i) EXPECT_EQ(values(results[0])[i], 2 * (x.data[i] + 1) + 1);
    return inner;
  };
  for (int i = 0; i < 4; ++i) call_outer(false);
  EXPECT_EQ(memory_.held, 8u * kSize);
  EXPECT_EQ(memory_.taken, 8u * kSize) << "the older recording's scratch";
  EXPECT_EQ(call_outer(true), std::vector<std::string>(3, "launch " + kNode)) << "by step";
  EXPECT_EQ(run(*older, other, w, false).back(), "graph_launch") << "afterwards";
  for (int i = 0; i < 4; ++i) run(*younger, x, w, false);
  EXPECT_EQ(memory_.taken, 16u * kSize) << "the younger recording has scratch of its own";
}

TEST_F(Capture, MemoryIsUsedByOneAloneOrByMany) {
  CapturePool pool(memory_);
  {
    const auto first = pool.use(false), second = pool.use(false);
    EXPECT_TRUE(first && second);
    EXPECT_FALSE(pool.use(true));
  }
  auto alone = pool.use(true);
  EXPECT_TRUE(alone);
  EXPECT_FALSE(pool.use(true));
  EXPECT_FALSE(pool.use(false));
  const auto moved = std::move(alone);
  EXPECT_FALSE(pool.use(false));
  alone = {};
  EXPECT_FALSE(pool.use(false)) << "nothing was left to give up";
}

// y = mm(x + 1 + 1) + 1.
TEST_F(Capture, KernelsThatWaitBeginWhileTheOneBeforeEnds) {
  const auto calls_of = [&](const std::string& ptx) {
    Program p = of_buffers(
        {fixed(BufferClass::Input, 0, 0, 0, kSize), fixed(BufferClass::Input, 1, 1, 1, kSize),
         fixed(BufferClass::Arena, 0, 0, 1, kSize), fixed(BufferClass::Arena, 0, 1, 2, kSize),
         fixed(BufferClass::Arena, 0, 2, 3, kSize), fixed(BufferClass::Output, 0, 3, 3, kSize)},
        5, kSize);
    p.segments = {{program::SegmentKind::Replayable,
                   {plus_one(0, 2, kSize), plus_one(2, 3, kSize),
                    product(program::LibraryOp::mm, 3, 4), plus_one(4, 5, kSize)}}};
    Executor e(std::move(p), {device_.load(runtime::pack_gpu_module(ptx, {}))}, host_, device_,
               &device_);
    Vector x(kSize), w(kSize);
    const CallArg args[] = {x.arg(), w.arg()};
    std::vector<CallResult> results(1);
    for (int i = 0; i < 3; ++i) {
      recorder_.clear();
      e.run(args, results);
      EXPECT_EQ(values(results[0])[0], 2 * (x.data[0] + 2) + 1);
    }
    std::vector<std::string> calls = recorder_.calls();
    calls.resize(3);
    return calls;
  };
  const std::string plain = testing::add_meta_ptx(), waits = plain + "\n// griddepcontrol.wait";
  const std::string node = "capture " + kNode;
  EXPECT_EQ(calls_of(plain), std::vector<std::string>(3, node));
  EXPECT_EQ(calls_of(waits), (std::vector<std::string>{node, node + " early", node}))
      << "behind a kernel, not behind a library's work";
}

TEST_F(Capture, AFailedCaptureEnds) {
  host_.fails_in_captures = true;
  Vector x(kSize), w(kSize);
  {
    const auto e = make(false);
    for (int i = 0; i < 5; ++i) run(*e, x, w, false);
  }
  EXPECT_EQ(memory_.held, 0u);
  host_.fails_in_captures = false;
  const auto e = make(false);
  for (int i = 0; i < 3; ++i) run(*e, x, w, false);
  EXPECT_EQ(run(*e, x, w, false).back(), "graph_launch");
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
