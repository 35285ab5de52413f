// Machine code against the KIR interpreter, bit for bit: every instruction that x86 accepts, at
// several widths, on special values and fixed-seed random bits, for each processor level that this
// machine can run, optimised and not. NaNs compare equal whatever their payload (kir.def).
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>

#include "codegen/kir/kir.h"
#include "codegen/math/math.h"
#include "ir/op.h"
#include "runtime/kernel_store.h"
#include "support/errors.h"

namespace poot {
namespace {

using kir::Elem;
using kir::KirBuilder;
using kir::ObjectId;
using kir::Op;
using kir::Pred;
using kir::Type;
using kir::ValueId;

// Elements of every input; a multiple of all widths used. The first half of two inputs holds every
// pair of special values.
constexpr int64_t kCount = 1152;

runtime::KernelStore* store() {
  static runtime::KernelStore* s = []() -> runtime::KernelStore* {
    runtime::KernelStore::Options o;
    const char* given = std::getenv("POOT_KERNELC");
    o.worker_path = given ? given : std::string(POOT_SOURCE_DIR) + "/poot_torch/bin/poot-kernelc";
    o.workers = 2;
    return std::filesystem::exists(o.worker_path) ? new runtime::KernelStore(o) : nullptr;
  }();
  return s;
}

// AVX2, and the best that this machine has.
std::vector<Target> targets() {
  std::vector<Target> all = {Target::parse("x86-64-v3")};
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512fp16"))
    all.push_back(Target::parse("sapphirerapids"));
  else if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    all.push_back(Target::parse("x86-64-v4"));
  return all;
}

// Input bits of an element type: special values in an order of the seed's, then random ones.
std::vector<uint64_t> pattern(Elem e, uint64_t seed) {
  std::vector<uint64_t> specials;
  const int64_t width = kir::bit_width(e);
  const uint64_t all = kir::low_bits(width);
  switch (e) {
    case Elem::F32:
      specials = {0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                  0x7fc00000, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff, 0x3effffff,
                  0x3f000000, 0x40200000, 0x4b000001, 0x4f000000, 0xcf000000, 0x5f000000,
                  0xdf000000, 0x477ff000, 0x33800000, 0x38800000, 0x3f808000, 0x3f818000};
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
      specials = {0, 0x8000, 1, 0x007f, 0x0080, 0x3f80, 0x7f7f, 0x7f80, 0xff80, 0x7fc0};
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

bool is_nan(Elem e, uint64_t v) {
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

  void float_arithmetic(Elem e) {
    Harness h(name(e == Elem::F32 ? "float_f32x" : "float_f64x"), lanes());
    const std::vector<ObjectId> in = {h.input(e, 0), h.input(e, 1), h.input(e, 2),
                                      h.input(Elem::I32, 3)};
    KirBuilder& b = h.b;
    each(h, in, [&](std::span<const ValueId> v) {
      std::vector<ValueId> out;
      for (Op op :
           {Op::fadd, Op::fsub, Op::fmul, Op::fdiv, Op::frem, Op::fmin, Op::fmax, Op::fcopysign})
        for (auto [x, y] : {std::pair{0, 1}, {1, 0}, {1, 2}})
          out.push_back(b.emit(op, {v[x], v[y]}));
      for (Op op : {Op::fneg, Op::fabs, Op::fsqrt, Op::ffloor, Op::fceil, Op::ftrunc, Op::frint})
        for (int x : {0, 1}) out.push_back(b.emit(op, {v[x]}));
      out.push_back(b.emit(Op::fma, {v[0], v[1], v[2]}));
      out.push_back(b.emit(Op::fma, {v[1], v[2], v[0]}));
      // A product and a sum keep their two roundings.
      out.push_back(b.emit(Op::fadd, {b.emit(Op::fmul, {v[1], v[2]}), v[0]}));
      // Any i32 and one near the interesting range.
      const ValueId near = b.emit(Op::ashr, {v[3], b.i32(e == Elem::F32 ? 23 : 20, lanes())});
      for (ValueId n : {v[3], near})
        for (int x : {0, 1}) out.push_back(b.emit(Op::fscale, {v[x], n}));
      for (int x : {0, 1}) {  // unspecified for zero and what is not finite
        const ValueId magnitude = b.emit(Op::fabs, {v[x]});
        const bool f32 = e == Elem::F32;
        const ValueId inf = b.constant(h.vec(e), f32 ? 0x7f800000 : 0x7ff0000000000000);
        const ValueId ok =
            b.emit(Op::band, {b.fcmp(Pred::olt, magnitude, inf),
                              b.fcmp(Pred::ogt, magnitude, b.constant(h.vec(e), 0))});
        out.push_back(
            b.select(ok, b.emit(Op::fexponent, h.vec(Elem::I32), {v[x]}), b.i32(0, lanes())));
        out.push_back(b.select(ok, b.emit(Op::fmantissa, {v[x]}), v[x]));
      }
      return out;
    });
  }

  void float_compare(Elem e) {
    Harness h(name(e == Elem::F32 ? "compare_f32x" : "compare_f64x"), lanes());
    const std::vector<ObjectId> in = {h.input(e, 0), h.input(e, 1)};
    KirBuilder& b = h.b;
    each(h, in, [&](std::span<const ValueId> v) {
      std::vector<ValueId> out;
      for (Pred p :
           {Pred::oeq, Pred::one, Pred::olt, Pred::ole, Pred::ogt, Pred::oge, Pred::ord, Pred::uno,
            Pred::une, Pred::ueq, Pred::fult, Pred::fule, Pred::fugt, Pred::fuge}) {
        out.push_back(b.fcmp(p, v[0], v[1]));
        out.push_back(b.fcmp(p, v[1], v[1]));
        out.push_back(b.select(out.back(), v[0], v[1]));
      }
      return out;
    });
  }

  void int_arithmetic(Elem e) {
    Harness h(name("int_" + std::string(kir::name(e)) + "x"), lanes());
    const std::vector<ObjectId> in = {h.input(e, 0), h.input(e, 1)};
    KirBuilder& b = h.b;
    const uint64_t width = static_cast<uint64_t>(kir::bit_width(e));
    each(h, in, [&](std::span<const ValueId> v) {
      std::vector<ValueId> out;
      for (Op op : {Op::iadd, Op::isub, Op::imul, Op::umulh, Op::smin, Op::smax, Op::umin, Op::umax,
                    Op::band, Op::bor, Op::bxor})
        out.push_back(b.emit(op, {v[0], v[1]}));
      const Type t = h.vec(e);
      const ValueId one = b.constant(t, 1);
      const ValueId minus_one = b.constant(t, ~uint64_t{0});
      const ValueId zero = b.constant(t, 0);
      const ValueId divisor = b.select(b.icmp(Pred::eq, v[1], zero), one, v[1]);
      const ValueId guarded = b.select(b.icmp(Pred::eq, divisor, minus_one), one, divisor);
      for (Op op : {Op::sdiv, Op::srem}) out.push_back(b.emit(op, {v[0], guarded}));
      for (Op op : {Op::udiv, Op::urem}) out.push_back(b.emit(op, {v[0], divisor}));
      const ValueId amount = b.emit(Op::band, {v[1], b.constant(t, width - 1)});
      for (Op op : {Op::shl, Op::lshr, Op::ashr}) out.push_back(b.emit(op, {v[0], amount}));
      out.push_back(b.emit(Op::ctlz, {v[0]}));
      for (Pred p : {Pred::eq, Pred::ne, Pred::slt, Pred::sle, Pred::sgt, Pred::sge, Pred::ult,
                     Pred::ule, Pred::ugt, Pred::uge})
        out.push_back(b.icmp(p, v[0], v[1]));
      const ValueId less = out.back();
      const ValueId equal = b.icmp(Pred::eq, v[0], v[1]);
      for (Op op : {Op::band, Op::bor, Op::bxor}) out.push_back(b.emit(op, {less, equal}));
      out.push_back(b.select(less, v[0], v[1]));
      for (Elem wide : {Elem::I16, Elem::I32, Elem::I64}) {
        if (kir::bit_width(wide) <= kir::bit_width(e)) continue;
        out.push_back(b.emit(Op::sext, h.vec(wide), {v[0]}));
        out.push_back(b.emit(Op::zext, h.vec(wide), {v[0]}));
      }
      for (Elem narrow : {Elem::I1, Elem::I8, Elem::I16, Elem::I32})
        if (kir::bit_width(narrow) < kir::bit_width(e))
          out.push_back(b.emit(Op::itrunc, h.vec(narrow), {v[0]}));
      out.push_back(b.emit(Op::zext, t, {less}));
      for (Elem f : {Elem::F32, Elem::F64}) {
        out.push_back(b.emit(Op::sitofp, h.vec(f), {v[0]}));
        out.push_back(b.emit(Op::uitofp, h.vec(f), {v[0]}));
        out.push_back(b.emit(Op::uitofp, h.vec(f), {less}));
      }
      return out;
    });
  }
};

TEST_P(Exact, FloatArithmetic) {
  float_arithmetic(Elem::F32);
  float_arithmetic(Elem::F64);
}

TEST_P(Exact, FloatCompare) {
  float_compare(Elem::F32);
  float_compare(Elem::F64);
}

TEST_P(Exact, IntArithmetic) {
  for (Elem e : {Elem::I8, Elem::I16, Elem::I32, Elem::I64}) int_arithmetic(e);
}

TEST_P(Exact, Conversions) {
  Harness h(name("convert_x"), lanes());
  const std::vector<ObjectId> in = {h.input(Elem::F32, 0), h.input(Elem::F64, 0),
                                    h.input(Elem::F16, 0), h.input(Elem::BF16, 0),
                                    h.input(Elem::F32, 5), h.input(Elem::F64, 5)};
  KirBuilder& b = h.b;
  each(h, in, [&](std::span<const ValueId> v) {
    std::vector<ValueId> out;
    for (int x : {0, 4}) {
      out.push_back(b.emit(Op::fpext, h.vec(Elem::F64), {v[x]}));
      out.push_back(b.emit(Op::fptrunc, h.vec(Elem::F16), {v[x]}));
      out.push_back(b.emit(Op::fptrunc, h.vec(Elem::BF16), {v[x]}));
      out.push_back(b.emit(Op::bitcast, h.vec(Elem::I32), {v[x]}));
    }
    for (int x : {1, 5}) {
      out.push_back(b.emit(Op::fptrunc, h.vec(Elem::F32), {v[x]}));
      out.push_back(b.emit(Op::bitcast, h.vec(Elem::I64), {v[x]}));
    }
    for (int x : {0, 4, 1, 5})
      for (Elem e : {Elem::I32, Elem::I64}) out.push_back(b.emit(Op::fptosi, h.vec(e), {v[x]}));
    for (int x : {2, 3}) {
      out.push_back(b.emit(Op::fpext, h.vec(Elem::F32), {v[x]}));
      out.push_back(b.emit(Op::bitcast, h.vec(Elem::I16), {v[x]}));
    }
    out.push_back(b.emit(Op::bitcast, h.vec(Elem::F16), {v[3]}));
    out.push_back(b.select(b.fcmp(Pred::olt, v[0], v[4]), v[2], out.back()));
    return out;
  });
}

TEST_P(Exact, LanesAndReductions) {
  if (lanes() == 1) GTEST_SKIP() << "vectors only";
  Harness h(name("lanes_x"), lanes());
  const std::vector<ObjectId> in = {h.input(Elem::F32, 0), h.input(Elem::F32, 1),
                                    h.input(Elem::F64, 1), h.input(Elem::I32, 1),
                                    h.input(Elem::I64, 1), h.input(Elem::BF16, 1)};
  KirBuilder& b = h.b;
  const uint16_t n = lanes();
  std::vector<int32_t> mask, reverse;
  for (int32_t l = 0; l < n; ++l) {
    mask.push_back((l * 5 + 3) % (2 * n));
    reverse.push_back(n - 1 - l);
  }
  each(h, in, [&](std::span<const ValueId> v) {
    std::vector<ValueId> out;
    for (int x : {0, 1, 2})
      for (Op op : {Op::reduce_fadd, Op::reduce_fmul, Op::reduce_fmax, Op::reduce_fmin})
        out.push_back(b.emit(op, {v[x]}));
    for (int x : {3, 4})
      for (Op op : {Op::reduce_iadd, Op::reduce_imul, Op::reduce_smax, Op::reduce_smin,
                    Op::reduce_or, Op::reduce_and})
        out.push_back(b.emit(op, {v[x]}));
    const ValueId m = b.fcmp(Pred::olt, v[0], v[1]);
    out.push_back(b.emit(Op::reduce_or, {m}));
    out.push_back(b.emit(Op::reduce_and, {m}));
    for (int x : {0, 2, 4, 5}) {
      out.push_back(b.shuffle(v[x], v[x], mask));
      out.push_back(b.shuffle(v[x], v[x], reverse));
      out.push_back(b.extract(v[x], static_cast<uint16_t>(n - 1)));
      out.push_back(b.splat(out.back(), n));
    }
    out.push_back(b.shuffle(v[0], v[1], mask));
    for (Elem e : {Elem::I8, Elem::I32, Elem::I64})
      out.push_back(b.emit(Op::lane_ids, h.vec(e), {}));
    return out;
  });
}

TEST_P(Exact, TableLookup) {
  Harness h(name("lookup_x"), lanes());
  const std::vector<ObjectId> in = {h.input(Elem::I32, 1)};
  KirBuilder& b = h.b;
  std::vector<std::pair<ObjectId, uint32_t>> tables;
  for (Elem e : {Elem::F32, Elem::I32, Elem::F64, Elem::I8, Elem::BF16})
    for (uint32_t size : {8u, 16u, 32u, 128u}) {
      std::vector<uint64_t> bits = pattern(e, size);
      bits.resize(size);
      tables.push_back({b.table("t" + std::to_string(tables.size()), e, bits), size});
    }
  each(h, in, [&](std::span<const ValueId> v) {
    std::vector<ValueId> out;
    for (const auto& [table, size] : tables) {
      const ValueId index =
          b.emit(Op::band, {v[0], b.i32(static_cast<int32_t>(size) - 1, lanes())});
      out.push_back(b.lookup(table, index));
      out.push_back(b.lookup(table, b.emit(Op::zext, h.vec(Elem::I64), {index})));
    }
    return out;
  });
}

// Blocks of a three-axis grid, masked tails, gathers and scatters, private arrays, carried loops,
// branches, metadata and the status word.
TEST_P(Exact, MemoryAndControl) {
  constexpr int64_t kRow = 61;  // not a multiple of any width
  const uint16_t n = lanes();
  for (Elem e : {Elem::F32, Elem::F64, Elem::I8, Elem::I16, Elem::BF16, Elem::I64}) {
    Harness h(name("memory_" + std::string(kir::name(e)) + "x"), n);
    KirBuilder& b = h.b;
    const ObjectId x = h.input(e, 1), indices = h.input(Elem::I32, 2);
    h.grid[0] = 3, h.grid[1] = 2, h.grid[2] = 2;
    const auto rows = static_cast<size_t>(12 * kRow);
    const ObjectId copied = h.output(e, rows), gathered = h.output(e, rows),
                   scattered = h.output(e, rows), sums = h.output(Elem::I64, 24);
    h.meta(kRow);
    h.meta(7);
    kir::Object array;
    array.name = "kept";
    array.kind = kir::ObjectKind::Private;
    array.elem = e;
    array.size = 64 + n;
    const ObjectId kept = b.add_object(array);

    auto i64 = [&](int64_t v) { return b.i64(v); };
    auto mul = [&](ValueId p, ValueId q) { return b.emit(Op::imul, {p, q}); };
    auto add = [&](ValueId p, ValueId q) { return b.emit(Op::iadd, {p, q}); };
    const ValueId block =
        add(b.block_id(0), mul(i64(3), add(b.block_id(1), mul(i64(2), b.block_id(2)))));
    const ValueId row = b.meta(0), base = mul(block, row);
    const ValueId zero = b.constant(h.vec(e), 0);
    b.for_loop(i64(0), row, i64(n), {}, [&](ValueId at, std::span<const ValueId>) {
      ValueId ids = b.emit(Op::lane_ids, h.vec(Elem::I64), {});
      ids = add(ids, b.splat(at, n));
      const ValueId inside = b.icmp(Pred::slt, ids, b.splat(row, n));
      const ValueId v = b.load_masked(x, h.vec(e), at, inside, zero);
      b.store(kept, at, v);
      b.store_masked(copied, add(base, at), v, inside);
      const ValueId some = b.load_masked(indices, h.vec(Elem::I32), at, inside, b.i32(0, n));
      const ValueId index = b.emit(Op::urem, {some, b.i32(static_cast<int32_t>(kRow), n)});
      const ValueId other = b.gather(x, h.vec(e), index, inside, v);
      b.store_masked(gathered, add(base, at), other, inside);
      // Lanes in order: a later lane wins where two meet.
      const ValueId target = add(b.splat(base, n), b.emit(Op::sext, h.vec(Elem::I64), {index}));
      b.scatter(scattered, target, v, inside);
      b.prefetch(x, add(at, i64(1 << 20)));
      return std::vector<ValueId>{};
    });
    const auto total = b.for_loop(
        i64(0), row, i64(1), {i64(0), i64(1)}, [&](ValueId at, std::span<const ValueId> c) {
          const ValueId bits = [&] {
            const ValueId v = b.load(kept, {e, 1}, at);
            const Elem as = kir::bit_width(e) == 8    ? Elem::I8
                            : kir::bit_width(e) == 16 ? Elem::I16
                            : kir::bit_width(e) == 32 ? Elem::I32
                                                      : Elem::I64;
            const ValueId i = b.emit(Op::bitcast, {as, 1}, {v});
            return as == Elem::I64 ? i : b.emit(Op::zext, {Elem::I64, 1}, {i});
          }();
          const auto picked = b.if_else(
              b.icmp(Pred::eq, b.emit(Op::band, {at, i64(1)}), i64(0)),
              [&] { return std::vector<ValueId>{add(c[0], bits), c[1]}; },
              [&] { return std::vector<ValueId>{c[0], add(mul(c[1], b.meta(1)), bits)}; });
          return std::vector<ValueId>{picked[1], picked[0]};  // carried values trade places
        });
    b.store(sums, mul(block, i64(2)), total[0]);
    b.store(sums, add(mul(block, i64(2)), i64(1)), total[1]);
    b.fail(4, b.icmp(Pred::eq, block, i64(5)));
    b.fail(8, b.icmp(Pred::eq, block, i64(50)));
    h.check();
  }
}

TEST_P(Exact, NonTemporalStoresAndAlignment) {
  Harness h(name("stream_x"), lanes());
  const ObjectId x = h.input(Elem::F32, 1);
  KirBuilder& b = h.b;
  const ObjectId y = h.output(Elem::F32);
  b.for_loop(b.i64(0), b.i64(kCount), b.i64(lanes()), {},
             [&](ValueId at, std::span<const ValueId>) {
               b.store(y, at, b.load(x, h.vec(Elem::F32), at, 4), 4, true);
               return std::vector<ValueId>{};
             });
  h.check();
}

// The math library is made of these instructions; its long chains are what kernels run.
class ExactMath : public Exact {};

TEST_P(ExactMath, EveryFloatFunction) {
  for (const int inputs : {1, 2}) {
    Harness h(name("math" + std::to_string(inputs) + "_x"), lanes());
    const std::vector<ObjectId> in = {h.input(Elem::F32, 0), h.input(Elem::F32, 1)};
    int emitted = 0;
    each(h, in, [&](std::span<const ValueId> v) {
      std::vector<ValueId> out;
      for (int op = 0; op < ir::kOpCount; ++op) {
        const ir::OpInfo& info = ir::op_info(static_cast<ir::OpCode>(op));
        if (info.kind > ir::OpKind::Compare || info.inputs != inputs) continue;
        try {
          out.push_back(math::emit(h.b, info.code, v.first(static_cast<size_t>(inputs)), true));
          ++emitted;
        } catch (const Unsupported&) {
          // Integers only.
        }
      }
      return out;
    });
    EXPECT_GT(emitted, 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Lanes, ExactMath, testing::Values(1, 16));
INSTANTIATE_TEST_SUITE_P(Lanes, Exact, testing::Values(1, 4, 8, 16, 32));

}  // namespace
}  // namespace poot
