// Calls of hand-made programs: symbols, arenas, entries, what a call must look like, faults,
// threads.
#include "runtime/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "../devices/add_meta.h"
#include "program/kernel_abi.h"
#include "runtime/malloc_host.h"
#include "runtime/null_device.h"

namespace poot::runtime {
namespace {

using program::BufferClass;
using program::BufferId;
using program::KernelId;
using program::Program;
using program::ViewId;
using What = ArgumentMismatch::What;

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
    t.owner = std::shared_ptr<void>(t.data, [](void* p) { std::free(p); });
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
  std::atomic<int> allocations{0}, released{0};
};

const Dim s0 = Dim::symbol(0);

program::Launch add(uint32_t from, uint32_t to, const Dim& meta) {
  program::KernelLaunch k{KernelId(0), {{BufferId(from), 0}, {BufferId(to), 0}}, {meta}};
  k.grid[0] = s0;
  k.block_cost = 1;
  return {k, {}};
}

program::Buffer buffer(BufferClass cls, uint32_t index, uint32_t first, uint32_t last) {
  return {cls, index, DType::I64, 8 * s0, first, last, {}};
}

program::ArgTensor vector_of(const Dim& n, bool mutated = false) {
  return {DType::I64, {n}, {1}, mutated};
}

// y = x + (s0 - 8), three times over, through two arena buffers.
Program chain() {
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

std::vector<int64_t> values(const CallResult& r) {
  const auto* p = static_cast<const int64_t*>(r.tensor.data);
  return {p, p + r.tensor.sizes.at(0)};
}

std::vector<int64_t> call(Executor& e, Vector& x) {
  const CallArg args[] = {x.arg()};
  std::vector<CallResult> results(e.program().results.size());
  e.run(args, results);
  return values(results[0]);
}

class ExecutorTest : public ::testing::Test {
 protected:
  std::unique_ptr<Executor> make(Program p) {
    return std::make_unique<Executor>(std::move(p),
                                      std::vector{Image::map(testing::add_meta_image())}, host_);
  }
  What mismatch(Executor& e, std::vector<CallArg> args, uint32_t arg) {
    std::vector<CallResult> results(e.program().results.size());
    try {
      e.run(args, results);
    } catch (const ArgumentMismatch& m) {
      EXPECT_EQ(m.arg(), arg) << m.what();
      return m.what_kind();
    }
    ADD_FAILURE() << "accepted";
    return What::Kind;
  }
  CountingHost host_;
};

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

// arguments: x [s0], n = 2 * s0, y [s0] mutated: y = x + 1.
Program update() {
  Program p = chain();
  p.args = {vector_of(s0), program::ArgInt{2 * s0}, vector_of(s0, true)};
  p.buffers = {buffer(BufferClass::Input, 0, 0, 0), buffer(BufferClass::Input, 2, 0, 0)};
  p.views.clear();
  p.segments = {{program::SegmentKind::Replayable, {add(0, 1, 1)}}};
  p.results = {program::ResultArg{2}};
  return p;
}

TEST_F(ExecutorTest, MutatedArgumentsAreWrittenInPlace) {
  const auto e = make(update());
  Vector x(10, 5), y(10);
  CallArg n;
  n.integer = 20;
  const CallArg args[] = {x.arg(), n, y.arg()};
  CallResult results[1];
  e->run(args, results);
  EXPECT_EQ(y.data, Vector(10, 6).data);
}

TEST_F(ExecutorTest, MismatchesAreToldApartBeforeAnythingIsWritten) {
  const auto e = make(update());
  Vector x(10, 5), y(10);
  CallArg n;
  n.integer = 20;
  CallArg other = x.arg();
  other.tensor.dtype = DType::F32;
  EXPECT_EQ(mismatch(*e, {other, n, y.arg()}, 0), What::Dtype);
  Vector longer(11);
  EXPECT_EQ(mismatch(*e, {x.arg(), n, longer.arg()}, 2), What::Sizes);
  CallArg scalar = y.arg();
  scalar.tensor.sizes = scalar.tensor.strides = {};
  EXPECT_EQ(mismatch(*e, {x.arg(), n, scalar}, 2), What::Sizes);
  CallArg strided = y.arg();
  const int64_t two[] = {2};
  strided.tensor.strides = two;
  EXPECT_EQ(mismatch(*e, {x.arg(), n, strided}, 2), What::Strides);
  CallArg wrong = n;
  wrong.integer = 21;
  EXPECT_EQ(mismatch(*e, {x.arg(), wrong, y.arg()}, 1), What::Kind);
  EXPECT_EQ(mismatch(*e, {y.arg(), n, y.arg()}, 2), What::Overlap);
  Vector both(15);
  CallArg low = both.arg(), high = both.arg();
  low.tensor.sizes = high.tensor.sizes = x.sizes;
  high.tensor.data = both.data.data() + 5;
  EXPECT_EQ(mismatch(*e, {low, n, high}, 2), What::Overlap);
  EXPECT_EQ(both.data, Vector(15).data);
  EXPECT_EQ(y.data, Vector(10).data);
  CallResult results[1];
  EXPECT_THROW(e->run(std::vector<CallArg>{x.arg()}, results), InternalError);
}

TEST_F(ExecutorTest, WantedStridesFollowTheCall) {
  Program p = update();
  std::get<program::ArgTensor>(p.args[2]).strides = {2 * s0};
  const auto e = make(std::move(p));
  Vector x(10), y(10);
  const CallArg args[] = {x.arg(), {}, y.arg()};
  EXPECT_EQ(e->wanted_strides(args, 2), std::vector<int64_t>{20});
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
