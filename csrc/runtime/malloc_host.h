// HostServices on plain malloc and the calling thread, for tools and tests: no framework, no
// library calls (they throw Unsupported).
#pragma once

#include "runtime/host_services.h"

namespace poot::runtime {

class MallocHost : public HostServices {
 public:
  void* allocate(size_t bytes) override;
  void free(void* p) override;
  HostTensor allocate_output(size_t bytes) override;
  void parallel_for(uint32_t n, RangeFn fn, void* ctx) override;
  uint32_t threads() const override { return 1; }
  void library_call(program::LibraryOp op, std::span<const TensorRef> inputs,
                    std::span<const TensorRef> outs, std::span<const int64_t> ints,
                    std::span<const double> floats) override;
  void library_call_owned(program::LibraryOp op, std::span<const TensorRef> inputs,
                          std::span<HostTensor> outs, std::span<const int64_t> ints,
                          std::span<const double> floats) override;
  void opaque_call(uint32_t call, std::span<const TensorRef> inputs,
                   std::span<const int64_t> symbols, std::span<HostTensor> outs) override;
};

}  // namespace poot::runtime
