// A block tells by its address whether it was lent: the thread that frees it usually took it; else
// all loans of the process are searched, of which there are few, and mostly none.

#include "runtime/library_loans.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace poot::runtime::loans {
namespace {

using Memory = std::shared_ptr<CallMemory>;

// Never destroyed, since what libraries keep may outlive everything else.
struct Loans {
  std::mutex mutex;
  std::vector<Memory> current;
  std::vector<Memory> left;  // settled, with something still in use
  std::atomic<size_t> count{0};

  void recount() { count = current.size() + left.size(); }
  // Around a fork: no thread is inside any of it.
  void lock() {
    mutex.lock();
    for (const auto* list : {&current, &left})
      for (const Memory& m : *list) m->lock();
  }
  void unlock() {
    for (const auto* list : {&current, &left})
      for (const Memory& m : *list) m->unlock();
    mutex.unlock();
  }
};

Loans& all() {
  static Loans& l = *[] {
    auto* made = new Loans;
    pthread_atfork([] { all().lock(); }, [] { all().unlock(); }, [] { all().unlock(); });
    return made;
  }();
  return l;
}

thread_local CallMemory* borrowed = nullptr;

}  // namespace

void lend(const Memory& memory) {
  Loans& l = all();
  {
    const std::lock_guard lock(l.mutex);
    l.left.reserve(l.left.size() + l.current.size() + 1);  // so that settling never allocates
    l.current.push_back(memory);
    l.recount();
  }
  memory->outer = std::exchange(borrowed, memory.get());
}

bool settle(const Memory& memory) noexcept {
  borrowed = memory->outer;
  memory->close();
  Loans& l = all();
  const std::lock_guard lock(l.mutex);
  l.current.erase(std::find(l.current.begin(), l.current.end(), memory));
  const bool back = memory->taken() == 0;
  if (!back) l.left.push_back(memory);
  l.recount();
  return back;
}

void* take(size_t bytes) {
  return borrowed ? borrowed->take(bytes) : nullptr;
}

bool give(const void* p) noexcept {
  if (borrowed && borrowed->give(p)) return true;
  Loans& l = all();
  if (l.count == 0) return false;
  Memory over;  // dies after the lock, since it owns memory that is freed by this very function
  const std::lock_guard lock(l.mutex);
  const auto mine = [p](const Memory& m) { return m->give(p); };
  if (std::any_of(l.current.begin(), l.current.end(), mine)) return true;
  const auto kept = std::find_if(l.left.begin(), l.left.end(), mine);
  if (kept == l.left.end()) return false;
  if ((*kept)->taken() == 0) {
    over = std::move(*kept);
    l.left.erase(kept);
    l.recount();
  }
  return true;
}

size_t count() {
  return all().count;
}

OwnMemory::OwnMemory() : lent_(std::exchange(borrowed, nullptr)) {}
OwnMemory::~OwnMemory() {
  borrowed = lent_;
}

}  // namespace poot::runtime::loans
