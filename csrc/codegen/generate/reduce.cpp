// Reductions over any axes of a pointwise region. Where memory runs along a kept dim, they go
// across it (across.cpp); else columns are the innermost reduced variable, as in row kernels.
#include "codegen/generate/generators.h"
#include "codegen/generate/reduction.h"

namespace poot::codegen {
namespace {

constexpr int64_t kResident = 4096;  // a longer reduced axis is reduced by chunks

}  // namespace

tile::Program generate_reduce(const passes::KernelRequest& request, const Target& target) {
  const auto shape = reduction_shape(*request.body);
  if (!shape) return generate_elementwise(request, target);
  const Region region = reduction_region(request, *shape, false);
  if (runs_across(region)) return emit_across(request, region, target);
  if (!request.parts.is_const(1)) return emit_partial_rows(request, region, target);
  return emit_rows(request, region, target, kResident);
}

}  // namespace poot::codegen
