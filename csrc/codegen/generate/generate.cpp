// Dispatch of a request to its generator.
#include "codegen/generate/generators.h"
#include "support/errors.h"

namespace poot::codegen {

namespace {

// Results that will not stay in the caches are stored past them: reading their lines first would
// cost a third of the traffic. Measured to pay from 8 MB on, and not at 2 MB.
constexpr int64_t kNontemporalBytes = 6 << 20;

bool bypasses_cache(const passes::KernelRequest& request) {
  const ir::Graph& body = *request.body;
  int64_t bytes = 0;
  for (const ir::GraphOutput& o : body.outputs()) {
    const ir::TensorType& t = body.type(o.value);
    bytes += numel(t.shape).hint(body.symbols()) * byte_size(t.dtype);
  }
  return request.kind != passes::RequestKind::Scatter && bytes >= kNontemporalBytes;
}

tile::Program dispatch(const passes::KernelRequest& request, const Target& target) {
  switch (request.kind) {
    case passes::RequestKind::Elementwise:
      return generate_elementwise(request, target);
    case passes::RequestKind::Row:
      return generate_row(request, target);
    case passes::RequestKind::Reduce:
      return generate_reduce(request, target);
    case passes::RequestKind::Scatter:
      return generate_scatter(request, target);
  }
  throw InternalError("generate: unknown request kind");
}

}  // namespace

tile::Program generate(const passes::KernelRequest& request, const Target& target) {
  const ir::Graph& body = *request.body;
  for (uint32_t v = 0; v < body.value_count(); v++)
    if (is_complex(body.type(ir::ValueId(v)).dtype))
      throw Unsupported(request.name, "complex numbers in generated kernels");
  tile::Program program = dispatch(request, target);
  program.schedule.nontemporal = bypasses_cache(request);
  return program;
}

}  // namespace poot::codegen
