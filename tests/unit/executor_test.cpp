// Calls of hand-made programs: symbols, arenas, entries, faults, threads.
#include <thread>

#include "executor_fixture.h"
#include "program/kernel_abi.h"
#include "runtime/null_device.h"

namespace poot::runtime {
namespace {

TEST_F(ExecutorTest, RunsTheProgramForEverySize) {
  const auto e = make(chain());
  for (const int64_t n : {16, 3, 1, 16, 300}) {
    Vector x(n, 7);
    const CallArg args[] = {x.arg()};
    CallResult results[2];
    e->run(args, results);
    EXPECT_EQ(values(results[0]), Vector(n, 7 + 3 * (n - 8)).data);
    EXPECT_EQ(results[0].tensor.strides, std::vector<int64_t>{1});
    EXPECT_EQ(results[1].integer, 2 * n);
    EXPECT_EQ(x.data, Vector(n, 7).data);
  }
  EXPECT_EQ(e->entries(), 4u);
}

TEST_F(ExecutorTest, EmptyTensorsLaunchNothing) {
  const auto e = make(chain());
  Vector x(0);
  EXPECT_TRUE(call(*e, x).empty());
}

TEST_F(ExecutorTest, ResultsAreFreshMemory) {
  const auto e = make(chain());
  Vector x(10);
  const CallArg args[] = {x.arg()};
  CallResult a[2], b[2];
  e->run(args, a);
  e->run(args, b);
  EXPECT_NE(a[0].tensor.data, b[0].tensor.data);
  EXPECT_EQ(values(a[0]), values(b[0]));
}

TEST_F(ExecutorTest, TheArenaIsUsedAgain) {
  {
    const auto e = make(chain());
    Vector x(100);
    for (int i = 0; i < 20; ++i) call(*e, x);
    EXPECT_EQ(host_.allocations, 1);
    EXPECT_EQ(e->arena_bytes(), 2u * 832);  // 800 bytes each, in lines of 64
    Vector small(5);
    call(*e, small);
    EXPECT_EQ(host_.allocations, 1) << "smaller calls share the arena";
  }
  EXPECT_EQ(host_.live_bytes, 0u);
}

// The first transient is dead before the result is written, and large enough to lie in its memory.
TEST_F(ExecutorTest, ResultsLendTheirMemoryUntilTheyAreWritten) {
  const auto e = make(chain());
  Vector x(20000);
  EXPECT_EQ(call(*e, x), Vector(20000, 3 * (20000 - 8)).data);
  EXPECT_EQ(e->arena_bytes(), 20000u * 8);
}

TEST_F(ExecutorTest, LargeArenasGoBackAfterTheCall) {
  const auto e = make(chain());
  Vector small(100), large(200'000);
  call(*e, small);
  const size_t kept = host_.live_bytes;
  EXPECT_EQ(e->kept_bytes(), kept);
  EXPECT_EQ(call(*e, large), Vector(200'000, 3 * (200'000 - 8)).data);
  EXPECT_EQ(e->arena_bytes(), 200'000u * 8);
  EXPECT_EQ(host_.live_bytes, kept);
  const int before = host_.allocations;
  call(*e, small);
  EXPECT_EQ(host_.allocations, before) << "the small one is kept";
}

// Where the argument is given, two vectors live at once; where it is not, the result lends its
// memory to a transient.
TEST_F(ExecutorTest, GivenArgumentsAndTransientsLiveNoLongerThanTheyAreRead) {
  struct Gives final : Caller {
    void give_up(uint32_t arg) override {
      EXPECT_EQ(arg, 0u);
      ++given;
      owned = host.owned_bytes;
    }
    explicit Gives(const CountingHost& h) : host(h) {}
    const CountingHost& host;
    int given = 0;
    size_t owned = 0;
  };
  constexpr int64_t kMany = 200'000;
  for (const bool donated : {true, false}) {
    const auto e = make(chain(), {donated});
    Gives caller(host_);
    Vector x(kMany);
    const CallArg args[] = {x.arg()};
    host_.owned_peak = 0;
    {
      CallResult results[2];
      e->run(args, results, &caller);
      EXPECT_EQ(values(results[0]), Vector(kMany, 3 * (kMany - 8)).data);
      EXPECT_EQ(host_.owned_bytes, kMany * 8u) << "the result";
    }
    EXPECT_EQ(host_.owned_bytes, 0u);
    EXPECT_EQ(caller.given, donated ? 1 : 0);
    if (!donated) continue;
    EXPECT_EQ(caller.owned, kMany * 8u) << "one transient lives when the argument goes";
    EXPECT_EQ(host_.owned_peak, 2 * kMany * 8u);
    EXPECT_EQ(e->arena_bytes(), 0u);
    Vector few(100);
    EXPECT_EQ(call(*e, few), Vector(100, 3 * (100 - 8)).data);
  }
}

TEST_F(ExecutorTest, ManySizesKeepMemoryFlat) {
  const auto e = make(chain());
  Vector largest(1000);
  call(*e, largest);
  const size_t flat = host_.live_bytes;
  for (int64_t n = 1; n <= 150; ++n) {
    if (n == 7) continue;
    Vector x(n);
    EXPECT_EQ(call(*e, x), Vector(n, 3 * (n - 8)).data);
    EXPECT_LE(e->entries(), 64u);
    EXPECT_EQ(host_.live_bytes, flat);
  }
  // Growing sizes replace the arena and keep one.
  for (int64_t n = 2000; n <= 2050; ++n) {
    Vector x(n);
    call(*e, x);
    EXPECT_EQ(host_.live_bytes, e->arena_bytes());
  }
  EXPECT_EQ(e->entries(), 64u);
}

TEST_F(ExecutorTest, StatusWordBecomesStatusError) {
  const auto e = make(chain());
  Vector x(7);  // the metadata word is -1
  try {
    call(*e, x);
    FAIL() << "no error";
  } catch (const StatusError& s) {
    EXPECT_EQ(s.bits(), program::kIndexOutOfRange);
    EXPECT_NE(std::string(s.what()).find("add_meta"), std::string::npos);
  }
  const int before = host_.allocations;
  EXPECT_THROW(call(*e, x), StatusError);
  EXPECT_EQ(host_.allocations, before) << "the arena went back";
  Vector good(9);
  EXPECT_EQ(call(*e, good), Vector(9, 3).data);
}

// o = opaque(x); a = o + 1; y = a + 2: o dies before the last launch.
TEST_F(ExecutorTest, OwnedMemoryIsReleasedAfterItsLastUse) {
  Program p = chain();
  p.buffers = {buffer(BufferClass::Input, 0, 0, 0), buffer(BufferClass::Owned, 0, 0, 1),
               buffer(BufferClass::Arena, 0, 1, 2), buffer(BufferClass::Output, 0, 2, 2)};
  p.views = {{BufferId(3), DType::I64, {s0}, {1}, 0},
             {BufferId(0), DType::I64, {s0}, {1}, 0},
             {BufferId(1), DType::I64, {s0}, {1}, 0}};
  const program::OpaqueLaunch opaque{0, "test::twice", {ViewId(1)}, {ViewId(2)}};
  p.segments = {{program::SegmentKind::Live, {{opaque, {}}}},
                {program::SegmentKind::Replayable, {add(1, 2, 1), add(2, 3, 2)}}};
  {
    const auto e = make(p);
    Vector x(6);
    EXPECT_EQ(call(*e, x), (std::vector<int64_t>{3, 5, 7, 9, 11, 13}));
    EXPECT_EQ(host_.released, 1);
  }
  // On the null device the recordings show: the first ends where memory is released.
  NullDevice device;
  const ModuleId m = device.load(testing::add_meta_image());
  Executor e(p, {m}, host_, device);
  Vector x(6);
  call(e, x);
  call(e, x);
  std::vector<std::string> records, replays;
  for (const std::string& c : device.calls()) {
    if (c.starts_with("record")) records.push_back(c);
    if (c.starts_with("replay")) replays.push_back(c);
  }
  EXPECT_EQ(records, (std::vector<std::string>{"record 1", "record 1"}));
  EXPECT_EQ(replays.size(), 4u);
  EXPECT_EQ(replays[0], "replay module 0 grid 6x1x1 slots 1 2");
}

TEST_F(ExecutorTest, AnEntryIsRecordedOnce) {
  NullDevice device;
  const ModuleId m = device.load(testing::add_meta_image());
  {
    Executor e(chain(), {m}, host_, device);
    for (const int64_t n : {4, 4, 5, 4}) {
      Vector x(n);
      call(e, x);
    }
  }
  std::map<std::string, int> count;
  for (const std::string& c : device.calls()) ++count[c.substr(0, c.find(' '))];
  EXPECT_EQ(count["record"], 2);
  EXPECT_EQ(count["replay"], 4 * 3);
  EXPECT_EQ(count["allocate"], count["free"]);
}

TEST_F(ExecutorTest, CallsOfSeveralThreadsDoNotMeet) {
  {
    const auto e = make(chain());
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 300; ++i) {
          const int64_t n = 200 + (i % 3 == 0 ? t : 0);
          Vector x(n, 1000 * t + i);
          wrong += call(*e, x) != Vector(n, 1000 * t + i + 3 * (n - 8)).data;
        }
      });
    for (auto& t : threads) t.join();
    EXPECT_EQ(wrong, 0);
  }
  EXPECT_EQ(host_.live_bytes, 0u);
}

TEST_F(ExecutorTest, SizesThatCannotBeAreRefused) {
  Program p = chain();
  p.buffers[1].bytes = 8 * s0 - 80;
  auto e = make(p);
  Vector x(9);
  EXPECT_THROW(call(*e, x), DeviceError);
  p = chain();
  std::get<program::KernelLaunch>(p.segments[0].launches[0].body).grid[1] = Dim(INT64_C(1) << 31);
  e = make(p);
  EXPECT_THROW(call(*e, x), DeviceError);
}

}  // namespace
}  // namespace poot::runtime
