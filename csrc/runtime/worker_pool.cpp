#include "runtime/worker_pool.h"

#include <unistd.h>

#include <csignal>
#include <system_error>

namespace poot::runtime {

namespace {
constexpr int kToleratedKills = 4;  // of workers on one kernel
}

WorkerPool::WorkerPool(Options options)
    : options_(std::move(options)), slots_(std::max(1u, options_.workers)) {}

WorkerPool::~WorkerPool() {
  std::deque<Job> left;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    left.swap(queue_);
  }
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
  for (Job& job : left) job.done({false, "the kernel store was closed", 0, {}});
}

bool WorkerPool::add_thread() {
  if (threads_.size() >= slots_.size()) return false;
  Slot& slot = slots_[threads_.size()];
  try {
    threads_.emplace_back([this, &slot, warm = warm_] { run(slot, warm); });
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

void WorkerPool::start_all() {
  std::lock_guard lock(mutex_);
  warm_ = true;
  while (add_thread()) {
  }
}

void WorkerPool::submit(WorkerRequest request, Done done) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back({std::move(request), std::move(done)});
    if (idle_ < queue_.size()) add_thread();
    if (!threads_.empty()) {
      wake_.notify_one();
      return;
    }
    done = std::move(queue_.back().done);
    queue_.pop_back();
  }
  done({false, "no thread can be started for a worker", 0, {}});
}

bool WorkerPool::next_job(Job& job) {
  std::unique_lock lock(mutex_);
  ++idle_;
  wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
  --idle_;
  if (stopping_) return false;
  job = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

void WorkerPool::run(Slot& slot, bool warm) {
  // Signals are the host's business, and its handlers must not run here.
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_ptr<WorkerProcess> worker;
  if (warm) {
    try {
      ensure_worker(worker, slot);
    } catch (const std::exception&) {
      // The first request meets the same fault and reports it.
    }
  }
  Job job;
  while (next_job(job)) {
    CompileOutcome outcome;
    try {
      outcome = compile(job.request, worker, slot);
    } catch (const std::exception& e) {
      outcome = {false, e.what(), 0, {}};
    }
    job.done(std::move(outcome));
    job = {};
  }
  drop_worker(worker, slot);
}

void WorkerPool::ensure_worker(std::unique_ptr<WorkerProcess>& worker, Slot& slot) {
  if (worker) return;
  worker = WorkerProcess::start(options_.path, options_.build_id, options_.timeout, stopping_);
  slot.socket = worker->socket();
  slot.pid = worker->pid();
}

void WorkerPool::drop_worker(std::unique_ptr<WorkerProcess>& worker, Slot& slot) {
  slot.pid = -1;
  slot.socket = -1;
  worker.reset();
}

CompileOutcome WorkerPool::compile(const WorkerRequest& first,
                                   std::unique_ptr<WorkerProcess>& worker, Slot& slot) {
  WorkerRequest request = first;
  CompileOutcome out;
  int retries = 1, kills = kToleratedKills;
  while (true) {
    std::string error;
    int* left = nullptr;  // what another try at this level is charged to
    try {
      ensure_worker(worker, slot);
      WorkerReply reply = worker->ask(request, options_.timeout);
      if (reply.outcome == WorkerOutcome::Compiled) {
        out.ok = true;
        out.bytes = std::move(reply.bytes);
        out.opt_level = request.opt_level;
        return out;
      }
      error = std::move(reply.bytes);
      if (reply.outcome == WorkerOutcome::Refused) {
        out.bytes = error;
        return out;
      }
    } catch (const WorkerFault& f) {
      error = f.what();
      if (f.kind() == WorkerFault::Kind::TimedOut)
        ++timeouts_;
      else
        left = f.kind() == WorkerFault::Kind::Killed ? &kills : &retries;
      drop_worker(worker, slot);
      ++restarts_;
      if (f.kind() == WorkerFault::Kind::Missing)
        error += "; set POOT_KERNELC to the worker of this build, or reinstall";
      if (f.kind() == WorkerFault::Kind::Missing || stopping_) {
        out.bytes = error;
        return out;
      }
    }
    if (left && *left > 0) {
      --*left;
      out.events.push_back(error + "; kernel retried in a fresh worker");
    } else if (request.opt_level > 0) {
      request.opt_level = 0;
      out.events.push_back(error + "; kernel retried without optimisation");
    } else {
      out.bytes = error;
      return out;
    }
  }
}

std::vector<int> WorkerPool::pids() const {
  std::vector<int> live;
  for (const Slot& s : slots_)
    if (const int pid = s.pid; pid > 0) live.push_back(pid);
  return live;
}

void WorkerPool::abandon_after_fork() {
  for (Slot& s : slots_)
    if (const int fd = s.socket; fd >= 0) ::close(fd);
}

}  // namespace poot::runtime
