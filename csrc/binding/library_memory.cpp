// A block tells by its address whether it was lent: the thread that frees it usually borrowed it;
// else all loans of the process are searched, of which there are few, and mostly none.

#include "binding/library_memory.h"

#include <c10/core/Allocator.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace poot::binding {
namespace {

using runtime::CallMemory;

// Never destroyed, since tensors may outlive everything else.
struct Loans {
  std::mutex mutex;
  std::vector<std::shared_ptr<CallMemory>> all;  // and those that never came back
  std::atomic<size_t> count{0};
};

Loans& loans() {
  static Loans& l = *[] {
    auto* made = new Loans;
    pthread_atfork([] { loans().mutex.lock(); }, [] { loans().mutex.unlock(); },
                   [] { loans().mutex.unlock(); });
    return made;
  }();
  return l;
}

thread_local CallMemory* borrowed = nullptr;

bool give_back(const void* p) noexcept {
  if (borrowed && borrowed->give(p)) return true;
  Loans& l = loans();
  if (l.count == 0) return false;
  const std::lock_guard lock(l.mutex);
  return std::any_of(l.all.begin(), l.all.end(), [p](const auto& m) { return m->give(p); });
}

class LendingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (borrowed) [[unlikely]]
      if (void* p = borrowed->take(bytes))
        return {p, p, [](void* block) { give_back(block); }, c10::Device(c10::DeviceType::CPU)};
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
    if (!give_back(p)) instance().own_->raw_deleter()(p);
  }
  c10::Allocator* const own_;  // torch's, or what was installed before
};

}  // namespace

void install_library_memory() {
  static const bool once = [] {
    loans();
    c10::SetAllocator(c10::DeviceType::CPU, &LendingAllocator::instance());
    return true;
  }();
  static_cast<void>(once);
}

void lend_to_libraries(const std::shared_ptr<CallMemory>& memory) {
  Loans& l = loans();
  {
    const std::lock_guard lock(l.mutex);
    l.all.push_back(memory);
    l.count = l.all.size();
  }
  memory->outer = std::exchange(borrowed, memory.get());
}

bool settle_with_libraries(const std::shared_ptr<CallMemory>& memory) noexcept {
  borrowed = memory->outer;
  memory->close();
  Loans& l = loans();
  const std::lock_guard lock(l.mutex);
  if (memory->taken() != 0) return false;
  l.all.erase(std::find(l.all.begin(), l.all.end(), memory));
  l.count = l.all.size();
  return true;
}

OwnMemory::OwnMemory() : lent_(std::exchange(borrowed, nullptr)) {}
OwnMemory::~OwnMemory() {
  borrowed = lent_;
}

}  // namespace poot::binding
