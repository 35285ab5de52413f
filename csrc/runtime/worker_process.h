// One poot-kernelc process and the socket to it. Owned and used by one thread.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "runtime/worker_protocol.h"
#include "support/errors.h"

namespace poot::runtime {

// The worker cannot be used any more; the kernel at hand may be innocent.
class WorkerFault : public Error {
 public:
  enum class Kind : uint8_t {
    Missing,   // no such binary
    Died,      // exited, crashed, or closed the socket
    Killed,    // by someone else (SIGKILL: a person, the system short of memory)
    TimedOut,  // did not answer in time
    Garbled,   // answered something else than a reply, or is another build
    Cancelled,
  };
  WorkerFault(Kind kind, const std::string& detail) : Error(detail), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

class WorkerProcess {
 public:
  using Milliseconds = std::chrono::milliseconds;
  // Starts the binary and waits for its hello. Throws WorkerFault. Setting `cancel`, which must
  // outlive the worker, ends every wait.
  static std::unique_ptr<WorkerProcess> start(const std::string& path, const std::string& build_id,
                                              Milliseconds timeout,
                                              const std::atomic<bool>& cancel);
  ~WorkerProcess();  // kills and reaps
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Throws WorkerFault; afterwards the process is good for nothing but destruction.
  WorkerReply ask(const WorkerRequest& request, Milliseconds timeout);
  int pid() const { return pid_; }
  int socket() const { return socket_; }

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  WorkerProcess(int pid, int socket, const std::atomic<bool>& cancel)
      : pid_(pid), socket_(socket), cancel_(cancel) {}
  void send(std::string_view bytes, Deadline deadline);
  std::string receive(Deadline deadline);
  void wait_for(short events, Deadline deadline);
  [[noreturn]] void fault(WorkerFault::Kind kind, const std::string& detail);

  int pid_ = -1;
  int socket_ = -1;
  const std::atomic<bool>& cancel_;
  FrameReader frames_;
};

}  // namespace poot::runtime
