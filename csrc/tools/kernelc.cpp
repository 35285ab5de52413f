// poot-kernelc: KIR text in, machine code out. Without arguments it serves frames
// (runtime/worker_protocol.h) on standard input until that closes; with arguments it compiles one
// file:
//
//   poot-kernelc --compile FILE.kir --target x86-64-v4 -o OUT [--level N]
//                [--emit-llvm | --emit-optimized-llvm | --emit-asm | --emit-object]
//   poot-kernelc --flatten FILE.o --entry NAME -o OUT
//   poot-kernelc --build-id
//
// The worker is expendable: it limits its own memory, dies with its parent, and turns LLVM's fatal
// errors into replies before it ends.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "build_id.h"
#include "codegen/kir/kir.h"
#include "codegen/llvm/compile_kernel.h"
#include "codegen/llvm/flatten.h"
#include "runtime/worker_protocol.h"
#include "support/env.h"

namespace {

using poot::codegen::Product;

constexpr rlim_t kMemoryLimitBytes = rlim_t{4} << 30;

int channel = -1;              // where replies go
uint64_t current_request = 0;  // for the fatal handler

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool send(const std::string& payload) {
  return write_all(channel, poot::runtime::frame(payload));
}

// LLVM cannot go on: answer, then leave without unwinding through it.
void on_fatal(const char* message) {
  poot::runtime::WorkerReply reply;
  reply.id = current_request;
  reply.outcome = poot::runtime::WorkerOutcome::Failed;
  reply.bytes = std::string("LLVM: ") + message;
  send(poot::runtime::encode(reply));
  ::_exit(3);
}

void on_fatal_once(const char* message) {
  std::fprintf(stderr, "poot-kernelc: LLVM: %s\n", message);
  ::_exit(3);
}

// Faults on demand, for the tests of containment: only where the environment asks, by kernel name.
void test_hook(const std::string& name, uint32_t level) {
  if (!poot::env::flag(poot::env::Var::POOT_KERNELC_TEST_HOOK)) return;
  const bool optimized = level > 0;
  if (name == "hook_crash" || (name == "hook_crash_optimized" && optimized)) std::abort();
  if (name == "hook_slow") ::usleep(500'000);
  if (name == "hook_hang" || (name == "hook_hang_optimized" && optimized))
    while (true) ::pause();
  if (name == "hook_fatal_optimized" && optimized) on_fatal("hook");
  if (name == "hook_garbage" || (name == "hook_garbage_optimized" && optimized))
    write_all(channel, "this is not a frame at all");
}

poot::runtime::WorkerReply compile(const poot::runtime::WorkerRequest& request) {
  poot::runtime::WorkerReply reply;
  reply.id = request.id;
  try {
    const poot::kir::Kernel kernel = poot::kir::parse_kernel(request.kir);
    test_hook(kernel.name, request.opt_level);
    reply.bytes = poot::codegen::compile_kernel(
        kernel, request.target, static_cast<int>(request.opt_level), Product::Artifact);
  } catch (const poot::InternalError& e) {
    reply.outcome = poot::runtime::WorkerOutcome::Failed;
    reply.bytes = e.what();
  } catch (const std::exception& e) {
    reply.outcome = poot::runtime::WorkerOutcome::Refused;
    reply.bytes = e.what();
  }
  return reply;
}

void contain() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
#if !defined(__SANITIZE_ADDRESS__)
  const rlimit memory{kMemoryLimitBytes, kMemoryLimitBytes};
  ::setrlimit(RLIMIT_AS, &memory);
#endif
  // Nothing but frames may reach the channel: whatever prints, prints elsewhere.
  channel = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null >= 0) ::dup2(null, STDOUT_FILENO);
}

int serve() {
  contain();
  poot::codegen::set_llvm_fatal_handler(on_fatal);
  poot::runtime::WorkerHello hello;
  hello.build_id = poot::kWorkerBuildId;
  if (!send(poot::runtime::encode(hello))) return 1;
  poot::runtime::FrameReader frames;
  std::string chunk(1 << 16, '\0');
  while (true) {
    while (std::optional<std::string> payload = frames.next()) {
      const poot::runtime::WorkerRequest request = poot::runtime::decode_request(*payload);
      current_request = request.id;
      if (!send(poot::runtime::encode(compile(request)))) return 1;
    }
    const ssize_t n = ::read(STDIN_FILENO, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return 0;
    frames.append(std::string_view(chunk).substr(0, static_cast<size_t>(n)));
  }
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw poot::Error("cannot read " + path);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

void write_file(const std::string& path, const std::string& bytes) {
  if (path == "-") {
    std::cout << bytes << std::flush;
    return;
  }
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << bytes;
  out.close();
  if (!out) throw poot::Error("cannot write " + path);
}

constexpr const char* kUsage =
    "usage: poot-kernelc [--compile FILE.kir --target NAME -o OUT [--level N]\n"
    "                     [--emit-llvm | --emit-optimized-llvm | --emit-asm | --emit-object]]\n"
    "                    [--flatten FILE.o --entry NAME -o OUT] [--build-id]\n"
    "Without arguments: serves compile requests on standard input.\n";

int run_once(int argc, char** argv) {
  std::map<std::string, std::string> options;
  Product product = Product::Artifact;
  const std::map<std::string, Product> products = {
      {"--emit-llvm", Product::LlvmIr},
      {"--emit-optimized-llvm", Product::OptimizedLlvmIr},
      {"--emit-asm", Product::Assembly},
      {"--emit-object", Product::Object}};
  for (int a = 1; a < argc; ++a) {
    const std::string key = argv[a];
    if (key == "--build-id") {
      std::cout << poot::kWorkerBuildId << "\n";
      return 0;
    }
    if (auto p = products.find(key); p != products.end()) {
      product = p->second;
    } else if (a + 1 < argc) {
      options[key] = argv[++a];
    } else {
      std::cerr << kUsage;
      return 2;
    }
  }
  const std::string out = options.count("-o") ? options["-o"] : "-";
  if (options.count("--flatten")) {
    write_file(out, poot::codegen::flatten(read_file(options["--flatten"]), options["--entry"]));
  } else if (options.count("--compile")) {
    poot::codegen::set_llvm_fatal_handler(on_fatal_once);
    const auto kernel = poot::kir::parse_kernel(read_file(options["--compile"]));
    const auto target =
        options.count("--target") ? poot::Target::parse(options["--target"]) : poot::Target::host();
    const int level = options.count("--level") ? std::stoi(options["--level"]) : 2;
    write_file(out, poot::codegen::compile_kernel(kernel, target, level, product));
  } else {
    std::cerr << kUsage;
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    poot::codegen::initialize_llvm();
    return argc > 1 ? run_once(argc, argv) : serve();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "poot-kernelc: %s\n", e.what());
    return 1;
  }
}
