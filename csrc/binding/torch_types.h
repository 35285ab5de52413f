// Dtypes of poot and of torch, one to one.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "support/dtype.h"
#include "support/errors.h"

namespace poot::binding {

inline at::ScalarType to_torch(DType d) {
  constexpr at::ScalarType table[] = {
      at::kBool, at::kByte,     at::kChar,  at::kShort,  at::kInt,          at::kLong,
      at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble};
  return table[static_cast<int>(d)];
}

inline DType from_torch(at::ScalarType s) {
  for (int d = 0; d <= static_cast<int>(DType::C128); ++d)
    if (to_torch(static_cast<DType>(d)) == s) return static_cast<DType>(d);
  throw Unsupported(std::string("dtype ") + c10::toString(s), "poot has no such element type");
}

}  // namespace poot::binding
