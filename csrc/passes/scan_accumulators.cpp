#include "ir/scalar_eval.h"
#include "passes/request.h"

namespace poot::passes {

// Logarithms in f64 are many instructions on a GPU, where eager adds them in f32 too.
std::vector<DType> scan_accumulators(const ir::Graph& body, Isa isa) {
  const ir::Eqn& scan = body.eqns()[0];
  const DType d = body.type(scan.outs[0]).dtype;
  const bool gpu = isa == Isa::Ptx;
  if (scan.outs.size() == 2) return {gpu ? opmath(d) : d, body.type(scan.outs[1]).dtype};
  return {gpu && scan.op == ir::OpCode::scan_logaddexp ? opmath(d) : ir::scan_accumulator(d)};
}

}  // namespace poot::passes
