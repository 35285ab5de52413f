// Symbols are looked up by their exported names, versions included, since the plain names of the
// library are those of its first release.
#include "runtime/cuda_driver.h"

#include <dlfcn.h>

#include "support/env.h"
#include "support/errors.h"

namespace poot::runtime::cuda {
namespace {

constexpr int kOldestVersion = 12000;  // CUDA 12.0, driver 525
constexpr int kOldestCapability = 75;
constexpr uint32_t kOverlappedBlocks =
    4;  // a multiprocessor, of a kernel that overlaps the one before it

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string advice(Status status) {
  switch (status) {
    case kOutOfMemory:
      return ": the device's memory is exhausted; use smaller sizes, or free what other processes "
             "hold";
    case kNotInitialized:
    case kNoDevice:
      return ": no NVIDIA device is visible; check nvidia-smi and CUDA_VISIBLE_DEVICES";
    case kInvalidDevice:
      return ": no such device; check CUDA_VISIBLE_DEVICES";
    case kNoBinaryForGpu:
    case kInvalidPtx:
    case kUnsupportedPtxVersion:
      return ": the driver does not take this code; install a newer NVIDIA driver";
    case kIllegalAddress:
      return ": a kernel accessed memory that is not its own; the process must be restarted";
    case kLaunchOutOfResources:
      return ": the kernel needs more registers or shared memory than a block may have";
    case kSystemDriverMismatch:
      return ": the driver and its library differ in version; restart the machine";
    default:
      return "";
  }
}

template <class F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  if (!function)
    throw DeviceError(std::string("the NVIDIA driver has no ") + name +
                      ": it is older than CUDA 12.0; install driver 525 or newer");
}

}  // namespace

Driver Driver::open(const char* library) {
  void* handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = ::dlerror();
    throw DeviceError(std::string("no NVIDIA driver: ") + library + " cannot be opened (" +
                      (why ? why : "no reason given") + "); install the driver of the GPU");
  }
  Driver d;
#define CUDA_FUNCTION(member, exported, params) find(handle, #exported, d.member);
#include "runtime/cuda_driver.def"
#undef CUDA_FUNCTION
  return d;
}

const Driver& Driver::get() {
  static const Driver driver = [] {
    Driver d = open("libcuda.so.1");
    d.start();
    return d;
  }();
  return driver;
}

void Driver::start() const {
  check(init(0), "starting the NVIDIA driver");
  int version = 0;
  check(driver_version(&version), "asking for the driver's version");
  if (version < kOldestVersion)
    throw DeviceError("the NVIDIA driver is for CUDA " + version_text(version) +
                      ", poot needs 12.0: install driver 525 or newer");
}

void Driver::fail(Status status, const std::string& what) const {
  const char* text = nullptr;
  if (error_string(status, &text) != 0 || !text) text = "unknown error";
  throw DeviceError(what + ": CUDA error " + std::to_string(status) + ", " + text + advice(status));
}

Properties properties(const Driver& driver, int ordinal) {
  const std::string where = "device cuda:" + std::to_string(ordinal);
  DeviceHandle device = 0;
  driver.check(driver.device_get(&device, ordinal), where);
  Properties p;
  char name[256] = {};
  driver.check(driver.device_name(name, sizeof name, device), where);
  p.name = name;
  const auto attribute = [&](int number) {
    int value = 0;
    driver.check(driver.device_attribute(&value, number, device), where);
    return value;
  };
  // Numbers of CUdevice_attribute.
  p.major = attribute(75);
  p.minor = attribute(76);
  p.multiprocessors = static_cast<uint32_t>(attribute(16));
  p.shared_bytes = static_cast<uint32_t>(attribute(97));
  p.l2_bytes = static_cast<uint64_t>(attribute(38));
  p.clock_khz = static_cast<uint32_t>(attribute(13));
  p.memory_clock_khz = static_cast<uint32_t>(attribute(36));
  p.memory_bus_bits = static_cast<uint32_t>(attribute(37));
  size_t bytes = 0;
  driver.check(driver.device_memory(&bytes, device), where);
  p.memory_bytes = bytes;
  if (p.major * 10 + p.minor < kOldestCapability)
    throw DeviceError(where + " (" + p.name + ") has compute capability " +
                      std::to_string(p.major) + "." + std::to_string(p.minor) + ", poot needs 7.5");
  return p;
}

Target target_of(const Properties& p) {
  Target t = Target::cuda(p.major, p.minor);
  t.shared_bytes = p.shared_bytes;
  t.cores = p.multiprocessors;
  t.cache_bytes = p.l2_bytes;
  if (t.clusters && env::flag(env::Var::POOT_DEPENDENT_LAUNCH))
    t.overlapped_blocks = kOverlappedBlocks * p.multiprocessors;
  return t;
}

}  // namespace poot::runtime::cuda
