// The operations of library.def, run through ATen on operands of one device.
#pragma once

#include <c10/core/Device.h>

#include <span>

#include "runtime/host_services.h"

namespace poot::binding {

void call_library_out(program::LibraryOp op, std::span<const runtime::TensorRef> inputs,
                      std::span<const runtime::TensorRef> outs, std::span<const int64_t> ints,
                      std::span<const double> floats, c10::Device device);
void call_library(program::LibraryOp op, std::span<const runtime::TensorRef> inputs,
                  std::span<runtime::HostTensor> outs, std::span<const int64_t> ints,
                  std::span<const double> floats, c10::Device device);

}  // namespace poot::binding
