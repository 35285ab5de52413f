// Requests of matrix products, for tests of their generators.
#pragma once

#include "tile_harness.h"

namespace poot::testing {

// y [m, n] = x [m, k] w [k, n], either operand stored the other way round if asked.
inline TileCase product(const std::string& dtype, int64_t m, int64_t n, int64_t k,
                        bool turned_x = false, bool turned_w = false) {
  const auto type = [&](int64_t a, int64_t b) {
    return dtype + "[" + std::to_string(a) + "," + std::to_string(b) + "]";
  };
  std::string text = "graph @product(%x: " + (turned_x ? type(k, m) : type(m, k)) +
                     ", %w: " + (turned_w ? type(n, k) : type(k, n)) + ") -> (" + type(m, n) +
                     ") {\n";
  if (turned_x) text += "%0 = transpose %x {perm=[1,0]} : " + type(m, k) + "\n";
  if (turned_w) text += "%1 = transpose %w {perm=[1,0]} : " + type(k, n) + "\n";
  text += std::string("%2 = matmul ") + (turned_x ? "%0" : "%x") + ", " + (turned_w ? "%1" : "%w") +
          " : " + type(m, n) + "\nreturn %2\n}";
  const double steps = std::sqrt(static_cast<double>(k) + 1);
  const double tolerance = dtype == "bf16"  ? 0.02 + 1e-6 * steps
                           : dtype == "f16" ? 3e-3
                           : dtype == "f64" ? 1e-13
                                            : 2e-6 * steps;
  return {
      .kind = passes::RequestKind::Contraction, .graph = std::move(text), .tolerance = tolerance};
}

// x [a, b, k] by w [70, k] in bf16, with scales, a bias, a maximum and a residual after it.
inline TileCase product_with_what_follows(int64_t a, int64_t b, int64_t k, double tolerance) {
  const std::string rows = std::to_string(a * b), depth = std::to_string(k);
  const std::string in = "bf16[" + std::to_string(a) + "," + std::to_string(b) + "," + depth + "]";
  const std::string out = "bf16[" + std::to_string(a) + "," + std::to_string(b) + ",70]";
  const std::string flat = "bf16[" + rows + ",70]";
  return {.kind = passes::RequestKind::Contraction,
          .graph = "graph @linear(%b: bf16[70], %x: " + in + ", %w: bf16[70," + depth +
                   "], %r: " + out + ") -> (" + out + ", " + flat +
                   ") {\n%0 = transpose %w {perm=[1,0]} : bf16[" + depth +
                   ",70]\n%1 = reshape %x {shape=[" + rows + "," + depth + "]} : bf16[" + rows +
                   "," + depth + "]\n%2 = addmm %b, %1, %0 {alpha=0.5, beta=2} : " + flat +
                   "\n%3 = reshape %2 {shape=[" + std::to_string(a) + "," + std::to_string(b) +
                   ",70]} : " + out + "\n%4 = maximum %3, bf16 0 : " + out +
                   "\n%5 = add %4, %r : " + out + "\nreturn %5, %2\n}",
          .tolerance = tolerance};
}

}  // namespace poot::testing
