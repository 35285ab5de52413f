// Torch's part in captures of what torch and poot queue together.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "runtime/cuda_device.h"

namespace poot::binding {

// A pool of torch's allocator, one for each stream that anybody holds it for: here, the stream that
// is current. Throws DeviceError. This and begin_capture() take the GIL while Python is asked, no
// longer.
std::shared_ptr<runtime::QueueMemory> capture_pool(c10::Device device);

// Until the scope ends, a side stream of the device is torch's current one of this thread, and what
// the thread allocates comes from the pool. Throws DeviceError.
std::unique_ptr<runtime::cuda::CaptureScope> begin_capture(c10::Device device,
                                                           runtime::QueueMemory& pool);

}  // namespace poot::binding
