// Dispatch of a request to its generator.
#include "codegen/generate/generators.h"
#include "support/errors.h"

namespace poot::codegen {

tile::Program generate(const passes::KernelRequest& request, const Target& target) {
  const ir::Graph& body = *request.body;
  for (uint32_t v = 0; v < body.value_count(); v++)
    if (is_complex(body.type(ir::ValueId(v)).dtype))
      throw Unsupported(request.name, "complex numbers in generated kernels");
  switch (request.kind) {
    case passes::RequestKind::Elementwise:
      return generate_elementwise(request, target);
    case passes::RequestKind::Row:
      return generate_row(request, target);
    case passes::RequestKind::Reduce:
      return generate_reduce(request, target);
    case passes::RequestKind::Scan:
    case passes::RequestKind::ScanParts:
      return generate_scan(request, target);
    case passes::RequestKind::Contraction:
      return generate_contraction(request, target);
    case passes::RequestKind::Scatter:
      return generate_scatter(request, target);
  }
  throw InternalError("generate: unknown request kind");
}

}  // namespace poot::codegen
