// Runs one tile program twice, with the tile interpreter and as lowered KIR, on the same random
// buffers, and compares what they wrote.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "codegen/codegen.h"
#include "ir/scalar_eval.h"

namespace poot::lowering_test {

inline Target cpu_target(uint32_t vector_bytes = 64) {
  Target t;
  t.isa = Isa::X86;
  t.vector_bytes = vector_bytes;
  return t;
}

struct Data {
  DType dtype = DType::F32;
  std::vector<std::byte> bytes;

  Data(DType d, int64_t n)
      : dtype(d), bytes(static_cast<size_t>(std::max<int64_t>(n, 0) * byte_size(d))) {}
  int64_t size() const { return static_cast<int64_t>(bytes.size()) / byte_size(dtype); }
  ir::Bits get(int64_t i) const {
    ir::Bits b = 0;
    std::memcpy(&b, bytes.data() + i * byte_size(dtype), static_cast<size_t>(byte_size(dtype)));
    return b;
  }
  void set(int64_t i, ir::Bits b) {
    std::memcpy(bytes.data() + i * byte_size(dtype), &b, static_cast<size_t>(byte_size(dtype)));
  }
  // Floats in [-4, 4], integers in [-9, 9] (bytes 0..9), bools.
  static Data random(DType d, int64_t n, uint32_t seed) {
    Data out(d, n);
    std::mt19937 rng(seed);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t whole = static_cast<int64_t>(rng() % 19) - 9;
      if (is_float(d))
        out.set(i, ir::from_double(static_cast<double>(rng()) / 536870912.0 - 4.0, d));
      else if (d == DType::Bool)
        out.set(i, rng() & 1);
      else
        out.set(i, ir::from_int(d == DType::U8 ? std::abs(whole) : whole, d));
    }
    return out;
  }
};

// Distance in units of the last place; NaN equals NaN.
inline double ulps(ir::Bits a, ir::Bits b, DType d) {
  if (a == b) return 0;
  if (!is_float(d)) return INFINITY;
  const double x = ir::to_double(a, d), y = ir::to_double(b, d);
  if (std::isnan(x) && std::isnan(y)) return 0;
  if (x == y) return 0;
  if (!std::isfinite(x) || !std::isfinite(y)) return INFINITY;
  const int bits = d == DType::F32 ? 23 : d == DType::F64 ? 52 : d == DType::F16 ? 10 : 7;
  const double m = std::max({std::abs(x), std::abs(y), 1e-30});
  return std::abs(x - y) / std::exp2(std::floor(std::log2(m)) - bits);
}

struct Outcome {
  uint32_t status = 0;
  std::vector<Data> buffers;
};

inline std::vector<std::span<std::byte>> spans(std::vector<Data>& data) {
  std::vector<std::span<std::byte>> out;
  for (Data& d : data) out.emplace_back(d.bytes);
  return out;
}

inline Outcome run_tiles(const tile::Program& p, std::vector<Data> data,
                         std::span<const int64_t> symbols) {
  Outcome o;
  o.buffers = std::move(data);
  o.status = tile::interpret(p, spans(o.buffers), symbols);
  return o;
}

inline Outcome run_kir(const tile::Program& p, const kir::Kernel& k, std::vector<Data> data,
                       std::span<const int64_t> symbols) {
  Outcome o;
  o.buffers = std::move(data);
  kir::RunArgs args;
  args.buffers = spans(o.buffers);
  for (const Dim& d : p.meta) args.meta.push_back(d.eval(symbols));
  uint32_t blocks = 1;
  for (int i = 0; i < 3; ++i) {
    args.grid[i] = static_cast<uint32_t>(p.grid[i].eval(symbols));
    blocks *= args.grid[i];
  }
  o.status = kir::interpret(k, args, 0, blocks);
  return o;
}

inline void expect_equal(const Outcome& a, const Outcome& b, double limit,
                         const std::string& what) {
  EXPECT_EQ(a.status, b.status) << what;
  for (size_t i = 0; i < a.buffers.size(); ++i) {
    const Data &x = a.buffers[i], &y = b.buffers[i];
    for (int64_t k = 0; k < x.size(); ++k) {
      const double u = ulps(x.get(k), y.get(k), x.dtype);
      if (u > limit) {
        ADD_FAILURE() << what << ": buffer " << i << " element " << k << " is "
                      << ir::to_double(y.get(k), y.dtype) << ", the tile program gives "
                      << ir::to_double(x.get(k), x.dtype) << " (" << u << " ulp)";
        return;
      }
    }
  }
}

// `data`: one entry a buffer; written buffers as they are before the run.
inline void compare(const tile::Program& p, const std::vector<Data>& data,
                    std::vector<int64_t> symbols = {}, double limit = 0,
                    uint32_t vector_bytes = 64) {
  const kir::Kernel k = codegen::lower_cpu(p, cpu_target(vector_bytes));
  const Outcome tiles = run_tiles(p, data, symbols), lanes = run_kir(p, k, data, symbols);
  std::string what = p.name;
  for (int64_t s : symbols) what += " " + std::to_string(s);
  expect_equal(tiles, lanes, limit, what);
  if (::testing::Test::HasFailure() && std::getenv("POOT_SHOW_KIR"))
    printf("%s\n%s\n", p.str().c_str(), k.str().c_str());
}

inline constexpr int64_t kLengths[] = {0, 1, 15, 16, 17, 63, 64, 65, 4095, 4096, 4097};

}  // namespace poot::lowering_test
