// The CPU oracle: evaluates any graph, regions included, with plain loops. The definition of a
// right answer for the compiler's own tests; slow on purpose. Opaque equations need a callback.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace poot::ir {

// A dense row-major tensor; `data` holds bits of dtype, byte_size(dtype) an element.
struct HostArray {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
  int64_t numel() const;
  uint64_t bits(int64_t i) const;
  void set_bits(int64_t i, uint64_t b);
  static HostArray zeros(DType dtype, std::vector<int64_t> shape);
};

struct OracleOptions {
  std::function<std::vector<HostArray>(const Eqn&, std::span<const HostArray>)> opaque;
};

// Inputs in graph order (logical contents; layouts do not matter here); results in output order.
// `symbols` gives each size symbol's value. Throws Error on a bad index or integer division by
// zero.
std::vector<HostArray> evaluate(const Graph& graph, std::span<const HostArray> inputs,
                                std::span<const int64_t> symbols,
                                const OracleOptions& options = {});

}  // namespace poot::ir
