#include "binding/library_memory.h"

#include <c10/core/Allocator.h>

#include "runtime/library_loans.h"

namespace poot::binding {
namespace {

class LendingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (void* p = runtime::loans::take(bytes)) [[unlikely]]
      return {p, p, [](void* block) { runtime::loans::give(block); },
              c10::Device(c10::DeviceType::CPU)};
    return own_->allocate(bytes);
  }
  // Of blocks that it handed on as well.
  c10::DeleterFnPtr raw_deleter() const override {
    return own_->raw_deleter() ? &LendingAllocator::free : nullptr;
  }
  bool is_simple_data_ptr(const c10::DataPtr& p) const override {
    return own_->is_simple_data_ptr(p);
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    own_->copy_data(to, from, bytes);
  }

  static LendingAllocator& instance() {
    static LendingAllocator& a = *new LendingAllocator;
    return a;
  }

 private:
  LendingAllocator() : own_(c10::GetAllocator(c10::DeviceType::CPU)) {}
  static void free(void* p) {
    if (!runtime::loans::give(p)) instance().own_->raw_deleter()(p);
  }
  c10::Allocator* const own_;  // torch's, or what was installed before
};

}  // namespace

void install_library_memory() {
  static const bool once = [] {
    c10::SetAllocator(c10::DeviceType::CPU, &LendingAllocator::instance());
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace poot::binding
