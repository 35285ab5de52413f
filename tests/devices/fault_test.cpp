// Failures of the driver, one at a time, at every function that poot calls and in every phase of a
// program's life: a typed error or the right answer, and right answers afterwards.
#include "capture_fixture.h"
#include "runtime/gpu_module.h"

namespace poot::runtime {
namespace {

using cuda::CudaDevice;

const char* const kMembers[] = {
#define CUDA_FUNCTION(member, exported, params) #member,
#include "runtime/cuda_driver.def"
#undef CUDA_FUNCTION
};

// A device with a program that is captured at its third call.
class Life {
 public:
  explicit Life(RecordingDriver& recorder)
      : device_(recorder.table(), 0, std::make_unique<CapturingOwner>(recorder, stream_, memory_)),
        host_(recorder, memory_),
        executor_(around_products(false), {device_.load(testing::add_meta_module())}, host_,
                  device_, &device_) {}

  // Throws what the call throws; values that are wrong are failures of the test.
  void call(const std::string& where) {
    const CallArg args[] = {x_.arg(), w_.arg()};
    std::vector<CallResult> results(1);
    executor_.run(args, results);
    for (int64_t i = 0; i < kSize; ++i)
      EXPECT_EQ(values(results[0])[i], 2 * (2 * (x_.data[i] + 1) + 1) + 1) << where;
  }
  // What an executor does not ask for itself.
  void copy() {
    const Address a = device_.allocate(64);
    int64_t there[8] = {}, back[8] = {1, 2, 3};
    device_.copy(CopyKind::ToDevice, a, there, 64);
    device_.copy(CopyKind::OnDevice, a + 32, a, 32);
    device_.copy(CopyKind::FromDevice, back, a, 64);
    device_.wait(device_.event());
    EXPECT_EQ(back[0], 0);
    device_.free(a);
  }

 private:
  Memory memory_;
  cuda::Stream stream_ = nullptr;
  CudaDevice device_;
  LibraryHost host_;
  Executor executor_;
  Vector x_{kSize, 3}, w_{kSize};
};

// Runs `step`, in which the failure may show. Whether it did, as a DeviceError.
template <class F>
bool fails_typed(F&& step, const std::string& where) {
  try {
    step();
    return false;
  } catch (const DeviceError& e) {
    EXPECT_NE(std::string(e.what()).find("CUDA error"), std::string::npos) << where << e.what();
    return true;
  } catch (const std::exception& e) {
    ADD_FAILURE() << where << ": not a DeviceError: " << e.what();
    return true;
  }
}

class DriverFaults : public ::testing::TestWithParam<const char*> {
 protected:
  void TearDown() override { recorder_.clear(); }
  RecordingDriver recorder_;
};

TEST_P(DriverFaults, WhileTheDeviceIsMade) {
  recorder_.fail(GetParam(), cuda::kOutOfMemory);
  fails_typed([&] { recorder_.table().start(); }, "start");
  fails_typed([&] { Life life(recorder_); }, "making");
  recorder_.clear();
  Life life(recorder_);
  for (int i = 0; i < 5; ++i) life.call("later");
}

// By step, in the capturing call, in replays.
TEST_P(DriverFaults, InACall) {
  for (int at = 0; at < 6; ++at) {
    Life life(recorder_);
    const std::string where = std::string(GetParam()) + " fails in call " + std::to_string(at);
    for (int i = 0; i < at; ++i) life.call(where);
    recorder_.fail(GetParam(), at % 2 ? cuda::kIllegalAddress : cuda::kOutOfMemory);
    fails_typed([&] { life.call(where); }, where);
    recorder_.clear();
    for (int i = 0; i < 5; ++i) life.call(where + ", later");
  }
}

TEST_P(DriverFaults, InACopyAndWhileThingsEnd) {
  auto life = std::make_unique<Life>(recorder_);
  for (int i = 0; i < 4; ++i) life->call("before");
  recorder_.fail(GetParam(), cuda::kIllegalAddress);
  fails_typed([&] { life->copy(); }, "copy");
  recorder_.clear();
  life->copy();
  life->call("after");
  recorder_.fail(GetParam(), cuda::kIllegalAddress);
  life.reset();  // does not throw
}

INSTANTIATE_TEST_SUITE_P(All, DriverFaults, ::testing::ValuesIn(kMembers),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace poot::runtime
