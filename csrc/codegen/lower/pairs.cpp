// Interleaved pairs: a row axis of two whose elements lie beside each other in memory while the
// column steps over both (x[2c + r], as in rotary embeddings and complex numbers). As rows they
// would be two passes over every second element; instead both elements of a pair are evaluated at
// one vector of columns, and woven into two consecutive vectors:
//
//   even: a0 a1 …   odd: b0 b1 …   ->   a0 b0 a1 b1 …
#include <algorithm>

#include "codegen/lower/block_lowering.h"

namespace poot::codegen::lowering {

using tile::AxisId;
using KValue = kir::ValueId;

namespace {

bool weaves(const tile::Program& p, const Root& r, AxisId pair) {
  return r.kind == Root::Store && r.column && tile::const_stride(p, r.inst->index, r.column) == 2 &&
         tile::const_stride(p, r.inst->index, pair) == 1 && r.inst->mask.empty();
}

}  // namespace

// The innermost row axis if the nest's stores are such pairs, else none. A GPU's threads share out
// the rows, and its caches join their accesses.
AxisId BlockLowering::pair_axis(const std::vector<Root>& roots) const {
  if (target_.isa != Isa::X86 || roots[0].rows.empty()) return {};
  const AxisId pair = roots[0].rows.back();
  if (emit_.static_extent(pair) != 2) return {};
  bool woven = false;
  for (const Root& r : roots) {
    if (r.kind != Root::Store || r.level != 0 || r.column != roots[0].column) return {};
    woven = woven || weaves(facts_.program(), r, pair);
  }
  return woven ? pair : AxisId();
}

void BlockLowering::pair_positions(const std::vector<const Root*>& roots,
                                   const Emitter::VectorAxis& at) {
  emit_.push_scope();
  emit_.bind_vector(at);
  const auto with_row = [&](int64_t row, auto&& body) {
    emit_.push_scope();
    emit_.bind(pair_, emit_.i64(row));
    body();
    emit_.unbind(pair_);
    emit_.pop_scope();
  };
  std::vector<KValue> values[2];
  for (int64_t row : {0, 1})
    with_row(row, [&] {
      for (const Root* r : roots) values[row].push_back(emit_.exact(r->value, at.lanes));
    });
  for (size_t i = 0; i < roots.size(); ++i) {
    const Root& r = *roots[i];
    if (!at.active && at.lanes > 1 && weaves(facts_.program(), r, pair_)) {
      with_row(0, [&] { emit_.store_woven(*r.inst, values[0][i], values[1][i]); });
      continue;
    }
    for (int64_t row : {0, 1})
      with_row(row, [&] {
        emit_.define(r.value, {values[row][i], {}});
        emit_.store(*r.inst);
      });
  }
  emit_.unbind_vector(at.axis);
  emit_.pop_scope();
}

}  // namespace poot::codegen::lowering
