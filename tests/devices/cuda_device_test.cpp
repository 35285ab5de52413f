// The CUDA device over the recording driver: what it asks of the driver, and how it fails. The
// conformance suite runs over the same driver and, where there is a GPU, over the real one.
#include <gtest/gtest.h>

#include <functional>

#include "add_meta.h"
#include "recording_driver.h"
#include "runtime/cuda_device.h"
#include "runtime/gpu_module.h"
#include "runtime/nvjitlink.h"
#include "support/errors.h"

namespace poot::runtime::cuda {
namespace {

using testing::add_meta_module;
using testing::RecordingDriver;

class Cuda : public ::testing::Test {
 protected:
  static std::string error_of(const std::function<void()>& f) {
    try {
      f();
    } catch (const DeviceError& e) {
      return e.what();
    }
    return "no error";
  }
  DeviceLaunch add(uint32_t from, uint32_t to, int64_t meta) {
    return {module_, {{from, 0, 32}, {to, 0, 32}}, {meta}, {4, 1, 1}, 4};
  }
  static size_t count(const std::vector<std::string>& calls, const std::string& start) {
    size_t n = 0;
    for (const std::string& c : calls) n += c.starts_with(start);
    return n;
  }

  RecordingDriver recorder_;
  std::unique_ptr<Owner> owner() const { return std::make_unique<DriverOwner>(recorder_.table()); }
  CudaDevice device_{recorder_.table(), 0, owner()};
  ModuleId module_ = device_.load(add_meta_module());
  Fault fault_;
};

TEST_F(Cuda, FactsAreTheDrivers) {
  EXPECT_EQ(device_.properties().name, "recorder");
  EXPECT_EQ(device_.facts().units, 132u);
  EXPECT_FALSE(device_.facts().host_memory);
  const Target t = target_of(device_.properties());
  EXPECT_EQ(t.cpu, "sm_90a");
  EXPECT_EQ(t.cores, 132u);
  EXPECT_EQ(t.shared_bytes, 227u << 10);
  EXPECT_EQ(t.overlapped_blocks, 4u * 132);
}

TEST_F(Cuda, EqualModulesAreLoadedOnce) {
  const ModuleId again = device_.load(add_meta_module());
  EXPECT_NE(again, module_);
  EXPECT_EQ(recorder_.calls(), std::vector<std::string>{"module_load"});
}

TEST_F(Cuda, AFewLaunchesGoToTheStream) {
  const Address a = device_.allocate(32);
  const auto r = device_.record(std::vector{add(0, 1, 5), add(1, 0, 6)});
  recorder_.clear();
  for (int i = 0; i < 3; ++i) device_.replay(*r, std::vector{a, a}, fault_);
  const std::string line = "launch grid 4x1x1 block 1 words 4";
  EXPECT_EQ(recorder_.calls(), std::vector<std::string>(6, line));
}

TEST_F(Cuda, ManyLaunchesBecomeAGraphAndOnlyWhatChangedIsPatched) {
  const Address a = device_.allocate(32), b = device_.allocate(32), c = device_.allocate(32);
  const auto r = device_.record(std::vector{add(0, 1, 1), add(1, 1, 2), add(1, 2, 3)});
  recorder_.clear();
  device_.replay(*r, std::vector{a, b, c}, fault_);
  EXPECT_EQ(count(recorder_.calls(), "launch"), 3u) << "the first replay may be the only one";
  recorder_.clear();
  device_.replay(*r, std::vector{a, b, c}, fault_);
  const std::string node = "graph_add_kernel grid 4x1x1 block 1 words 4";
  EXPECT_EQ(recorder_.calls(),
            (std::vector<std::string>{node, node, node, "graph_instantiate", "graph_launch"}));
  recorder_.clear();
  device_.replay(*r, std::vector{a, b, c}, fault_);
  device_.replay(*r, std::vector{a, b, a}, fault_);
  EXPECT_EQ(recorder_.calls(),
            (std::vector<std::string>{"graph_launch", "graph_set_kernel 2", "graph_launch"}));
  recorder_.clear();
  recorder_.capturing = 1;
  device_.replay(*r, std::vector{a, b, c}, fault_);
  EXPECT_EQ(count(recorder_.calls(), "launch"), 3u) << "the caller's capture takes launches";
}

TEST_F(Cuda, AFaultShowsInTheNextReplayWhichRunsNothing) {
  const Address a = device_.allocate(32);
  const auto r = device_.record(std::vector{add(0, 0, 1), add(0, 0, -1)});
  device_.replay(*r, std::vector{a}, fault_);
  EXPECT_EQ(fault_.bits, 0u);
  recorder_.clear();
  device_.replay(*r, std::vector{a}, fault_);
  EXPECT_EQ(fault_.bits, 1u);
  EXPECT_EQ(fault_.launch, 1u);
  EXPECT_TRUE(recorder_.calls().empty());
  fault_ = {};
  device_.replay(*r, std::vector{a}, fault_);
  EXPECT_EQ(fault_.bits, 0u) << "a fault is told once";
  EXPECT_EQ(recorder_.calls().size(), 2u);
}

TEST_F(Cuda, DriverErrorsAreTypedAndSayWhatToDo) {
  recorder_.fail("memory_allocate", kOutOfMemory);
  EXPECT_NE(error_of([&] { device_.allocate(64); })
                .find("out of memory: the device's memory is "
                      "exhausted"),
            std::string::npos);
  const Address a = device_.allocate(32);
  const auto r = device_.record(std::vector{add(0, 0, 1)});
  recorder_.fail("launch", kIllegalAddress);
  EXPECT_NE(
      error_of([&] { device_.replay(*r, std::vector{a}, fault_); }).find("launching a kernel"),
      std::string::npos);
  device_.replay(*r, std::vector{a}, fault_);
  recorder_.fail("module_load", kUnsupportedPtxVersion);
  std::string other = pack_gpu_module(testing::add_meta_ptx() + "\n", {});
  EXPECT_NE(error_of([&] { device_.load(other); }).find("install a newer NVIDIA driver"),
            std::string::npos);
  EXPECT_NE(error_of([&] { CudaDevice(recorder_.table(), 1, owner()); }).find("no such device"),
            std::string::npos);
  DeviceLaunch tall = add(0, 0, 1);
  tall.grid[1] = 65536;
  EXPECT_NE(error_of([&] { device_.record({&tall, 1}); }).find("65535"), std::string::npos);
  DeviceLaunch poor = add(0, 0, 1);
  poor.meta.clear();
  EXPECT_NE(error_of([&] { device_.record({&poor, 1}); }).find("4 parameters"), std::string::npos);
}

TEST_F(Cuda, DriversThatWillNotDo) {
  EXPECT_NE(
      error_of([] { Driver::open("libpoot_no_such_driver.so.1"); }).find("install the driver"),
      std::string::npos);
  EXPECT_NE(error_of([] { Driver::open("libm.so.6"); }).find("driver 525 or newer"),
            std::string::npos);
  recorder_.version = 11080;
  EXPECT_NE(error_of([&] { recorder_.table().start(); }).find("CUDA 11.8, poot needs 12.0"),
            std::string::npos);
  recorder_.version = 12000;
  recorder_.table().start();
  recorder_.fail("init", kNoDevice);
  EXPECT_NE(error_of([&] { recorder_.table().start(); }).find("no NVIDIA device"),
            std::string::npos);
  recorder_.capability = 70;
  EXPECT_NE(error_of([&] { CudaDevice(recorder_.table(), 0, owner()); }).find("capability 7.0"),
            std::string::npos);
}

// A device of its own for each ordinal: its own context, modules and memory.
TEST_F(Cuda, LaunchesRunInTheContextOfTheirDevice) {
  recorder_.devices = 2;
  CudaDevice second(recorder_.table(), 1, owner());
  recorder_.clear();
  const ModuleId there = second.load(add_meta_module());
  EXPECT_EQ(count(recorder_.calls(), "module_load"), 1u) << "modules are loaded for each device";
  const Address a = device_.allocate(32), b = second.allocate(32);
  DeviceLaunch l = add(0, 0, 1);
  const auto first_recording = device_.record(std::vector{l, l, l, l});
  l.module = there;
  const auto second_recording = second.record(std::vector{l, l, l, l});
  for (int i = 0; i < 3; ++i) {
    recorder_.clear();
    second.replay(*second_recording, std::vector{b}, fault_);
    device_.replay(*first_recording, std::vector{a}, fault_);
    const std::vector<Context> in = recorder_.launched_in();
    ASSERT_EQ(in.size(), i == 0 ? 8u : 2u) << "launches, then graphs";
    for (size_t k = 0; k < in.size(); ++k)
      EXPECT_EQ(in[k], reinterpret_cast<Context>(uintptr_t{k < in.size() / 2 ? 2u : 1u}));
    EXPECT_EQ(count(recorder_.calls(), "context_push"), count(recorder_.calls(), "context_pop"));
  }
  EXPECT_NE(error_of([&] {
              device_.replay(*second_recording, std::vector{a}, fault_);
            }).find("another device's"),
            std::string::npos);
}

TEST(GpuModule, KnowsWhatALaunchNeeds) {
  const std::string bytes = add_meta_module();
  const GpuModule m = parse_gpu_module(bytes);
  EXPECT_EQ(m.threads, 1u);
  EXPECT_EQ(m.words, 4u);
  EXPECT_EQ(m.code, GpuCode::Ptx);
  EXPECT_STREQ(m.entry, "poot_entry");
  EXPECT_EQ(m.bytes, std::string_view(testing::add_meta_ptx().c_str(), m.bytes.size()));
  EXPECT_EQ(parse_gpu_module(pack_gpu_module(testing::add_meta_ptx(), "cubin")).bytes, "cubin");
  EXPECT_FALSE(m.dependent);
  const std::string waits = pack_gpu_module(testing::add_meta_ptx() + "// griddepcontrol.wait", {});
  EXPECT_TRUE(parse_gpu_module(waits).dependent);
  EXPECT_THROW(pack_gpu_module("// nothing", {}), CompileError);
}

TEST(GpuModule, DamageIsRefused) {
  const auto constraint = [](const std::string& bytes) {
    try {
      parse_gpu_module(bytes);
    } catch (const InvalidGraph& e) {
      return e.constraint();
    }
    return std::string("none");
  };
  const std::string good = add_meta_module();
  EXPECT_EQ(constraint("short"), "module-C1");
  EXPECT_EQ(constraint(std::string(100, 'x')), "module-C1");
  EXPECT_EQ(constraint(good + "x"), "module-C1");
  std::string flipped = good;
  flipped.back() = 'x';
  EXPECT_EQ(constraint(flipped), "module-C2");
}

TEST(NvJitLink, IsAbsentWhereNothingOpens) {
  if (NvJitLink::open({})) GTEST_SKIP() << "this process has loaded nvJitLink";
  EXPECT_EQ(NvJitLink::open({"/nonexistent/libnvJitLink.so.13"}), nullptr);
}

}  // namespace
}  // namespace poot::runtime::cuda
