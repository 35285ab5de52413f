// Target names, and the host's. The levels are LLVM's, and one of them with the bf16 instructions
// that not all of its processors have: a name fixes the features, so that the same name gives the
// same code on every machine; only host() reads the machine. It takes the highest level that the
// processor has (the compiler's run-time reads cpuid, and asks the system whether it
// saves the registers). AArch64 is a target of the compiler only: no host runs its images yet.
#include "codegen/target.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "support/env.h"
#include "support/errors.h"

namespace poot {
namespace {

struct Named {
  std::string_view name, cpu, features;
  uint32_t vector_bytes;
  bool bf16_dot = false, bf16_tiles = false;
};
constexpr Named kCpus[] = {
    {"sapphirerapids", "sapphirerapids", "-prefer-256-bit", 64, true, true},
    {"x86-64-v4-bf16", "x86-64-v4", "-prefer-256-bit,+avx512vnni,+avx512bf16", 64, true},
    {"x86-64-v4", "x86-64-v4", "-prefer-256-bit", 64},
    {"x86-64-v3", "x86-64-v3", "", 32},
    {"neoverse-n1", "neoverse-n1", "", 16},
};

// An architecture whose name ends in "a" serves its own compute capability only; the others serve
// the later ones too.
struct Gpu {
  std::string_view name, features;
  int capability;
  uint32_t shared_bytes, cores;
};
constexpr Gpu kGpus[] = {
    {"sm_75", "+ptx70", 75, 64 << 10, 72},     {"sm_80", "+ptx70", 80, 163 << 10, 108},
    {"sm_86", "+ptx71", 86, 99 << 10, 84},     {"sm_89", "+ptx78", 89, 99 << 10, 128},
    {"sm_90", "+ptx80", 90, 227 << 10, 132},   {"sm_90a", "+ptx80", 90, 227 << 10, 132},
    {"sm_100", "+ptx86", 100, 227 << 10, 148}, {"sm_120", "+ptx87", 120, 99 << 10, 170},
};

Target of(const Gpu& g) {
  Target t;
  t.isa = Isa::Ptx;
  t.cpu = g.name;
  t.features = g.features;
  t.vector_bytes = 16;
  t.shared_bytes = g.shared_bytes;
  t.clusters = g.capability >= 90;
  t.cores = g.cores;
  return t;
}

std::string_view host_name() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512cd");
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  const bool bf16 =
      v4 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
  const bool spr = __builtin_cpu_supports("avx512fp16") && __builtin_cpu_supports("avx512vbmi2") &&
                   __builtin_cpu_supports("amx-bf16") && __builtin_cpu_supports("amx-int8");
  if (bf16 && spr) return "sapphirerapids";
  if (bf16) return "x86-64-v4-bf16";
  if (v4) return "x86-64-v4";
  if (v3) return "x86-64-v3";
#endif
  throw Unsupported("this processor", "AVX2, FMA and BMI2 are needed");
}

}  // namespace

Target Target::parse(std::string_view name) {
  Target t;
  for (const Named& n : kCpus) {
    if (n.name != name) continue;
    t.isa = Isa::X86;
    t.cpu = n.cpu;
    t.features = n.features;
    t.vector_bytes = n.vector_bytes;
    t.bf16_dot = n.bf16_dot;
    t.bf16_tiles = n.bf16_tiles;
    t.warp = 1;
    t.max_threads = 1;
    return t;
  }
  for (const Gpu& g : kGpus) {
    if (g.name == name) return of(g);
  }
  std::string known;
  for (const Named& n : kCpus)
    known += std::string(known.empty() ? "" : ", ") + std::string(n.name);
  for (const Gpu& g : kGpus) known += ", " + std::string(g.name);
  throw Unsupported("target '" + std::string(name) + "'", "known are " + known);
}

Target Target::cuda(int major, int minor) {
  const int capability = 10 * major + minor;
  const Gpu* best = nullptr;
  for (const Gpu& g : kGpus) {
    const bool runs =
        g.name.ends_with('a') ? g.capability == capability : g.capability <= capability;
    if (runs) best = &g;
  }
  if (!best)
    throw Unsupported("compute capability " + std::to_string(major) + "." + std::to_string(minor),
                      "7.5 or above is needed");
  return of(*best);
}

Target Target::host() {
  const std::string chosen = env::get(env::Var::POOT_TARGET);
  Target t = parse(chosen.empty() ? host_name() : std::string_view(chosen));
  if (t.isa != Isa::X86) return t;
  t.bf16_tiles = t.bf16_tiles && allow_matrix_unit();
  t.cores = std::max(1u, std::thread::hardware_concurrency());
  const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (l2 > 0) t.cache_bytes = static_cast<uint64_t>(l2);
  return t;
}

// Linux grants the state of the tile registers (state component 18) on request.
bool allow_matrix_unit() {
#if defined(__x86_64__)
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
#else
  return false;
#endif
}

std::string Target::key() const {
  return cpu + ";" + features + ";" + std::to_string(vector_bytes) + ";" +
         std::to_string(shared_bytes) + ";" + std::to_string(cores) + ";" +
         std::to_string(cache_bytes) + (bf16_tiles ? ";tiles" : "") +
         (overlapped_blocks ? ";overlap" + std::to_string(overlapped_blocks) : "");
}

}  // namespace poot
