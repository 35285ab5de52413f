// Runs a KIR kernel both ways, as machine code and in the interpreter, and compares every bit of
// every buffer: on special values and fixed-seed random bits, for each processor level that this
// machine can run, optimised and not. NaNs compare equal whatever their payload (kir.def).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>

#include "codegen/kir/kir.h"
#include "runtime/kernel_store.h"
#include "source_dir.h"

namespace poot::exact {

using kir::Elem;
using kir::KirBuilder;
using kir::ObjectId;
using kir::Op;
using kir::Pred;
using kir::Type;
using kir::ValueId;

// Elements of every input; a multiple of all widths used. The first half of two inputs holds every
// pair of special values.
inline constexpr int64_t kCount = 1152;

inline runtime::KernelStore* store() {
  static runtime::KernelStore* s = []() -> runtime::KernelStore* {
    runtime::KernelStore::Options o;
    const char* given = std::getenv("POOT_KERNELC");
    o.worker_path = given ? given : source_dir() + "/poot_torch/bin/poot-kernelc";
    o.workers = 2;
    return std::filesystem::exists(o.worker_path) ? new runtime::KernelStore(o) : nullptr;
  }();
  return s;
}

// AVX2, and the best that this machine has.
inline std::vector<Target> targets() {
  std::vector<Target> all = {Target::parse("x86-64-v3")};
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512fp16"))
    all.push_back(Target::parse("sapphirerapids"));
  else if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni"))
    all.push_back(Target::parse("x86-64-v4-bf16"));
  else if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    all.push_back(Target::parse("x86-64-v4"));
  return all;
}

// Input bits of an element type: special values in an order of the seed's, then random ones.
inline std::vector<uint64_t> pattern(Elem e, uint64_t seed) {
  std::vector<uint64_t> specials;
  const int64_t width = kir::bit_width(e);
  const uint64_t all = kir::low_bits(width);
  switch (e) {
    case Elem::F32:
      specials = {0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                  0x7fc00000, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff, 0x3effffff,
                  0x3f000000, 0x40200000, 0x4b000001, 0x4f000000, 0xcf000000, 0x5f000000,
                  0xdf000000, 0x477ff000, 0x33800000, 0x38800000, 0x3f808000, 0x3f818000,
                  0x7fffffff, 0xffffffff};
      break;
    case Elem::F64:
      specials = {0,
                  0x8000000000000000,
                  0x3ff0000000000000,
                  0x7ff0000000000000,
                  0xfff0000000000000,
                  0x7ff8000000000000,
                  1,
                  0x000fffffffffffff,
                  0x0010000000000000,
                  0x7fefffffffffffff,
                  0x41e0000000000000,
                  0xc1e0000000000000,
                  0xc1e0000000100000,
                  0x43e0000000000000,
                  0xc3e0000000000000,
                  0x36a0000000000000,
                  0x47efffffefffffff,
                  0x47effffff0000000,
                  0x3fe0000000000000,
                  0x4004000000000000};
      break;
    case Elem::F16:
      specials = {0, 0x8000, 1, 0x03ff, 0x0400, 0x3c00, 0x7bff, 0x7c00, 0xfc00, 0x7e00};
      break;
    case Elem::BF16:
      specials = {0,      0x8000, 1,      0x007f, 0x0080, 0x3f80, 0x7f7f,
                  0x7f80, 0xff80, 0x7fc0, 0x7fff, 0xffff, 0x7f81};
      break;
    default:
      specials = {0, 1, 2, 3, all, all - 1, all >> 1, (all >> 1) + 1, 5, 7, 100};
  }
  std::mt19937_64 random(seed * 977 + static_cast<uint64_t>(e));
  std::vector<uint64_t> bits;
  for (int64_t i = 0; i < kCount; ++i) {
    const uint64_t s = specials.size(), n = static_cast<uint64_t>(i);
    if (i < kCount / 2) {
      bits.push_back(specials[(seed == 0 ? n / s : n * (seed * 2 - 1)) % s]);
    } else if (random() % 8 == 0) {
      bits.push_back(specials[random() % s]);
    } else if (e == Elem::F32 && i % 2) {  // moderate magnitudes, where operations are not trivial
      const float f = static_cast<float>(static_cast<int64_t>(random()) >> (20 + random() % 40));
      const float g = f / 4096;
      uint32_t u;
      std::memcpy(&u, &g, 4);
      bits.push_back(u);
    } else if (e == Elem::F64 && i % 2) {
      const double g =
          static_cast<double>(static_cast<int64_t>(random()) >> (random() % 60)) / 65536;
      uint64_t u;
      std::memcpy(&u, &g, 8);
      bits.push_back(u);
    } else {
      bits.push_back(random() & all);
    }
  }
  return bits;
}

struct Data {
  Elem elem;
  std::vector<std::byte> bytes;
  Data(Elem e, const std::vector<uint64_t>& bits) : elem(e) {
    const size_t size = static_cast<size_t>(kir::bit_width(e) / 8);
    bytes.resize(bits.size() * size);
    for (size_t i = 0; i < bits.size(); ++i) std::memcpy(&bytes[i * size], &bits[i], size);
  }
  uint64_t at(size_t i) const {
    const size_t size = static_cast<size_t>(kir::bit_width(elem) / 8);
    uint64_t v = 0;
    std::memcpy(&v, &bytes[i * size], size);
    return v;
  }
  size_t size() const { return bytes.size() / static_cast<size_t>(kir::bit_width(elem) / 8); }
};

inline bool is_nan(Elem e, uint64_t v) {
  switch (e) {
    case Elem::F32:
      return (v & 0x7fffffff) > 0x7f800000;
    case Elem::F64:
      return (v & 0x7fffffffffffffff) > 0x7ff0000000000000;
    case Elem::F16:
      return (v & 0x7fff) > 0x7c00;
    case Elem::BF16:
      return (v & 0x7fff) > 0x7f80;
    default:
      return false;
  }
}

// Builds a kernel that computes a list of expressions over chunks of its inputs, and runs it both
// ways. `outputs` are stored one after another, kCount elements each (a reduction: kCount / lanes).
class Harness {
 public:
  Harness(std::string name, uint16_t lanes) : b(kernel_), lanes_(lanes) {
    kernel_.name = std::move(name);
    kernel_.isa = Isa::X86;
  }

  ObjectId input(Elem e, uint64_t seed) {
    data_.emplace_back(e, pattern(e, seed));
    return object(e, false);
  }
  ObjectId output(Elem e, size_t elems = kCount) {
    data_.emplace_back(e, std::vector<uint64_t>(elems, 0));
    return object(e, true);
  }
  void meta(int64_t v) {
    meta_.push_back(v);
    kernel_.meta_words = static_cast<uint32_t>(meta_.size());
  }
  Type vec(Elem e) const { return {e, lanes_}; }
  uint32_t grid[3] = {1, 1, 1};

  void check() {
    kir::verify_or_throw(kernel_);
    const std::string text = kernel_.str();
    kir::RunArgs args;
    std::vector<Data> want = data_;
    for (Data& d : want) args.buffers.push_back(d.bytes);
    args.meta = meta_;
    std::copy_n(grid, 3, args.grid);
    const uint32_t blocks = grid[0] * grid[1] * grid[2];
    const uint32_t want_status = kir::interpret(kir::parse_kernel(text), args, 0, blocks);
    for (const Target& target : targets())
      for (int level : {2, 0}) {
        if (level == 0 && target.vector_bytes == 64) continue;
        const runtime::KernelArtifact a = store()->get(text, target, level).get();
        EXPECT_TRUE(a.events.empty()) << a.events[0];
        std::vector<Data> got = data_;
        std::vector<void*> buffers;
        for (Data& d : got) buffers.push_back(d.bytes.data());
        uint32_t status = 0;
        const program::Args run{buffers.data(), meta_.data(), &status, {grid[0], grid[1], grid[2]}};
        // In uneven ranges, as threads would take them.
        for (uint32_t at = 0; at < blocks; at += 5)
          a.image->entry()(&run, at, std::min(at + 5, blocks));
        EXPECT_EQ(status, want_status);
        compare(want, got, kernel_.name + " on " + target.cpu + " level " + std::to_string(level));
      }
  }

 private:
  kir::Kernel kernel_;

 public:
  KirBuilder b;

 private:
  ObjectId object(Elem e, bool writable) {
    kir::Object o;
    o.name = (writable ? "y" : "x") + std::to_string(data_.size());
    o.elem = e;
    o.writable = writable;
    return b.add_object(o);
  }

  void compare(const std::vector<Data>& want, const std::vector<Data>& got,
               const std::string& where) {
    int shown = 0;
    for (size_t d = 0; d < want.size(); ++d)
      for (size_t i = 0; i < want[d].size(); ++i) {
        const uint64_t w = want[d].at(i), g = got[d].at(i);
        if (w == g || (is_nan(want[d].elem, w) && is_nan(want[d].elem, g))) continue;
        if (++shown <= 4)
          ADD_FAILURE() << where << ": buffer " << d << " element " << i << std::hex << ": 0x" << g
                        << ", not 0x" << w;
      }
  }

  uint16_t lanes_;
  std::vector<Data> data_;
  std::vector<int64_t> meta_;
};

// A test over vector widths.
class Exact : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!store()) GTEST_SKIP() << "poot-kernelc was not built";
  }
  uint16_t lanes() const { return static_cast<uint16_t>(GetParam()); }
  std::string name(const std::string& what) const { return what + std::to_string(lanes()); }

  // For each chunk: loads the inputs and stores every value that f yields to an output of its own
  // (one element a chunk if it is a scalar).
  void each(Harness& h, const std::vector<ObjectId>& inputs,
            const std::function<std::vector<ValueId>(std::span<const ValueId>)>& f) {
    KirBuilder& b = h.b;
    b.for_loop(
        b.i64(0), b.i64(kCount), b.i64(lanes()), {}, [&](ValueId at, std::span<const ValueId>) {
          std::vector<ValueId> values;
          for (ObjectId o : inputs)
            values.push_back(b.load(o, h.vec(b.kernel().objects[o.index].elem), at));
          for (ValueId v : f(values)) {
            const Type t = b.type(v);
            if (t.elem == Elem::I1) v = b.emit(Op::zext, t.with(Elem::I8), {v});
            const ObjectId out = h.output(b.type(v).elem);
            b.store(out, t.lanes == lanes() ? at : b.emit(Op::sdiv, {at, b.i64(lanes())}), v);
          }
          return std::vector<ValueId>{};
        });
    h.check();
  }
};

}  // namespace poot::exact
