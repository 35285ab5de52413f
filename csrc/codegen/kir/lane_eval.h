// What one lane of an instruction computes: the arithmetic of KIR, without memory or control.
#pragma once

#include "codegen/kir/kir.h"

namespace poot::kir {

// Operands and result are raw bits, zero above the width of their element. `from` is the element of
// operand 0, `to` that of the result. Throws InvalidGraph kir-run-C5 where an instruction is
// undefined (division by zero, a shift by the width).
uint64_t eval_lane(const Inst& inst, Elem from, Elem to, uint64_t a, uint64_t b, uint64_t c);

// acc + a[1] * b[1] + a[0] * b[0]: dot_pairs of one lane.
uint64_t dot_pair(uint64_t acc, const uint64_t* a, const uint64_t* b);

// One step of a reduce_ instruction: lane i op lane i + n/2.
uint64_t combine_lanes(Op reduction, Elem e, uint64_t a, uint64_t b);

// What an atomic_ instruction makes of what is there and its operand.
uint64_t combine_atomically(Op atomic, Elem e, uint64_t there, uint64_t operand);

int64_t sign_extend(uint64_t bits, int64_t width);

}  // namespace poot::kir
