#include "binding/openmp_team.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <link.h>

#include <cstring>

namespace poot::binding {
namespace {

struct Gomp {
  void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
  int (*thread_num)() = nullptr;
  int (*num_threads)() = nullptr;
};

// torch ships its own copy under a mangled file name, loaded privately: the global scope does not
// see it, so the list of loaded objects is searched.
int find_libgomp(dl_phdr_info* info, size_t, void* out) {
  if (!std::strstr(info->dlpi_name, "libgomp")) return 0;
  void* handle = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
  if (!handle) return 0;
  Gomp& gomp = *static_cast<Gomp*>(out);
  gomp.parallel = reinterpret_cast<decltype(gomp.parallel)>(dlsym(handle, "GOMP_parallel"));
  gomp.thread_num =
      reinterpret_cast<decltype(gomp.thread_num)>(dlsym(handle, "omp_get_thread_num"));
  gomp.num_threads =
      reinterpret_cast<decltype(gomp.num_threads)>(dlsym(handle, "omp_get_num_threads"));
  return gomp.parallel && gomp.thread_num && gomp.num_threads;
}

const Gomp& gomp() {
  static const Gomp found = [] {
    Gomp g;
    if (!dl_iterate_phdr(find_libgomp, &g)) g = {};
    return g;
  }();
  return found;
}

struct Job {
  uint32_t n;
  runtime::RangeFn fn;
  void* ctx;
};

void run_part(void* p) {
  const Job& job = *static_cast<const Job*>(p);
  const uint64_t team = gomp().num_threads(), self = gomp().thread_num();
  const uint32_t first = static_cast<uint32_t>(job.n * self / team);
  const uint32_t last = static_cast<uint32_t>(job.n * (self + 1) / team);
  if (first < last) job.fn(job.ctx, first, last);
}

}  // namespace

void run_on_team(uint32_t n, runtime::RangeFn fn, void* ctx) {
  const uint32_t threads = std::min<uint32_t>(n, at::get_num_threads());
  if (threads <= 1 || at::in_parallel_region()) return fn(ctx, 0, n);
  if (gomp().parallel) {
    Job job{n, fn, ctx};
    gomp().parallel(run_part, &job, threads, 0);
    return;
  }
  at::parallel_for(0, n, 1, [&](int64_t first, int64_t last) {
    fn(ctx, static_cast<uint32_t>(first), static_cast<uint32_t>(last));
  });
}

}  // namespace poot::binding
