// The iteration variables of a kernel: root dims, split where a reshape inside the body needs it,
// then merged where every access allows it.
#pragma once

#include <functional>
#include <vector>

#include "codegen/generate/index_map.h"
#include "passes/request.h"

namespace poot::codegen {

enum class Role : uint8_t { Free, Reduced };

struct RootDim {
  Dim extent;
  Role role = Role::Free;
};

struct IterVar {
  AtomId atom;
  Role role = Role::Free;
};

struct Result {
  NodeId value;
  uint32_t output = 0;  // which output buffer
  Affine index;         // element written
  Guard guard;          // where it is written
};

// A body over final iteration variables: what generators emit.
struct Region {
  explicit Region(SymbolTable symbols) : space(std::move(symbols)) {}
  Space space;
  Expressions nodes;
  std::vector<IterVar> vars;  // outermost first; Free ones before Reduced ones
  std::vector<Check> checks;
  std::vector<Result> results;
  std::optional<Affine> order;  // its factors order free variables, in place of the first result's
  std::vector<bool> live;       // nodes that results and checks reach
  const Dim& extent(const IterVar& v) const { return space.atom(v.atom).bound; }
  std::vector<IterVar> vars_of(Role role) const;
};

// Fills results and checks of a region, given the coordinates of the root dims.
using Walk = std::function<void(Region&, const Coordinates& root)>;

// Runs `walk` until no split is left to make, orders the free variables by the strides of the first
// result, or of `order` (largest first, sizes by their hints) and merges neighbours of one role.
Region build_region(const SymbolTable& symbols, std::vector<RootDim> root, const Walk& walk);

}  // namespace poot::codegen
