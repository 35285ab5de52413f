// What every device must do, whatever it runs kernels on.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "add_meta.h"
#include "program/kernel_abi.h"
#include "recording_driver.h"
#include "runtime/cpu_device.h"
#include "runtime/cuda_device.h"
#include "runtime/null_device.h"
#include "support/errors.h"
#include "two_threads.h"

namespace poot::runtime {
namespace {

using testing::add_meta_image;

struct Kind {
  const char* name;
  bool computes;
  std::unique_ptr<Device> (*make)(HostServices&);
  std::string (*kernel)() = add_meta_image;
};

std::unique_ptr<Device> cuda_device(const cuda::Driver& driver) {
  return std::make_unique<cuda::CudaDevice>(driver, 0, std::make_unique<cuda::DriverOwner>(driver));
}
std::unique_ptr<Device> recorded_cuda(HostServices&) {
  static testing::RecordingDriver recorder;
  return cuda_device(recorder.table());
}
std::unique_ptr<Device> real_cuda(HostServices&) {
  return cuda_device(cuda::Driver::get());
}
bool has_cuda() {
  try {
    cuda::Driver::get();
    return true;
  } catch (const DeviceError&) {
    return false;
  }
}

class DeviceConformance : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { device_ = GetParam().make(host_); }
  static std::string kernel() { return GetParam().kernel(); }

  // A device buffer of n words: start, start + 1, ...
  Address words(size_t n, int64_t start) {
    std::vector<int64_t> v(n);
    std::iota(v.begin(), v.end(), start);
    const Address a = device_->allocate(n * 8);
    device_->copy(CopyKind::ToDevice, a, v.data(), n * 8);
    return a;
  }
  std::vector<int64_t> read(Address a, size_t n) {
    std::vector<int64_t> v(n);
    device_->copy(CopyKind::FromDevice, v.data(), a, n * 8);
    device_->wait(device_->event());
    return v;
  }
  // What a kernel that adds `add` leaves: the sums, or where nothing runs what was there.
  std::vector<int64_t> expected(size_t n, int64_t start, int64_t add, int64_t before) const {
    std::vector<int64_t> v(n);
    std::iota(v.begin(), v.end(), GetParam().computes ? start + add : before);
    return v;
  }
  static DeviceLaunch add(ModuleId m, uint32_t from, uint32_t to, uint32_t n, int64_t meta) {
    return {m, {{from, 0, 8u * n}, {to, 0, 8u * n}}, {meta}, {n, 1, 1}, n};
  }
  static void refused(const std::function<void()>& f, const std::string& part) {
    try {
      f();
      ADD_FAILURE() << "accepted, expected: " << part;
    } catch (const DeviceError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  }

  testing::TwoThreads host_;
  std::unique_ptr<Device> device_;
  Fault fault_;
};

TEST_P(DeviceConformance, FactsAreSane) {
  const DeviceFacts& f = device_->facts();
  EXPECT_FALSE(f.name.empty());
  EXPECT_GE(f.alignment, 16u);
  EXPECT_EQ(f.alignment & (f.alignment - 1), 0u);
  EXPECT_GE(f.max_allocation, uint64_t{1} << 27);
  EXPECT_GE(f.max_binding, uint64_t{1} << 27);
  EXPECT_LE(f.max_binding, f.max_allocation);
  EXPECT_GE(f.max_slots, 1u << 12);
  EXPECT_GE(f.max_blocks, 65535u);
  EXPECT_GE(f.units, 1u);
}

TEST_P(DeviceConformance, MemoryIsAlignedApartAndKeepsItsContents) {
  std::vector<Address> all;
  for (const size_t n : {1, 3, 64, 1000, 100000}) all.push_back(words(n, static_cast<int64_t>(n)));
  size_t i = 0;
  for (const size_t n : {1, 3, 64, 1000, 100000}) {
    const Address a = all[i++];
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % device_->facts().alignment, 0u);
    std::vector<int64_t> want(n);
    std::iota(want.begin(), want.end(), static_cast<int64_t>(n));
    EXPECT_EQ(read(a, n), want);
    const Address b = device_->allocate(n * 8);
    device_->copy(CopyKind::OnDevice, b, a, n * 8);
    EXPECT_EQ(read(b, n), want);
    device_->free(b);
  }
  for (const Address a : all) device_->free(a);
}

TEST_P(DeviceConformance, EmptyAllocationsDiffer) {
  const Address a = device_->allocate(0), b = device_->allocate(0);
  EXPECT_NE(a, nullptr);
  EXPECT_NE(a, b);
  device_->copy(CopyKind::OnDevice, a, b, 0);
  device_->free(a);
  device_->free(b);
}

TEST_P(DeviceConformance, MemoryMisuseIsRefused) {
  const Address a = device_->allocate(64);
  char host[128] = {};
  refused([&] { device_->copy(CopyKind::ToDevice, a, host, 65); }, "no allocation");
  refused([&] { device_->copy(CopyKind::FromDevice, host, a + 60, 8); }, "no allocation");
  refused([&] { device_->copy(CopyKind::OnDevice, a, host, 8); }, "no allocation");
  refused([&] { device_->copy(CopyKind::ToDevice, a, nullptr, 8); }, "null");
  refused([&] { device_->free(a + 8); }, "not allocated");
  refused([&] { device_->free(nullptr); }, "not allocated");
  device_->free(a);
  refused([&] { device_->free(a); }, "not allocated");
  refused([&] { device_->copy(CopyKind::FromDevice, host, a, 8); }, "no allocation");
  refused([&] { device_->allocate(device_->facts().max_allocation + 1); }, "exceeds");
}

TEST_P(DeviceConformance, GarbageIsNoModule) {
  const std::string good = kernel();
  ASSERT_FALSE(good.empty());
  for (const std::string& bytes :
       {std::string(), std::string("garbage"), std::string(4096, '\x90'), good.substr(0, 100),
        good + "x", std::string("y") + good.substr(1)})
    EXPECT_THROW(device_->load(bytes), InvalidGraph);
  const ModuleId a = device_->load(good), b = device_->load(good);
  EXPECT_NE(a, b);
  device_->unload(a);
  EXPECT_NE(device_->load(good), a);
}

TEST_P(DeviceConformance, LaunchReadsAndWritesWhatIsBound) {
  const ModuleId m = device_->load(kernel());
  const Address x = words(100, 5), y = words(100, -100);
  device_->bind(0, x);
  device_->bind(7, y);
  device_->launch(add(m, 0, 7, 100, 1000), fault_);
  EXPECT_EQ(read(y, 100), expected(100, 5, 1000, -100));
  EXPECT_EQ(read(x, 100), read(words(100, 5), 100));
  EXPECT_EQ(fault_.bits, 0u);
  device_->unload(m);
}

TEST_P(DeviceConformance, ByteOffsetsMoveTheBuffers) {
  const ModuleId m = device_->load(kernel());
  const Address x = words(10, 0);
  device_->bind(0, x);
  device_->launch({m, {{0, 0, 24}, {0, 40, 24}}, {100}, {3, 1, 1}, 3}, fault_);
  std::vector<int64_t> want = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  if (GetParam().computes)
    for (const int i : {0, 1, 2}) want[5 + i] = 100 + i;
  EXPECT_EQ(read(x, 10), want);
}

TEST_P(DeviceConformance, LaunchMisuseIsRefused) {
  const ModuleId m = device_->load(kernel());
  const Address x = words(4, 0);
  auto launch = [&](const DeviceLaunch& l) { return [&, l] { device_->launch(l, fault_); }; };
  refused(launch(add(m, 0, 1, 4, 0)), "slot 0 ");
  device_->bind(0, x);
  refused(launch(add(m, 0, 1, 4, 0)), "slot 1 ");
  device_->bind(1, x);
  device_->bind(0, nullptr);
  refused(launch(add(m, 0, 1, 4, 0)), "slot 0 is not bound");
  device_->bind(0, x);
  refused(launch(add(ModuleId(999), 0, 1, 4, 0)), "not loaded");
  refused(launch(add(ModuleId(), 0, 1, 4, 0)), "not loaded");
  DeviceLaunch large = add(m, 0, 1, 4, 0);
  for (uint32_t& n : large.grid) n = UINT32_MAX;
  refused(launch(large), "blocks");
  large = add(m, 0, 1, 4, 0);
  large.buffers[0].bytes = device_->facts().max_binding + 1;
  refused(launch(large), "exceeds");
  large = add(m, 0, device_->facts().max_slots, 4, 0);
  refused(launch(large), "slot");
  refused([&] { device_->bind(device_->facts().max_slots, x); }, "slot");
  device_->unload(m);
  refused(launch(add(m, 0, 1, 4, 0)), "not loaded");
  refused([&] { device_->unload(m); }, "not loaded");
  refused([&] { device_->record(std::vector{add(m, 0, 1, 4, 0)}); }, "not loaded");
  EXPECT_EQ(read(x, 4), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST_P(DeviceConformance, EmptyGridsNeedNothing) {
  const ModuleId m = device_->load(kernel());
  device_->launch(add(m, 0, 1, 0, -1), fault_);
  const auto r = device_->record(std::vector{add(m, 0, 1, 0, -1)});
  device_->replay(*r, std::vector<Address>(2, nullptr), fault_);
  EXPECT_EQ(fault_.bits, 0u);
}

TEST_P(DeviceConformance, ReplayEqualsLaunchesInOrder) {
  const ModuleId m = device_->load(kernel());
  const Address x = words(50, 1), y = words(50, 0), z = words(50, 0);
  const std::vector<DeviceLaunch> launches = {add(m, 0, 1, 50, 10), add(m, 1, 2, 50, 20),
                                              add(m, 2, 1, 50, 30)};
  const auto r = device_->record(launches);
  EXPECT_EQ(read(y, 50), read(words(50, 0), 50)) << "recording runs nothing";
  device_->unload(m);  // the recording keeps it
  device_->replay(*r, std::vector{x, y, z}, fault_);
  EXPECT_EQ(read(z, 50), expected(50, 1, 30, 0));
  EXPECT_EQ(read(y, 50), expected(50, 1, 60, 0));
}

TEST_P(DeviceConformance, ReplayTouchesOnlyTheBuffersOfItsTable) {
  const ModuleId m = device_->load(kernel());
  const auto r = device_->record(std::vector{add(m, 0, 1, 20, 3)});
  const Address x1 = words(20, 0), y1 = words(20, 500), x2 = words(20, 40), y2 = words(20, 700);
  device_->bind(0, x1);  // the device's own table is not the replay's
  device_->bind(1, x1);
  device_->replay(*r, std::vector{x1, y1}, fault_);
  device_->replay(*r, std::vector{x2, y2}, fault_);
  EXPECT_EQ(read(x1, 20), read(words(20, 0), 20));
  EXPECT_EQ(read(x2, 20), read(words(20, 40), 20));
  EXPECT_EQ(read(y1, 20), expected(20, 0, 3, 500));
  EXPECT_EQ(read(y2, 20), expected(20, 40, 3, 700));
  const auto before = read(y1, 20);
  device_->replay(*r, std::vector{x1, y2}, fault_);
  EXPECT_EQ(read(y1, 20), before);
  EXPECT_EQ(read(y2, 20), expected(20, 0, 3, 700));
}

TEST_P(DeviceConformance, ReplayMisuseIsRefused) {
  const ModuleId m = device_->load(kernel());
  const Address x = words(4, 0);
  const auto r = device_->record(std::vector{add(m, 0, 1, 4, 7)});
  refused([&] { device_->replay(*r, std::vector{x}, fault_); }, "slot 1 ");
  refused([&] { device_->replay(*r, std::vector<Address>{x, nullptr}, fault_); }, "slot 1 ");
  refused([&] { device_->replay(*r, std::vector<Address>{}, fault_); }, "slot 0 ");
  const auto other = GetParam().make(host_);
  refused([&] { other->replay(*r, std::vector{x, x}, fault_); }, "another device");
  EXPECT_EQ(read(x, 4), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST_P(DeviceConformance, FaultsNameTheLaunch) {
  const ModuleId m = device_->load(kernel());
  const auto r = device_->record(std::vector{add(m, 0, 1, 4, 7), add(m, 0, 1, 4, -1)});
  const Address x = words(4, 0), y = words(4, 0);
  device_->replay(*r, std::vector{x, y}, fault_);
  device_->wait(device_->event());
  if (!GetParam().computes) {
    EXPECT_EQ(fault_.bits, 0u);
    return;
  }
  EXPECT_EQ(fault_.bits, program::kIndexOutOfRange);
  EXPECT_EQ(fault_.launch, 1u);
  Fault again;
  device_->bind(0, x);
  device_->bind(1, y);
  device_->launch(add(m, 0, 1, 4, -1), again);
  device_->wait(device_->event());
  EXPECT_EQ(again.bits, program::kIndexOutOfRange);
}

TEST_P(DeviceConformance, EventsAreOrdered) {
  const Event a = device_->event(), b = device_->event();
  EXPECT_LT(a, b);
  device_->wait(b);
  device_->wait(a);
  device_->wait(b);
  refused([&] { device_->wait(b + 1); }, "never made");
  refused([&] { device_->wait(0); }, "never made");
}

TEST_P(DeviceConformance, OneRecordingManyReplaysAtOnce) {
  const ModuleId m = device_->load(kernel());
  const auto r = device_->record(std::vector{add(m, 0, 1, 64, 1), add(m, 1, 2, 64, 2)});
  std::vector<std::thread> threads;
  std::vector<std::vector<int64_t>> got(3);
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      const Address x = words(64, 1000 * t), y = words(64, 0), z = words(64, 0);
      Fault fault;
      for (int i = 0; i < 200; ++i) device_->replay(*r, std::vector{x, y, z}, fault);
      got[t] = read(z, 64);
    });
  for (auto& t : threads) t.join();
  for (int t = 0; t < 3; ++t) EXPECT_EQ(got[t], expected(64, 1000 * t, 3, 0));
}

std::vector<Kind> kinds() {
  std::vector<Kind> all = {
      {"Null", false,
       [](HostServices&) -> std::unique_ptr<Device> { return std::make_unique<NullDevice>(); }},
      {"Cpu", true,
       [](HostServices& host) -> std::unique_ptr<Device> {
         return std::make_unique<CpuDevice>(host);
       }},
      {"RecordedCuda", true, recorded_cuda, testing::add_meta_module}};
  if (has_cuda()) all.push_back({"Cuda", true, real_cuda, testing::add_meta_module});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceConformance, ::testing::ValuesIn(kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace poot::runtime
