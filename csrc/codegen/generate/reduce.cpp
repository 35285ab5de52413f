// Reductions over any axes of a pointwise region. Where memory runs along a kept dim, they go
// across it (across.cpp); else columns are the innermost reduced variable, as in row kernels.
//
// Across memory, each thread of a GPU walks the reduced positions alone. Where few columns are kept
// most of the device would idle meanwhile: then each column has a block as a row has, whose
// elements lie apart, which costs a sector of the cache an element.
#include "codegen/generate/generators.h"
#include "codegen/generate/reduction.h"

namespace poot::codegen {
namespace {

constexpr int64_t kResident = 4096;           // a longer reduced axis is reduced by chunks
constexpr int64_t kLongWalk = 64;             // positions
constexpr int64_t kSectorElements = 1 << 19;  // whose sectors pass through the cache quickly

bool takes_columns_apart(const passes::KernelRequest& request, const Region& region,
                         const ReductionShape& shape, const Target& target) {
  if (target.isa != Isa::Ptx || !request.parts.is_const(1)) return false;
  if (region.vars_of(Role::Reduced).size() > 1) return false;
  const SymbolTable& symbols = request.body->symbols();
  const int64_t kept = numel(shape.kept).hint(symbols),
                reduced = numel(shape.reduced).hint(symbols);
  return reduced >= kLongWalk && kept * reduced <= kSectorElements;
}

}  // namespace

tile::Program generate_reduce(const passes::KernelRequest& request, const Target& target) {
  const auto shape = reduction_shape(*request.body);
  if (!shape) return generate_elementwise(request, target);
  const Region region = reduction_region(request, *shape, false);
  if (has_moments(region)) return emit_rows(request, region, target, kResident);
  if (runs_across(region) && !takes_columns_apart(request, region, *shape, target))
    return emit_across(request, region, target);
  if (!request.parts.is_const(1)) return emit_partial_rows(request, region, target);
  return emit_rows(request, region, target, kResident);
}

}  // namespace poot::codegen
