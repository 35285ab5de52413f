// CUDA through torch: devices of the process, one for each ordinal, whose memory is torch's caching
// allocator's and whose stream is torch's current one. Uses only interfaces of torch that every
// build of it has, so that the module compiles against a CPU build too.
#pragma once

#include <string>
#include <vector>

#include "runtime/cuda_device.h"

namespace poot::binding {

// Made at the first call for an ordinal, and never destroyed. Throws DeviceError.
runtime::cuda::CudaDevice& cuda_device(int ordinal);
// Lets the kernel store make machine code with nvJitLink: the one that torch has loaded, else one
// of these files. False if there is none, and the driver compiles.
bool link_with_nvjitlink(const std::vector<std::string>& paths);

}  // namespace poot::binding
