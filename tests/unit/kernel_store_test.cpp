// The kernel store with a real worker: the three places a kernel can come from, and every way a
// worker can fail. Needs poot-kernelc; the layout of the build puts it beside the package.
#include "runtime/kernel_store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "source_dir.h"
#include "support/errors.h"

namespace poot::runtime {
namespace {

namespace fs = std::filesystem;

// y[0] = a constant.
std::string kernel(const std::string& name, uint32_t value = 7) {
  return "kernel @" + name +
         " x86 meta=0 threads=1 {\n  buffer %y i32 out\n  %0 = constant 0 i64\n  %1 = constant " +
         std::to_string(value) + " i32\n  store %y[%0, %1]\n}\n";
}

int run(const KernelArtifact& a) {
  int y = 0;
  void* buffers[] = {&y};
  uint32_t status = 0;
  const program::Args args{buffers, nullptr, &status, {1, 1, 1}};
  a.image->entry()(&args, 0, 1);
  return y;
}

class Store : public testing::Test {
 protected:
  void SetUp() override {
    const char* given = std::getenv("POOT_KERNELC");
    options_.worker_path = given ? given : source_dir() + "/poot_torch/bin/poot-kernelc";
    if (!fs::exists(options_.worker_path)) GTEST_SKIP() << "poot-kernelc was not built";
    char name[] = "/tmp/poot_store_test_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    options_.cache_directory = name;
    ::setenv("POOT_KERNELC_TEST_HOOK", "1", 1);
  }
  void TearDown() override {
    ::unsetenv("POOT_KERNELC_TEST_HOOK");
    if (!options_.cache_directory.empty()) fs::remove_all(options_.cache_directory);
  }
  static std::string error_of(const std::shared_future<KernelArtifact>& f) {
    try {
      f.get();
    } catch (const CompileError& e) {
      return e.what();
    }
    return "";
  }
  static std::string events_of(const KernelArtifact& a) {
    std::string all;
    for (const auto& e : a.events) all += e + "\n";
    return all;
  }
  const Target target_ = Target::parse("x86-64-v3");
  KernelStore::Options options_;
};

TEST_F(Store, CompilesThenMemoryThenDisk) {
  {
    KernelStore store(options_);
    const KernelArtifact a = store.get(kernel("k"), target_).get();
    EXPECT_EQ(run(a), 7);
    EXPECT_EQ(a.origin, KernelOrigin::Compiled);
    EXPECT_TRUE(a.events.empty());
    const KernelArtifact b = store.get(kernel("k"), target_).get();
    EXPECT_EQ(b.origin, KernelOrigin::Memory);
    EXPECT_EQ(b.image, a.image);
    EXPECT_EQ(store.stats().compiled, 1u);
    EXPECT_EQ(store.stats().memory, 1u);
  }
  // Another process's store, without any worker.
  options_.worker_path = "/nonexistent/poot-kernelc";
  KernelStore store(options_);
  const KernelArtifact c = store.get(kernel("k"), target_).get();
  EXPECT_EQ(c.origin, KernelOrigin::Disk);
  EXPECT_EQ(run(c), 7);
  EXPECT_EQ(store.stats().disk, 1u);
  EXPECT_TRUE(store.worker_pids().empty());
}

TEST_F(Store, TargetAndLevelArePartsOfTheKey) {
  KernelStore store(options_);
  store.get(kernel("k"), target_, 2).get();
  EXPECT_EQ(store.get(kernel("k"), target_, 0).get().origin, KernelOrigin::Compiled);
  EXPECT_EQ(store.get(kernel("k"), Target::host(), 2).get().origin, KernelOrigin::Compiled);
  EXPECT_EQ(store.get(kernel("k", 8), target_, 2).get().origin, KernelOrigin::Compiled);
}

TEST_F(Store, EqualRequestsInFlightShareOneCompile) {
  KernelStore store(options_);
  std::vector<std::shared_future<KernelArtifact>> all;
  for (int i = 0; i < 8; ++i) all.push_back(store.get(kernel("hook_slow"), target_));
  for (auto& f : all) EXPECT_EQ(run(f.get()), 7);
  EXPECT_EQ(store.stats().compiled, 1u);
}

TEST_F(Store, ManyKernelsFromManyThreads) {
  options_.workers = 2;
  KernelStore store(options_);
  store.warm_up();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (uint32_t i = 0; i < 12; ++i)
        if (run(store.get(kernel("k" + std::to_string(i), i), target_).get()) ==
            static_cast<int>(i))
          ++right;
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(right, 48);
  EXPECT_EQ(store.stats().compiled, 12u);
  EXPECT_LE(store.worker_pids().size(), 2u);
}

TEST_F(Store, MissingWorkerIsATypedErrorThatNamesIt) {
  options_.worker_path = "/nonexistent/poot-kernelc";
  KernelStore store(options_);
  store.warm_up();
  const std::string text = error_of(store.get(kernel("k"), target_));
  EXPECT_NE(text.find("/nonexistent/poot-kernelc"), std::string::npos) << text;
  EXPECT_NE(text.find("POOT_KERNELC"), std::string::npos) << text;
}

TEST_F(Store, WorkerOfAnotherBuildIsRefused) {
  const std::string fake = options_.cache_directory + "/fake";
  std::ofstream(fake) << "#!/bin/sh\nexec cat\n";
  ::chmod(fake.c_str(), 0700);
  options_.worker_path = fake;
  options_.timeout_seconds = 0.3;
  KernelStore store(options_);
  EXPECT_NE(error_of(store.get(kernel("k"), target_)), "");
}

TEST_F(Store, KilledMidCompileIsRetriedAndReported) {
  options_.workers = 1;
  KernelStore store(options_);
  auto f = store.get(kernel("hook_slow"), target_);
  while (store.worker_pids().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ASSERT_EQ(::kill(store.worker_pids()[0], SIGKILL), 0);
  const KernelArtifact a = f.get();
  EXPECT_EQ(run(a), 7);
  EXPECT_NE(events_of(a).find("died (signal 9)"), std::string::npos) << events_of(a);
  EXPECT_EQ(store.stats().worker_restarts, 1u);
}

TEST_F(Store, KilledAgainAndAgainIsStillCompiledAsAsked) {
  options_.workers = 1;
  KernelStore store(options_);
  auto f = store.get(kernel("hook_slow"), target_);
  int last = -1;
  for (int kills = 0; kills < 3;) {
    const std::vector<int> pids = store.worker_pids();
    if (pids.empty() || pids[0] == last) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    last = pids[0];
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_EQ(::kill(last, SIGKILL), 0);
    ++kills;
  }
  const KernelArtifact a = f.get();
  EXPECT_EQ(run(a), 7);
  EXPECT_EQ(a.events.size(), 3u);
  EXPECT_EQ(events_of(a).find("without optimisation"), std::string::npos) << events_of(a);
}

TEST_F(Store, KilledWhileIdleIsReplaced) {
  options_.workers = 1;
  KernelStore store(options_);
  store.get(kernel("k"), target_).get();
  ASSERT_EQ(::kill(store.worker_pids().at(0), SIGKILL), 0);
  EXPECT_EQ(run(store.get(kernel("l"), target_).get()), 7);
}

TEST_F(Store, CrashAtOneLevelFallsBackToLevelZero) {
  for (const char* name :
       {"hook_crash_optimized", "hook_fatal_optimized", "hook_garbage_optimized"}) {
    KernelStore store(options_);
    const KernelArtifact a = store.get(kernel(name), target_).get();
    EXPECT_EQ(run(a), 7) << name;
    EXPECT_NE(events_of(a).find("without optimisation"), std::string::npos) << events_of(a);
    // Not kept on disk: it is not what was asked for.
    KernelStore other(options_);
    EXPECT_EQ(other.get(kernel(name), target_).get().origin, KernelOrigin::Compiled);
  }
}

TEST_F(Store, CrashEverywhereIsACompileErrorWithReproducer) {
  KernelStore store(options_);
  auto f = store.get(kernel("hook_crash"), target_);
  try {
    f.get();
    FAIL() << "compiled";
  } catch (const CompileError& e) {
    EXPECT_EQ(e.reproducer(), kernel("hook_crash"));
    EXPECT_NE(std::string(e.what()).find("signal 6"), std::string::npos) << e.what();
  }
  EXPECT_EQ(store.stats().worker_restarts, 3u);
  EXPECT_EQ(run(store.get(kernel("k"), target_).get()), 7);  // the store goes on
}

TEST_F(Store, HangIsATimeout) {
  options_.timeout_seconds = 0.4;
  KernelStore store(options_);
  const KernelArtifact a = store.get(kernel("hook_hang_optimized"), target_).get();
  EXPECT_EQ(run(a), 7);
  EXPECT_NE(events_of(a).find("did not answer in time"), std::string::npos) << events_of(a);
  EXPECT_NE(error_of(store.get(kernel("hook_hang"), target_)).find("in time"), std::string::npos);
  EXPECT_EQ(store.stats().timeouts, 3u);
}

TEST_F(Store, GarbageIsNotTrusted) {
  KernelStore store(options_);
  EXPECT_NE(error_of(store.get(kernel("hook_garbage"), target_)), "");
}

TEST_F(Store, BadKernelsAreRefusedAtOnce) {
  KernelStore store(options_);
  const std::string text = error_of(store.get("kernel @x x86 {", target_));
  EXPECT_NE(text.find("kir-"), std::string::npos) << text;
  EXPECT_EQ(store.stats().worker_restarts, 0u);
  // A failure is not remembered as an answer.
  EXPECT_NE(error_of(store.get("kernel @x x86 {", target_)), "");
}

TEST_F(Store, DamagedCacheFileIsCompiledAnew) {
  KernelStore(options_).get(kernel("k"), target_).get();
  for (const auto& e : fs::directory_iterator(options_.cache_directory)) {
    std::fstream f(e.path(), std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(-3, std::ios::end);
    f.put('!');
  }
  KernelStore store(options_);
  const KernelArtifact a = store.get(kernel("k"), target_).get();
  EXPECT_EQ(a.origin, KernelOrigin::Compiled);
  EXPECT_EQ(run(a), 7);
  EXPECT_FALSE(store.take_events().empty());
  EXPECT_EQ(KernelStore(options_).get(kernel("k"), target_).get().origin, KernelOrigin::Disk);
}

TEST_F(Store, UnwritableCacheIsCountedAndHarmless) {
  KernelStore store(options_);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_FSIZE, &none);
    const bool right = run(store.get(kernel("k"), target_).get()) == 7;
    ::_exit(right && store.stats().cache_write_failures == 1 ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(Store, SafeAcrossFork) {
  KernelStore store(options_);
  const KernelArtifact before = store.get(kernel("k"), target_).get();
  auto pending = store.get(kernel("hook_slow"), target_);
  const pid_t child = ::fork();
  if (child == 0) {
    bool ok = error_of(pending).find("forked") != std::string::npos;
    ok = ok && store.get(kernel("k"), target_).get().origin == KernelOrigin::Memory;
    ok = ok && run(store.get(kernel("child", 3), target_).get()) == 3;
    ok = ok && run(store.get(kernel("hook_slow"), target_).get()) == 7;
    ::_exit(ok ? 0 : 1);
  }
  EXPECT_EQ(run(pending.get()), 7);
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(run(store.get(kernel("parent", 4), target_).get()), 4);
}

TEST_F(Store, WorkersEndWithTheirParent) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    KernelStore store(options_);
    store.get(kernel("k"), target_).get();
    const int pid = store.worker_pids().at(0);
    (void)!::write(fds[1], &pid, sizeof pid);
    ::raise(SIGKILL);
  }
  int worker = 0;
  ASSERT_EQ(::read(fds[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  ::waitpid(child, nullptr, 0);
  bool gone = false;
  for (int i = 0; i < 2000 && !gone; ++i) {
    // Gone, or a zombie that nobody reaps in this container.
    std::ifstream stat("/proc/" + std::to_string(worker) + "/stat");
    std::string text{std::istreambuf_iterator<char>(stat), {}};
    gone = text.empty() || text.find(") Z") != std::string::npos;
    if (!gone) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(gone);
  ::close(fds[0]);
  ::close(fds[1]);
}

TEST_F(Store, ClosingTheStoreFailsWhatIsInFlight) {
  std::shared_future<KernelArtifact> f;
  {
    KernelStore store(options_);
    f = store.get(kernel("hook_hang"), target_);
    while (store.worker_pids().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_NE(error_of(f), "");
}

}  // namespace
}  // namespace poot::runtime
