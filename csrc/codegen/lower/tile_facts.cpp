// One walk in program order: operands are defined before their users, and the index pool is in
// topological order too, except that an index may name a value (Loaded, Scalar) whose own
// dependences come first in the program. So index dependences are computed on demand.
#include "codegen/lower/tile_facts.h"

#include <algorithm>
#include <bit>
#include <ranges>

namespace poot::codegen {

using tile::IndexId;
using tile::IndexOp;
using tile::ValueId;

TileFacts::TileFacts(const tile::Program& program) : program_(program) {
  if (program.axes.size() > 64) throw Unsupported("tile program " + program.name, "over 64 axes");
  const size_t n = program.types.size();
  defs_.assign(n, nullptr);
  runs_.assign(n, 0);
  escapes_.assign(n, 0);
  live_.assign(n, 0);
  deps_.assign(n, 0);
  for (size_t v = 0; v < n; ++v) {
    const auto& axes = program.types[v].axes;
    deps_[v] = axes_of(program.types[v]);
    for (size_t d = 0; d + 1 < axes.size(); ++d)
      if (axes[d]) row_axes_ |= bit(axes[d]);
  }
  uint32_t next_run = 1;
  visit(program.body, next_run);
  compute_index_deps(static_cast<uint32_t>(program.index.size()));
  std::vector<ValueId> extents;
  for (const tile::Axis& a : program.axes) index_values(a.extent, extents);
  for (ValueId v : extents) live_[v.index] = escapes_[v.index] = 1;
  mark_live(program.body);
  ends_narrow_.assign(program.types.size(), 1);
  mark_wide(program.body);
}

AxisSet TileFacts::axes_of(const tile::Type& type) {
  AxisSet set = 0;
  for (tile::AxisId a : type.axes)
    if (a) set |= bit(a);
  return set;
}

AxisSet TileFacts::deps(const tile::Mask& mask) const {
  AxisSet set = 0;
  for (const tile::MaskTerm& t : mask) set |= deps(t.index) | deps(t.lo) | deps(t.hi);
  return set;
}

void TileFacts::index_values(IndexId i, std::vector<ValueId>& out) const {
  if (!i) return;
  const tile::IndexNode& n = program_.index.at(i.index);
  switch (n.op) {
    case IndexOp::Scalar:
    case IndexOp::Loaded:
      out.push_back(ValueId(n.ref));
      return;
    case IndexOp::Const:
    case IndexOp::Coord:
    case IndexOp::Meta:
      return;
    default:
      index_values(n.a, out);
      index_values(n.b, out);
  }
}

bool TileFacts::reduces(const tile::Inst& inst) const {
  if (inst.op == tile::Op::dot || inst.op == tile::Op::scan) return true;
  return inst.op == tile::Op::reduce && program_.type(inst.args[0]).axes.at(inst.axis);
}

// The coordinate of an axis of capacity 1 is the constant 0, so an index does not name it; yet
// where its extent is 0 there is nothing to load.
AxisSet TileFacts::possibly_empty(const tile::Type& type) const {
  AxisSet set = 0;
  for (tile::AxisId a : type.axes) {
    if (!a || program_.axes.at(a.index).capacity > 1) continue;
    const tile::IndexNode& extent = program_.index.at(program_.axes[a.index].extent.index);
    if (extent.op != IndexOp::Const || extent.value != 1) set |= bit(a);
  }
  return set;
}

std::vector<ValueId> TileFacts::operands(const tile::Inst& inst) const {
  std::vector<ValueId> out = inst.args;
  index_values(inst.index, out);
  index_values(inst.index_hi, out);
  for (const tile::MaskTerm& t : inst.mask) {
    index_values(t.index, out);
    index_values(t.lo, out);
    index_values(t.hi, out);
  }
  return out;
}

void TileFacts::note_uses(const tile::Inst& inst, uint32_t run) {
  for (ValueId v : operands(inst))
    if (runs_[v.index] != run) escapes_[v.index] = 1;
}

// Pool nodes refer to earlier nodes only (interning builds bottom up), and values named by a node
// were defined, and so had their dependences computed, before the node was made: but the pool knows
// no order relative to instructions. Hence two alternating passes until nothing changes: depth of
// indirection is small.
void TileFacts::compute_index_deps(uint32_t count) {
  index_deps_.assign(count, 0);
  bool changed = true;
  while (changed) {
    changed = false;
    for (uint32_t i = 0; i < count; ++i) {
      const tile::IndexNode& n = program_.index[i];
      AxisSet set = 0;
      if (n.op == IndexOp::Coord) set = AxisSet{1} << n.ref;
      if (n.op == IndexOp::Loaded || n.op == IndexOp::Scalar) set = deps_.at(n.ref);
      if (n.a) set |= index_deps_[n.a.index];
      if (n.b) set |= index_deps_[n.b.index];
      if (set != index_deps_[i]) index_deps_[i] = set, changed = true;
    }
    for (uint32_t v = 0; v < deps_.size(); ++v) {
      const tile::Inst* d = defs_[v];
      if (d == nullptr || is_control(*d) || reduces(*d)) continue;
      AxisSet set = deps(d->mask);
      if (d->index) set |= index_deps_[d->index.index];
      if (d->op == tile::Op::load) set |= possibly_empty(program_.types[v]);
      for (ValueId a : d->args) set |= deps_[a.index];
      if (set != deps_[v]) deps_[v] = set, changed = true;
    }
  }
}

void TileFacts::visit(const tile::Block& block, uint32_t& next_run) {
  uint32_t run = next_run++;
  for (const tile::Inst& inst : block.insts) {
    if (is_control(inst)) {
      const uint32_t control = next_run++;
      note_uses(inst, control);
      for (const tile::Block& b : inst.blocks) visit(b, next_run);
      for (ValueId r : inst.results) defs_[r.index] = &inst, runs_[r.index] = control;
      run = next_run++;
      continue;
    }
    // A yield hands its operands to the enclosing instruction.
    note_uses(inst, inst.op == tile::Op::yield ? 0 : run);
    for (ValueId r : inst.results) defs_[r.index] = &inst, runs_[r.index] = run;
    for (const tile::Block& b : inst.blocks) visit(b, next_run);
    // Elementwise values start from nothing: compute_index_deps adds what their operands vary with.
    if (inst.op == tile::Op::dot)
      for (const tile::AxisId a : program_.type(inst.results[0]).axes | std::views::reverse)
        if (a) {
          dot_columns_ |= bit(a);
          break;
        }
    if (reduces(inst))
      reduced_axes_ |= bit(tile::joined_axes(program_, inst.args)[inst.axis]);
    else
      for (ValueId r : inst.results) deps_[r.index] = 0;
  }
}

void TileFacts::mark_live(const tile::Block& block) {
  for (auto it = block.insts.rbegin(); it != block.insts.rend(); ++it) {
    const tile::Inst& inst = *it;
    bool needed = inst.results.empty() || is_control(inst);
    for (ValueId r : inst.results) needed |= live_[r.index] != 0;
    if (!needed) continue;
    for (ValueId v : operands(inst)) live_[v.index] = 1;
    for (const tile::Block& b : inst.blocks) mark_live(b);
  }
}

namespace {

// A relative error of an operand is one of the result, no larger.
bool passes_error_on(const tile::Inst& inst) {
  if (inst.op == tile::Op::broadcast) return true;
  if (inst.op == tile::Op::reduce)
    return inst.pointwise == ir::OpCode::reduce_sum || inst.pointwise == ir::OpCode::reduce_max;
  if (inst.op != tile::Op::pointwise) return false;
  switch (inst.pointwise) {
    case ir::OpCode::add:
    case ir::OpCode::mul:
    case ir::OpCode::fma:
    case ir::OpCode::div:
    case ir::OpCode::neg:
    case ir::OpCode::select:
    case ir::OpCode::sqrt:
    case ir::OpCode::rsqrt:
    case ir::OpCode::reciprocal:
    case ir::OpCode::maximum:
    case ir::OpCode::minimum:
      return true;
    default:
      return false;
  }
}

bool rounds_to_half(const tile::Inst& inst) {
  return inst.op == tile::Op::pointwise && inst.pointwise == ir::OpCode::cast &&
         (inst.dtype == DType::F16 || inst.dtype == DType::BF16);
}

}  // namespace

// Backwards, so that what becomes of a result is known before its operands are looked at.
void TileFacts::mark_wide(const tile::Block& block) {
  for (auto it = block.insts.rbegin(); it != block.insts.rend(); ++it) {
    const tile::Inst& inst = *it;
    for (const tile::Block& b : inst.blocks) mark_wide(b);
    if (rounds_to_half(inst)) continue;
    const bool follows = passes_error_on(inst) && ends_narrow_[inst.results[0].index] != 0 &&
                         program_.type(inst.results[0]).dtype == DType::F32;
    if (follows) continue;
    for (ValueId v : operands(inst)) ends_narrow_[v.index] = 0;
  }
}

namespace {
constexpr uint64_t kVectorFactor = 64;  // of a size; no vector has more elements
}

uint64_t TileFacts::known_factor(IndexId i, tile::AxisId zeroed) const {
  const tile::IndexNode& n = program_.index.at(i.index);
  const uint64_t kLargest = uint64_t{1} << 32;
  const auto factor = [&](int64_t v) {
    return v == 0 ? 0 : std::min(kLargest, uint64_t{1} << std::countr_zero<uint64_t>(v));
  };
  switch (n.op) {
    case IndexOp::Const:
      return factor(n.value);
    case IndexOp::Coord:
      return zeroed && n.ref == zeroed.index ? 0 : 1;
    case IndexOp::Add:
    case IndexOp::Min:
    case IndexOp::Max: {
      const uint64_t a = known_factor(n.a, zeroed), b = known_factor(n.b, zeroed);
      if (a == 0 || b == 0) return a | b;
      return std::min(a, b);
    }
    case IndexOp::Mul: {
      const uint64_t a = known_factor(n.a, zeroed), b = known_factor(n.b, zeroed);
      return a == 0 || b == 0 ? 0 : std::min(kLargest, std::min(a, kLargest / b) * b);
    }
    case IndexOp::Meta: {
      const Dim& size = program_.meta.at(static_cast<size_t>(n.value));
      uint64_t f = 1;
      while (f < kVectorFactor && size.divisible_by(static_cast<int64_t>(2 * f))) f *= 2;
      return f;
    }
    default:
      return 1;
  }
}

bool TileFacts::non_negative(IndexId i) const {
  const tile::IndexNode& n = program_.index.at(i.index);
  switch (n.op) {
    case IndexOp::Const:
      return n.value >= 0;
    case IndexOp::Coord:
      return true;
    case IndexOp::Scalar: {
      const tile::Inst* d = def(ValueId(n.ref));
      if (d == nullptr) return false;
      if (d->op == tile::Op::scalar_index) return non_negative(d->index);
      return d->op == tile::Op::block_id;
    }
    case IndexOp::Mod:
      return true;
    case IndexOp::Max:
      return non_negative(n.a) || non_negative(n.b);
    case IndexOp::Add:
    case IndexOp::Mul:
    case IndexOp::Div:
    case IndexOp::Min:
      return non_negative(n.a) && non_negative(n.b);
    default:
      return false;
  }
}

}  // namespace poot::codegen
