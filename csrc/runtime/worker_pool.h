// A few threads, each with its own worker process, taking compile requests from one queue.
//
// A request that fails for the worker's fault is tried again: once in a fresh worker, then at
// optimisation level 0; after a timeout or an error of LLVM's at level 0 at once; a few times more
// where somebody kills the workers, which tells nothing about the kernel. The pool itself never
// throws and never ends the process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/worker_process.h"

namespace poot::runtime {

struct CompileOutcome {
  bool ok = false;
  std::string bytes;                // the artifact, or what went wrong
  uint32_t opt_level = 0;           // at which it succeeded
  std::vector<std::string> events;  // on the way
};

class WorkerPool {
 public:
  struct Options {
    std::string path;      // of poot-kernelc
    std::string build_id;  // that it must have
    uint32_t workers = 1;
    std::chrono::milliseconds timeout{60'000};  // for one kernel
  };
  // Called on a pool thread; must not throw.
  using Done = std::function<void(CompileOutcome)>;

  explicit WorkerPool(Options options);
  ~WorkerPool();  // kills the workers; requests in the queue are answered with an error
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void submit(WorkerRequest request, Done done);
  void start_all();  // all threads and their workers, in the background
  std::vector<int> pids() const;
  uint64_t restarts() const { return restarts_; }
  uint64_t timeouts() const { return timeouts_; }
  // In a forked child, where the threads do not exist: closes the parent's sockets. The pool must
  // then be leaked.
  void abandon_after_fork();

 private:
  struct Job {
    WorkerRequest request;
    Done done;
  };
  // What others may read of a thread's worker without a lock.
  struct Slot {
    std::atomic<int> pid{-1}, socket{-1};
  };
  bool add_thread();  // with the mutex held
  void run(Slot& slot, bool warm);
  bool next_job(Job& job);
  CompileOutcome compile(const WorkerRequest& request, std::unique_ptr<WorkerProcess>& worker,
                         Slot& slot);
  void ensure_worker(std::unique_ptr<WorkerProcess>& worker, Slot& slot);
  void drop_worker(std::unique_ptr<WorkerProcess>& worker, Slot& slot);

  Options options_;
  std::vector<Slot> slots_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> queue_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool warm_ = false;
  std::atomic<bool> stopping_{false};  // set with the mutex held
  std::atomic<uint64_t> restarts_{0}, timeouts_{0};
};

}  // namespace poot::runtime
