#include "runtime/malloc_host.h"

#include <cstdlib>
#include <string>

#include "support/errors.h"

namespace poot::runtime {

void* MallocHost::allocate(size_t bytes) {
  void* p = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!p && bytes) throw DeviceError("out of memory: " + std::to_string(bytes) + " bytes");
  return p;
}

void MallocHost::free(void* p) {
  std::free(p);
}

HostTensor MallocHost::allocate_output(size_t bytes) {
  HostTensor t;
  t.data = allocate(bytes);
  t.owner = std::shared_ptr<void>(t.data, [](void* p) { std::free(p); });
  return t;
}

void MallocHost::parallel_for(uint32_t n, RangeFn fn, void* ctx) {
  fn(ctx, 0, n);
}

void MallocHost::library_call(program::LibraryOp op, std::span<const TensorRef>,
                              std::span<const TensorRef>, std::span<const int64_t>,
                              std::span<const double>) {
  throw Unsupported(std::string(program::library_info(op).name), "this host has no library");
}

void MallocHost::library_call_owned(program::LibraryOp op, std::span<const TensorRef>,
                                    std::span<HostTensor>, std::span<const int64_t>,
                                    std::span<const double>) {
  throw Unsupported(std::string(program::library_info(op).name), "this host has no library");
}

void MallocHost::opaque_call(uint32_t call, std::span<const TensorRef>, std::span<const int64_t>,
                             std::span<HostTensor>) {
  throw Unsupported("opaque call " + std::to_string(call), "this host has no dispatcher");
}

}  // namespace poot::runtime
