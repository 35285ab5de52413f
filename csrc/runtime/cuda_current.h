// The device's context, current on this thread while the object lives. What ends things makes it
// current as far as that can be done, without an error.
#pragma once

#include <new>

#include "runtime/cuda_driver.h"

namespace poot::runtime::cuda {

class Current {
 public:
  Current(const Driver& driver, Context context) : driver_(driver) {
    Context now = nullptr;
    driver_.check(driver_.context_current(&now), "asking for the current context");
    if (now == context) return;
    driver_.check(driver_.context_push(context), "making the device current");
    pushed_ = true;
  }
  Current(const Driver& driver, Context context, std::nothrow_t) noexcept : driver_(driver) {
    Context now = nullptr;
    pushed_ =
        driver_.context_current(&now) == 0 && now != context && driver_.context_push(context) == 0;
  }
  ~Current() {
    Context popped = nullptr;
    if (pushed_) driver_.context_pop(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Driver& driver_;
  bool pushed_ = false;
};

}  // namespace poot::runtime::cuda
