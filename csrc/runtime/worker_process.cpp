// The worker gets one end of a socket pair as its standard input and output; the other end is
// close-on-exec. A socket rather than pipes, since a write to a dead worker must be an error
// (MSG_NOSIGNAL) and never a signal in the host's process.
#include "runtime/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

extern char** environ;

namespace poot::runtime {

namespace {

using Kind = WorkerFault::Kind;

constexpr int64_t kCancelPollMilliseconds = 50;

struct SpawnSettings {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

  explicit SpawnSettings(int socket) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_init(&attributes);
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    for (int s : {SIGINT, SIGTERM, SIGPIPE, SIGCHLD, SIGHUP}) sigaddset(&defaults, s);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
};

}  // namespace

std::unique_ptr<WorkerProcess> WorkerProcess::start(const std::string& path,
                                                    const std::string& build_id,
                                                    Milliseconds timeout,
                                                    const std::atomic<bool>& cancel) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw WorkerFault(Kind::Died, std::string("no socket for a worker: ") + std::strerror(errno));
  // The child's copies are numbered 0 and 1; an end that already has such a number (the host closed
  // its standard streams) would be overwritten before it is copied.
  for (int& end : ends) {
    if (end > STDERR_FILENO) continue;
    const int moved = ::fcntl(end, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    ::close(end);
    end = moved;
  }
  pid_t pid = -1;
  const SpawnSettings settings(ends[1]);
  char* const argv[] = {const_cast<char*>(path.c_str()), nullptr};
  const int error =
      ::posix_spawn(&pid, path.c_str(), &settings.actions, &settings.attributes, argv, environ);
  ::close(ends[1]);
  if (error != 0) {
    ::close(ends[0]);
    throw WorkerFault(error == EAGAIN || error == ENOMEM ? Kind::Died : Kind::Missing,
                      "the worker " + path + " cannot be started: " + std::strerror(error));
  }
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess(pid, ends[0], cancel));
  const Deadline deadline = std::chrono::steady_clock::now() + timeout;
  try {
    const WorkerHello hello = decode_hello(worker->receive(deadline));
    if (hello.protocol != kWorkerProtocolVersion || hello.build_id != build_id)
      throw WorkerFault(Kind::Garbled, "the worker " + path + " is build " + hello.build_id +
                                           ", this library needs build " + build_id);
  } catch (const InvalidGraph& e) {
    worker->fault(Kind::Garbled, e.what());
  }
  return worker;
}

WorkerProcess::~WorkerProcess() {
  if (socket_ >= 0) ::close(socket_);
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// Says how the process ended, if it did.
void WorkerProcess::fault(Kind kind, const std::string& detail) {
  std::string text = "worker " + std::to_string(pid_) + " ";
  if (kind == Kind::Died) {
    int status = 0;
    pid_t ended = 0;
    for (int tries = 0; tries < 200 && ended == 0; ++tries) {  // the socket closes just before
      ended = ::waitpid(pid_, &status, WNOHANG);
      if (ended == 0) ::usleep(1000);
    }
    if (ended == pid_) {
      pid_ = -1;
      text += WIFSIGNALED(status) ? "died (signal " + std::to_string(WTERMSIG(status)) + ")"
                                  : "exited (code " + std::to_string(WEXITSTATUS(status)) + ")";
      const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      throw WorkerFault(killed ? Kind::Killed : kind, text);
    }
  }
  throw WorkerFault(kind, text + detail);
}

void WorkerProcess::wait_for(short events, Deadline deadline) {
  while (true) {
    if (cancel_) fault(Kind::Cancelled, "was stopped");
    const auto left =
        std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) fault(Kind::TimedOut, "did not answer in time");
    pollfd p{socket_, events, 0};
    const int n = ::poll(
        &p, 1, static_cast<int>(std::min<int64_t>(left.count() + 1, kCancelPollMilliseconds)));
    if (n > 0) return;
    if (n < 0 && errno != EINTR) fault(Kind::Died, std::string("poll: ") + std::strerror(errno));
  }
}

void WorkerProcess::send(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      wait_for(POLLOUT, deadline);
    } else if (n < 0 && errno != EINTR) {
      fault(Kind::Died, std::string("does not listen: ") + std::strerror(errno));
    }
  }
}

std::string WorkerProcess::receive(Deadline deadline) {
  char chunk[1 << 16];
  while (true) {
    if (std::optional<std::string> payload = frames_.next()) return *std::move(payload);
    wait_for(POLLIN, deadline);
    const ssize_t n = ::recv(socket_, chunk, sizeof chunk, MSG_DONTWAIT);
    if (n > 0) frames_.append(std::string_view(chunk, static_cast<size_t>(n)));
    if (n == 0) fault(Kind::Died, "closed the connection");
    if (n < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)
      fault(Kind::Died, std::string("cannot be read: ") + std::strerror(errno));
  }
}

WorkerReply WorkerProcess::ask(const WorkerRequest& request, Milliseconds timeout) {
  const Deadline deadline = std::chrono::steady_clock::now() + timeout;
  try {
    send(frame(encode(request)), deadline);
    WorkerReply reply = decode_reply(receive(deadline));
    if (reply.id != request.id) fault(Kind::Garbled, "answered another request");
    return reply;
  } catch (const InvalidGraph& e) {
    fault(Kind::Garbled, std::string("sent rubbish: ") + e.what());
  }
}

}  // namespace poot::runtime
