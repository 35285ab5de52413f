// What is particular to one device, the pinned list of functions, and the committed image.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "../unit/golden.h"
#include "../unit/source_dir.h"
#include "add_meta.h"
#include "runtime/cpu_device.h"
#include "runtime/malloc_host.h"
#include "runtime/null_device.h"
#include "support/errors.h"
#include "two_threads.h"

namespace poot::runtime {
namespace {

using testing::add_meta_file;
using testing::add_meta_image;

TEST(CpuDevice, SmallLaunchesStayOnTheCallingThread) {
  testing::TwoThreads host;
  CpuDevice device(host);
  const ModuleId m = device.load(add_meta_image());
  std::vector<int64_t> x(1000, 1), y(1000, 0);
  const std::vector<Address> slots = {reinterpret_cast<Address>(x.data()),
                                      reinterpret_cast<Address>(y.data())};
  DeviceLaunch l{m, {{0, 0, 8000}, {1, 0, 8000}}, {1}, {1000, 1, 1}, 1000};
  Fault fault;
  device.replay(*device.record({&l, 1}), slots, fault);
  EXPECT_EQ(host.teams, 0);
  EXPECT_EQ(y, std::vector<int64_t>(1000, 2));
  l.cost = 1'000'000;
  l.meta = {2};
  device.replay(*device.record({&l, 1}), slots, fault);
  EXPECT_EQ(host.teams, 1);
  EXPECT_EQ(y, std::vector<int64_t>(1000, 3));
}

TEST(CpuDevice, ManyBuffersOfOneLaunch) {
  MallocHost host;
  CpuDevice device(host);
  // More buffers than the stack holds; the kernel reads the first two.
  int64_t x = 4, y = 0;
  std::vector<Address> slots = {reinterpret_cast<Address>(&x), reinterpret_cast<Address>(&y)};
  DeviceLaunch l{device.load(add_meta_image()), {}, {5}, {1, 1, 1}, 1};
  for (uint32_t i = 0; i < 500; ++i) l.buffers.push_back({i % 2, 0, 8});
  Fault fault;
  device.replay(*device.record({&l, 1}), slots, fault);
  EXPECT_EQ(y, 9);
}

TEST(NullDevice, RecordsWhatItAccepted) {
  NullDevice device;
  const ModuleId m = device.load(add_meta_image());
  const Address a = device.allocate(16);
  const DeviceLaunch l{m, {{0, 0, 16}, {1, 0, 16}}, {1}, {2, 1, 1}, 2};
  Fault fault;
  EXPECT_THROW(device.launch(l, fault), DeviceError);
  device.bind(0, a);
  device.bind(1, a);
  device.launch(l, fault);
  device.replay(*device.record({&l, 1}), std::vector{a, a}, fault);
  device.wait(device.event());
  device.free(a);
  EXPECT_EQ(device.calls(),
            (std::vector<std::string>{"load module 0", "allocate 16", "bind 0", "bind 1",
                                      "launch module 0 grid 2x1x1 slots 0 1", "record 1",
                                      "replay module 0 grid 2x1x1 slots 0 1", "event", "wait 1",
                                      "free"}));
}

// The signature that a function has is the one that is written down, or this does not compile.
#define SIGNATURE(function, ...)                                                        \
  [](std::ostream& out) {                                                               \
    static_assert(std::is_same_v<decltype(&Device::function), __VA_ARGS__>, #function); \
    out << #function << ": " << #__VA_ARGS__ << '\n';                                   \
  }

// Pinned: what a new device implements. A change here is a new kDeviceVersion.
TEST(Golden, Device) {
  constexpr void (*kFunctions[])(std::ostream&) = {
      SIGNATURE(facts, const DeviceFacts& (Device::*)() const),
      SIGNATURE(allocate, Address (Device::*)(uint64_t)),
      SIGNATURE(free, void (Device::*)(Address)),
      SIGNATURE(copy, void (Device::*)(CopyKind, void*, const void*, uint64_t)),
      SIGNATURE(load, ModuleId (Device::*)(std::string_view)),
      SIGNATURE(unload, void (Device::*)(ModuleId)),
      SIGNATURE(bind, void (Device::*)(uint32_t, Address)),
      SIGNATURE(launch, void (Device::*)(const DeviceLaunch&, Fault&)),
      SIGNATURE(record,
                std::unique_ptr<const Recording> (Device::*)(std::span<const DeviceLaunch>)),
      SIGNATURE(replay, void (Device::*)(const Recording&, std::span<const Address>, Fault&)),
      SIGNATURE(event, Event (Device::*)()),
      SIGNATURE(wait, void (Device::*)(Event)),
  };
  static_assert(std::size(kFunctions) <= 12, "a dozen functions at most");
  std::ostringstream text;
  text << "device interface version " << kDeviceVersion << '\n';
  for (const auto& f : kFunctions) f(text);
  const DeviceFacts facts{};
  const auto& [name, alignment, max_allocation, max_binding, max_slots, max_blocks, units,
               host_memory] = facts;  // a fact more or less does not compile
  text << "DeviceFacts: name alignment max_allocation max_binding max_slots max_blocks units "
          "host_memory\n";
  (void)name, (void)alignment, (void)max_allocation, (void)max_binding, (void)max_slots;
  (void)max_blocks, (void)units, (void)host_memory;
  testing::expect_golden("devices/device.golden", text.str());
}

// The committed image is what the worker makes of the text beside it.
TEST(Asset, AddMetaIsUpToDate) {
  const char* given = std::getenv("POOT_KERNELC");
  KernelStore::Options options;
  options.worker_path = given ? given : source_dir() + "/poot_torch/bin/poot-kernelc";
  if (!std::filesystem::exists(options.worker_path)) GTEST_SKIP() << "poot-kernelc was not built";
  KernelStore store(options);
  const KernelArtifact a = store.get(testing::add_meta_kir(), Target::parse("x86-64-v3"), 2).get();
  if (env::flag(env::Var::POOT_BLESS))
    std::ofstream(add_meta_file("x86-64-v3.image"), std::ios::binary) << a.bytes;
  EXPECT_TRUE(a.bytes == add_meta_image()) << "POOT_BLESS=1 rewrites the image";
}

}  // namespace
}  // namespace poot::runtime
