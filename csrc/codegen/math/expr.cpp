#include "codegen/math/expr.h"

#include <bit>

namespace poot::math {

Expr Expr::like(double v, Elem e) const {
  if (e == Elem::F32) return bits(std::bit_cast<uint32_t>(static_cast<float>(v)), e);
  if (e == Elem::F64) return bits(std::bit_cast<uint64_t>(v), e);
  return bits(static_cast<uint64_t>(static_cast<int64_t>(v)), e);
}

Expr horner(Expr x, std::initializer_list<double> coefficients) {
  const double* c = coefficients.begin();
  Expr sum = x.like(*c++);
  for (; c != coefficients.end(); ++c) sum = fma(sum, x, x.like(*c));
  return sum;
}

Expr any(Expr mask) {
  return mask.type().lanes == 1 ? mask : mask.op1(Op::reduce_or);
}

Expr lookup(std::string_view name, std::span<const float> table, Expr index) {
  std::vector<uint64_t> bits;
  for (float v : table) bits.push_back(std::bit_cast<uint32_t>(v));
  auto& b = index.builder();
  return {b, b.lookup(b.table(name, Elem::F32, bits), index.id())};
}

Expr lookup(std::string_view name, std::span<const double> table, Expr index) {
  std::vector<uint64_t> bits;
  for (double v : table) bits.push_back(std::bit_cast<uint64_t>(v));
  auto& b = index.builder();
  return {b, b.lookup(b.table(name, Elem::F64, bits), index.id())};
}

}  // namespace poot::math
