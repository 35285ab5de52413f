// What evaluating values costs, in about the instructions of one vector.
#include <algorithm>

#include "codegen/lower/block_lowering.h"
#include "ir/cost_class.h"

namespace poot::codegen::lowering {

using ir::OpCode;
using tile::AxisId;
using tile::ValueId;

int BlockLowering::op_cost(const tile::Inst& inst, AxisId column) const {
  if (inst.op == tile::Op::load) {
    const auto stride = tile::const_stride(facts_.program(), inst.index, column);
    const bool vector = stride == 1 || stride == 0 || stride == -1 || stride == 2;
    return !vector ? 16 : is_half(facts_.program().type(inst.results[0]).dtype) ? 2 : 1;
  }
  if (inst.op != tile::Op::pointwise) return inst.op == tile::Op::index_tile ? 2 : 0;
  const int rounding = is_half(inst.dtype) ? 3 : 0;
  switch (ir::cost_class(inst.pointwise)) {
    case ir::CostClass::Transcendental:
      return 24 + rounding;
    case ir::CostClass::Power:
    case ir::CostClass::Modulo:
      return 64;
    case ir::CostClass::Divide:
      return 10 + rounding;
    case ir::CostClass::Simple:
      return 1 + rounding;
  }
  return 1 + rounding;
}

PhaseCost BlockLowering::phase_cost(const std::vector<const Root*>& roots, AxisId column,
                                    const std::unordered_set<uint32_t>& at_hand) const {
  PhaseCost cost;
  std::unordered_set<uint32_t> seen;
  const auto width = [&](DType d) {
    cost.widest = std::max<int>(cost.widest, static_cast<int>(std::min<int64_t>(byte_size(d), 4)));
  };
  const auto access = [&](tile::IndexId i, DType d) {
    const auto stride = tile::const_stride(facts_.program(), i, column);
    if (stride == 0) return;
    (stride == 1 && d == DType::BF16 ? cost.bf16 : cost.other)++;
  };
  const auto visit = [&](auto&& self, ValueId v) -> void {
    if ((facts_.deps(v) & TileFacts::bit(column)) == 0 || !seen.insert(v.index).second) return;
    const DType d = facts_.program().type(v).dtype;
    width(d);
    const tile::Inst* inst = facts_.def(v);
    if (emit_.is_kept(v) || at_hand.contains(v.index) || inst == nullptr || is_control(*inst) ||
        facts_.reduces(*inst)) {
      cost.ops += 1;
      cost.bf16 += d == DType::BF16;
      return;
    }
    cost.ops += op_cost(*inst, column);
    if (inst->op == tile::Op::load) {
      cost.buffers.insert(inst->buffer.index);
      cost.loads.push_back(inst);
      access(inst->index, d);
    }
    cost.guards = cost.guards || (facts_.deps(inst->mask) & TileFacts::bit(column)) != 0;
    if (inst->op == tile::Op::pointwise && inst->pointwise != OpCode::select)
      for (ValueId a : inst->args) width(opmath(facts_.program().type(a).dtype));
    if (inst->op == tile::Op::load && op_cost(*inst, column) > 2) cost.widest = 4;
    for (ValueId a : facts_.operands(*inst)) self(self, a);
  };
  for (const Root* r : roots) {
    for (ValueId v : root_operands(*r)) visit(visit, v);
    width(facts_.program().type(r->value).dtype);
    if (r->kind == Root::Store) access(r->inst->index, facts_.program().type(r->value).dtype);
    if (r->kind == Root::Reduce) width(opmath(facts_.program().type(r->value).dtype));
    if (r->kind == Root::Store && tile::const_stride(facts_.program(), r->inst->index, column) != 1)
      cost.widest = 4;
  }
  return cost;
}

}  // namespace poot::codegen::lowering
