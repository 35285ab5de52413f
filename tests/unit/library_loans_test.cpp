// Loans of a process: by thread, nested, given back from other threads, late, and in a child.
#include "runtime/library_loans.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace poot::runtime {
namespace {

struct Lent {
  Lent() {
    memory->open();
    memory->add_gap(block, sizeof block);
    loans::lend(memory);
  }
  bool settle() const { return loans::settle(memory); }
  alignas(64) char block[1 << 12];
  std::shared_ptr<CallMemory> memory = std::make_shared<CallMemory>();
};

TEST(LibraryLoansTest, AThreadTakesWhatItsCallWasLent) {
  EXPECT_EQ(loans::take(64), nullptr);
  const Lent lent;
  std::thread([] { EXPECT_EQ(loans::take(64), nullptr); }).join();
  void* p = loans::take(64);
  EXPECT_EQ(p, lent.block);
  EXPECT_FALSE(loans::give(lent.block + 64));
  EXPECT_TRUE(loans::give(p));
  EXPECT_TRUE(lent.settle());
  EXPECT_EQ(loans::take(64), nullptr);
  EXPECT_EQ(loans::count(), 0u);
}

TEST(LibraryLoansTest, LoansNestAndAnOuterBlockMayComeBackInside) {
  const Lent outer;
  void* p = loans::take(64);
  {
    const Lent inner;
    EXPECT_EQ(loans::take(64), inner.block);
    EXPECT_TRUE(loans::give(p));
    EXPECT_TRUE(loans::give(inner.block));
    EXPECT_TRUE(inner.settle());
  }
  {
    const loans::OwnMemory own;
    EXPECT_EQ(loans::take(64), nullptr);
  }
  EXPECT_EQ(loans::take(64), outer.block);
  std::thread([&] { EXPECT_TRUE(loans::give(outer.block)); }).join();
  EXPECT_TRUE(outer.settle());
}

TEST(LibraryLoansTest, WhatWasKeptIsForgottenOnceAllOfItHasComeBack) {
  Lent lent;
  void *a = loans::take(64), *b = loans::take(64);
  EXPECT_FALSE(lent.settle());
  std::weak_ptr<void> owner;
  {
    const auto made = std::make_shared<int>();
    owner = made;
    lent.memory->keep(made);
  }
  std::weak_ptr<CallMemory> memory = lent.memory;
  lent.memory = nullptr;
  std::thread([&] { EXPECT_TRUE(loans::give(a)); }).join();
  EXPECT_EQ(loans::count(), 1u);
  EXPECT_FALSE(owner.expired());
  EXPECT_TRUE(loans::give(b));
  EXPECT_EQ(loans::count(), 0u);
  EXPECT_TRUE(memory.expired());
  EXPECT_TRUE(owner.expired());
}

// The owner of lent memory may itself be freed through give().
TEST(LibraryLoansTest, AnOwnerThatFreesLentMemoryDoesNotDeadlock) {
  Lent lent;
  void* p = loans::take(64);
  lent.memory->keep(std::shared_ptr<void>(nullptr, [](void*) { loans::give("no loan's"); }));
  EXPECT_FALSE(lent.settle());
  lent.memory = nullptr;
  const Lent other;
  EXPECT_TRUE(loans::give(p));
  EXPECT_TRUE(other.settle());
}

// 0 if the child ended well; it is killed after ten seconds.
int status_of_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    ::_exit(body() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(LibraryLoansTest, AChildGivesBackWhileOtherThreadsTake) {
  std::atomic<bool> stop{false};
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      const Lent lent;
      ++ready;
      while (!stop) EXPECT_TRUE(loans::give(loans::take(64)));
      EXPECT_TRUE(lent.settle());
    });
  while (ready < 2) std::this_thread::yield();
  int failed = 0;
  for (int i = 0; i < 50 && failed == 0; ++i)
    failed = status_of_child([] {
      if (loans::give("no loan's")) return false;
      const Lent own;
      void* p = loans::take(64);
      std::thread([p] { loans::give(p); }).join();
      return own.settle();
    });
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace poot::runtime
