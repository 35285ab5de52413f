// Captures of what torch and poot queue together, through torch's own CUDAGraph: it routes memory
// that libraries take meanwhile to a pool of the graph's.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "runtime/cuda_device.h"

namespace poot::binding {

// Begins a capture on a side stream of the device, which is torch's current one of this thread
// until the capture ends. Throws DeviceError. The GIL is taken while Python is asked, no longer.
std::unique_ptr<runtime::cuda::GraphCapture> begin_capture(c10::Device device, bool lasting);

}  // namespace poot::binding
