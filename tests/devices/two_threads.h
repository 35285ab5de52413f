// A host whose team is two threads, and which counts how often it is asked for it.
#pragma once

#include <thread>

#include "runtime/malloc_host.h"

namespace poot::testing {

class TwoThreads : public runtime::MallocHost {
 public:
  void parallel_for(uint32_t n, runtime::RangeFn fn, void* ctx) override {
    ++teams;
    std::thread other([&] { fn(ctx, 0, n / 2); });
    fn(ctx, n / 2, n);
    other.join();
  }
  uint32_t threads() const override { return 2; }
  int teams = 0;
};

}  // namespace poot::testing
