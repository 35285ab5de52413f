// bf16 vectors are widened and narrowed in halves of even and odd lanes, where that saves work:
//
//   b3 b2 b1 b0  (two to a 32-bit word)  ->  even: word << 16,  odd: word & 0xffff0000
//   even >> 16 | odd & 0xffff0000        <-  both
//
// one or two instructions a half, where widening in order takes a shuffle each and narrowing two.
// What is computed lane by lane may stay in halves. Values that are joined by such instructions, by
// loops and by private arrays form a set; a set is held in halves if more conversions to and from
// bf16 gain by it than other instructions lose, which need their lanes in order. An array holds
// halves if all its accesses are of the same number of lanes, at multiples of it.
#include "codegen/llvm/even_odd.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace poot::codegen {

using kir::Elem;
using kir::Op;

namespace {

bool is_wide(Elem e) {
  return e == Elem::I1 || kir::bit_width(e) >= 32;
}

// Neither the value nor the order of the lanes matters to them.
bool ignores_order(Op op) {
  switch (op) {
    case Op::reduce_iadd:
    case Op::reduce_imul:
    case Op::reduce_smax:
    case Op::reduce_smin:
    case Op::reduce_or:
    case Op::reduce_and:
      return true;
    default:
      return false;
  }
}

bool crosses_lanes(Op op) {
  switch (op) {
    case Op::constant:
    case Op::dot_pairs:
    case Op::splat:
    case Op::lane_ids:
    case Op::extract:
    case Op::insert:
    case Op::shuffle:
    case Op::reduce_fadd:
    case Op::reduce_fmul:
    case Op::reduce_fmax:
    case Op::reduce_fmin:
    case Op::load:
    case Op::load_masked:
    case Op::gather:
    case Op::store:
    case Op::store_masked:
    case Op::scatter:
      return true;
    default:
      return false;
  }
}

bool narrows_bf16(const kir::Inst& i) {
  return i.op == Op::fptrunc && i.type.elem == Elem::BF16;
}

}  // namespace

EvenOdd::EvenOdd(const kir::Kernel& kernel, unsigned least)
    : kernel_(kernel), least_(least), held_(kernel.types.size()) {
  if (least == 0) return;
  const size_t values = kernel.types.size(), all = values + kernel.objects.size();
  uniform_.resize(values);
  factor_.resize(values);
  parent_.resize(all);
  std::iota(parent_.begin(), parent_.end(), 0u);
  gain_.resize(all);
  accessed_.resize(kernel.objects.size());
  seek_arrays(kernel.body);
  visit(kernel.body, 0);
  for (uint32_t v = 0; v < values; ++v) {
    held_[v] = !uniform_[v] && may_hold(kernel.types[v]) && gain_[root(v)] > 0;
    any_ = any_ || held_[v];
  }
}

bool EvenOdd::may_hold(kir::Type t) const {
  return t.lanes >= least_ && t.lanes % 2 == 0 && is_wide(t.elem);
}

uint32_t EvenOdd::root(uint32_t x) {
  while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
  return x;
}

void EvenOdd::join(uint32_t a, uint32_t b) {
  a = root(a), b = root(b);
  if (a == b) return;
  parent_[b] = a;
  gain_[a] += gain_[b];
}

// An access to an array that may hold halves.
bool EvenOdd::is_access(const Inst& inst) const {
  return !kir::op_info(inst.op).has("table") && kir::op_info(inst.op).has("object") &&
         kernel_.objects[inst.object.index].kind == kir::ObjectKind::Private &&
         accessed_[inst.object.index] > 1;
}

int64_t EvenOdd::array_size(kir::ObjectId array) const {
  const int64_t size = kernel_.objects[array.index].size;
  const int64_t lanes = accessed_.empty() ? 1 : std::max<int64_t>(accessed_[array.index], 1);
  return (size + lanes - 1) / lanes * lanes;
}

bool EvenOdd::by_lane(const Inst& i) const {
  if (ignores_order(i.op) || !i.blocks.empty()) return true;
  if (is_access(i)) return true;
  if (crosses_lanes(i.op)) return false;
  if (i.results.size() != 1 || !may_hold(i.type)) return false;
  return std::all_of(i.args.begin(), i.args.end(), [&](ValueId a) {
    return kernel_.type(a).lanes == 1 || may_hold(kernel_.type(a));
  });
}

void EvenOdd::visit(const Block& block, int depth) {
  for (const Inst& inst : block.insts) visit(inst, depth);
}

void EvenOdd::visit(const Inst& inst, int depth) {
  if (inst.results.size() == 1)
    uniform_[inst.results[0].index] = inst.op == Op::constant || inst.op == Op::splat;
  for (const Block& inner : inst.blocks)
    visit(inner, std::min(depth + (inst.op == Op::for_), kMostDepth));
  if (!inst.blocks.empty()) return join_nested(inst);
  count(inst, depth);
  if (!by_lane(inst) || ignores_order(inst.op)) return;
  std::vector<uint32_t> together;
  for (const std::vector<ValueId>* list : {&inst.results, &inst.args})
    for (ValueId v : *list)
      if (may_hold(kernel_.type(v)) && !uniform_[v.index]) together.push_back(v.index);
  if (is_access(inst))
    together.push_back(static_cast<uint32_t>(kernel_.types.size()) + inst.object.index);
  for (size_t k = 1; k < together.size(); ++k) join(together[0], together[k]);
}

// Results of a loop or a branch are held as what they may be.
void EvenOdd::join_nested(const Inst& inst) {
  for (size_t r = 0; r < inst.results.size(); ++r) {
    if (!may_hold(kernel_.type(inst.results[r]))) continue;
    const auto with = [&](ValueId v) {
      if (!uniform_[v.index]) join(inst.results[r].index, v.index);
    };
    for (const Block& block : inst.blocks) with(block.insts.back().args.at(r));
    if (inst.op != Op::for_) continue;
    with(inst.blocks[0].params.at(r + 1));
    with(inst.args.at(r + 3));
  }
}

// What the instruction gains or loses if its vectors are held in halves.
void EvenOdd::count(const Inst& inst, int depth) {
  const int64_t weight = int64_t{1} << (4 * depth);
  const auto is = [&](ValueId v) { return may_hold(kernel_.type(v)) && !uniform_[v.index]; };
  const bool widens = inst.op == Op::fpext && kernel_.type(inst.args[0]).elem == Elem::BF16;
  if (widens && is(inst.results[0])) gain_[root(inst.results[0].index)] += weight;
  if (narrows_bf16(inst) && is(inst.args[0])) gain_[root(inst.args[0].index)] += weight;
  if (widens || narrows_bf16(inst) || by_lane(inst) || inst.op == Op::lane_ids ||
      inst.op == Op::yield)
    return;
  for (ValueId a : inst.args)
    if (is(a)) gain_[root(a.index)] -= weight;
  for (ValueId r : inst.results)
    if (is(r)) gain_[root(r.index)] -= weight;
}

void EvenOdd::note_factor(const Inst& inst) {
  const auto of = [&](size_t n) { return factor_[inst.args[n].index]; };
  if (inst.op == Op::for_) factor_[inst.blocks[0].params[0].index] = std::min(of(0), of(2));
  if (inst.results.size() != 1 || kernel_.type(inst.results[0]) != kir::Type{Elem::I64, 1}) return;
  uint8_t& f = factor_[inst.results[0].index];
  switch (inst.op) {
    case Op::constant:
      f = static_cast<uint8_t>(inst.imm == 0 ? 63 : std::countr_zero(inst.imm));
      break;
    case Op::iadd:
    case Op::isub:
      f = std::min(of(0), of(1));
      break;
    case Op::imul:
      f = static_cast<uint8_t>(std::min(of(0) + of(1), 63));
      break;
    case Op::band:
      f = std::max(of(0), of(1));
      break;
    default:
      break;
  }
}

void EvenOdd::note_access(const Inst& inst) {
  const kir::OpInfo& info = kir::op_info(inst.op);
  if (info.has("table") || !info.has("object") || kir::is_prefetch(inst.op)) return;
  const kir::Object& object = kernel_.objects[inst.object.index];
  if (object.kind != kir::ObjectKind::Private) return;
  const kir::Type stored = inst.results.empty() ? kernel_.type(inst.args.back()) : inst.type;
  uint16_t& lanes = accessed_[inst.object.index];
  const bool whole =
      inst.op != Op::gather && inst.op != Op::scatter && may_hold(stored) &&
      (int64_t{1} << std::min<int>(factor_[inst.args[0].index], 62)) % stored.lanes == 0;
  if (!whole || (lanes != 0 && lanes != stored.lanes))
    lanes = 1;
  else
    lanes = stored.lanes;
}

void EvenOdd::seek_arrays(const Block& block) {
  for (const Inst& inst : block.insts) {
    note_factor(inst);
    note_access(inst);
    for (const Block& inner : inst.blocks) seek_arrays(inner);
  }
}

}  // namespace poot::codegen
