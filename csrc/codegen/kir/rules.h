// The rules of one instruction: operands, types, attributes, objects. The builder, the parser and
// the verifier ask the same question here; what needs the surrounding blocks (scopes, yields) is
// in verify.cpp.
#pragma once

#include <optional>
#include <string>

#include "codegen/kir/kir.h"

namespace poot::kir {

struct Broken {
  std::string constraint, detail;
};

// The type of the result where the operands decide it (same, mask, reductions); nullopt for none
// and for results that the instruction states. The operands must exist.
std::optional<Type> inferred_type(const Kernel& k, const Inst& inst);

// The first rule that the instruction breaks. Operand ids must lie inside k.types.
std::optional<Broken> check_inst(const Kernel& k, const Inst& inst);

}  // namespace poot::kir
