// Compiled kernels: memory, then disk, then the worker. One store a process; thread-safe.
//
// Artifact key: content hash of KIR text + target key + worker build id + ABI version. On disk each
// artifact is one checksummed file under POOT_CACHE_DIR, published by rename; anything damaged,
// short or foreign is ignored and rewritten. A directory that others can write is refused (it holds
// code). The build id is that of the worker this build shipped with, compiled in, so a warm cache
// needs no worker.
#pragma once

#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/target.h"
#include "program/kernel_abi.h"
#include "support/hash.h"

namespace poot::runtime {

// Machine code mapped read-execute. Unmapped when the last reference goes.
class Image {
 public:
  // Verifies and maps; throws InvalidGraph image-C….
  static std::shared_ptr<const Image> map(std::string_view bytes);
  Image() = default;  // empty; map() fills it
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;
  ~Image();
  program::CpuEntry entry() const { return entry_; }
  size_t size() const { return size_; }

 private:
  void* base_ = nullptr;
  size_t size_ = 0;
  program::CpuEntry entry_ = nullptr;
};

enum class KernelOrigin : uint8_t { Compiled, Disk, Memory };

struct KernelArtifact {
  std::string bytes;                   // image (CPU) or GPU module
  std::shared_ptr<const Image> image;  // CPU only
  KernelOrigin origin = KernelOrigin::Compiled;
  double milliseconds = 0;
  // What went wrong on the way: "worker 3 died (signal 9), kernel retried".
  std::vector<std::string> events;
};

class KernelStore {
 public:
  struct Options {
    std::string worker_path;      // of poot-kernelc
    std::string cache_directory;  // empty: no cache on disk
    uint32_t workers = 1;
    double timeout_seconds = 60;  // for one kernel
    // The environment's (support/env.def); the worker beside this library unless it says otherwise.
    static Options from_environment();
  };
  // The process's store, made from the environment at the first call; never destroyed.
  static KernelStore& instance();
  explicit KernelStore(Options options);
  ~KernelStore();  // requests in flight fail
  KernelStore(const KernelStore&) = delete;
  KernelStore& operator=(const KernelStore&) = delete;

  // Starts compiling, or finds; equal requests in flight share one compile. The future throws
  // CompileError. opt_level 0..2; a failed compile is retried once in a fresh worker, then at level
  // 0. After a fork the child has no requests in flight: futures it inherited throw CompileError.
  std::shared_future<KernelArtifact> get(const std::string& kir, const Target& target,
                                         int opt_level = 2);
  // Makes machine code of PTX from now on, in the threads that wait for the workers. `version`
  // enters the key of every such kernel. Without it, or where it throws CompileError, a GPU module
  // holds PTX, which the driver compiles when it loads it.
  using PtxLinker = std::function<std::string(const std::string& ptx, const std::string& arch)>;
  void link_ptx(PtxLinker linker, const std::string& version);
  // Records of other kinds in the same cache on disk, under keys of their own.
  std::optional<std::string> find_record(const Hash128& key);
  void keep_record(const Hash128& key, std::string_view bytes);
  // Starts the workers in the background, if any kernel could need them.
  void warm_up();
  struct Stats {
    uint64_t compiled = 0, disk = 0, memory = 0, records = 0, worker_restarts = 0, timeouts = 0,
             cache_write_failures = 0;
  };
  Stats stats() const;
  // Ids of live worker processes (tests, reports).
  std::vector<int> worker_pids() const;
  // What happened outside any one kernel: why the cache is disabled, files that were ignored.
  std::vector<std::string> take_events();

  struct State;  // kernel_store.cpp

 private:
  std::unique_ptr<State> state_;
};

}  // namespace poot::runtime
