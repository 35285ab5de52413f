// The meaning of every pointwise op on one element: the reference that the oracle, constant
// folding and the tile interpreter share. Elements travel as bits of their dtype in a uint64.
#pragma once

#include <cstdint>
#include <span>

#include "ir/graph.h"

namespace poot::ir {

using Bits = uint64_t;
enum class ScalarFault : uint8_t { None, DivideByZero };

double to_double(Bits b, DType d);    // exact for every dtype but i64 beyond 2^53
int64_t to_int(Bits b, DType d);      // floats truncate, saturating; bool 0/1
Bits from_double(double v, DType d);  // rounds to nearest even
Bits from_int(int64_t v, DType d);    // wraps
Bits bits_of(const Scalar& s);

// One element of a pointwise op (kinds Unary…Cast). `dtype` is the operands' dtype (of operand 1
// for select), `to` the result's. Computes in opmath and rounds as the op's row says.
Bits eval_pointwise(OpCode op, DType dtype, DType to, std::span<const Bits> args,
                    ScalarFault* fault);
// Identity and step of a reduction, in its accumulation dtype.
// What a scan of this dtype accumulates in.
constexpr DType scan_accumulator(DType d) {
  return d == DType::F32 ? DType::F64 : opmath(d);
}
Bits reduce_identity(OpCode op, DType accumulate);
Bits reduce_step(OpCode op, DType accumulate, Bits a, Bits b);

}  // namespace poot::ir
