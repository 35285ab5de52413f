// Dispatch on the instruction set: each target's lowering is its own set of files here.
#include "codegen/codegen.h"

namespace poot::codegen {

kir::Kernel lower(const tile::Program& program, const Target& target) {
  switch (target.isa) {
    case Isa::X86:
      return lower_cpu(program, target);
    case Isa::Ptx:
      return lower_gpu(program, target);
  }
  throw InternalError("lower: unknown instruction set");
}

}  // namespace poot::codegen
