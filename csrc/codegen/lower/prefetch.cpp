// What loads of a CPU ask for ahead: the same columns of a later row, what lies further along a
// stream, a later pass of a loop. A line is asked for once at a position: the even and the odd
// elements of pairs lie in the same ones.
#include <algorithm>
#include <functional>

#include "codegen/lower/emitter.h"

namespace poot::codegen::lowering {

using KValue = kir::ValueId;

namespace {

constexpr int64_t kLine = 64;  // bytes

// Factor of what `is` names in an expression.
int64_t factor_of(const tile::Program& p, tile::IndexId i,
                  const std::function<bool(const tile::IndexNode&)>& is) {
  const tile::IndexNode& n = p.index.at(i.index);
  switch (n.op) {
    case tile::IndexOp::Coord:
    case tile::IndexOp::Scalar:
      return is(n);
    case tile::IndexOp::Add:
      return factor_of(p, n.a, is) + factor_of(p, n.b, is);
    case tile::IndexOp::Mul: {
      const tile::IndexNode& k = p.index.at(n.b.index);
      return k.op == tile::IndexOp::Const ? k.value * factor_of(p, n.a, is) : 0;
    }
    default:
      return 0;
  }
}

// Factor of the coordinate of `row` or, where rows are blocks, of the block's number.
int64_t row_factor(const TileFacts& facts, tile::IndexId i, tile::AxisId row) {
  const bool one_row = facts.program().axes.at(row.index).capacity == 1;
  return factor_of(facts.program(), i, [&](const tile::IndexNode& n) {
    if (n.op == tile::IndexOp::Coord) return n.ref == row.index;
    const tile::Inst* d = facts.def(tile::ValueId(n.ref));
    return one_row && d != nullptr && d->op == tile::Op::block_id;
  });
}

// The terms of an index expression's sum, ascending, and its constant.
std::pair<std::vector<uint32_t>, int64_t> sum_of(const tile::Program& p, tile::IndexId i) {
  std::pair<std::vector<uint32_t>, int64_t> sum{{}, 0};
  const auto visit = [&](auto&& self, tile::IndexId at) -> void {
    const tile::IndexNode& n = p.index.at(at.index);
    if (n.op == tile::IndexOp::Add)
      self(self, n.a), self(self, n.b);
    else if (n.op == tile::IndexOp::Const)
      sum.second += n.value;
    else
      sum.first.push_back(at.index);
  };
  visit(visit, i);
  std::ranges::sort(sum.first);
  return sum;
}

}  // namespace

// Whether lines beginning within a line of these were asked for at this position.
bool Emitter::asked_before(const tile::Inst& inst, int64_t n) {
  auto [terms, first] = sum_of(program(), inst.index);
  const int64_t line = kLine / byte_size(program().buffers.at(inst.buffer.index).dtype);
  std::vector<KValue> at;
  for (size_t a = 0; a < coordinates_.size(); ++a)
    if ((facts_.deps(inst.index) & bound_ &
         TileFacts::bit(tile::AxisId(static_cast<uint32_t>(a)))) != 0)
      at.push_back(coordinates_[a]);
  for (const Asked& a : asked_)
    if (a.buffer == inst.buffer && a.terms == terms && a.at == at &&
        std::abs(a.first - first) < line && n <= a.n)
      return true;
  asked_.push_back({inst.buffer, std::move(terms), std::move(at), first, n});
  return false;
}

// Asks for the `n` elements that the load reads in another row, or some passes later of a loop.
void Emitter::prefetch(const tile::Inst& inst, KValue at, int64_t n) {
  const kir::ObjectId object(inst.buffer.index);
  const int64_t bytes = byte_size(program().buffers.at(inst.buffer.index).dtype);
  if ((!ahead_ && !stream_ && !loop_) || asked_before(inst, n)) return;
  const auto ask = [&](int64_t further, bool far = false) {
    for (int64_t e = 0; further != 0 && e < n; e += kLine / bytes)
      b_.prefetch(object, add(at, i64(further + e)), far);
  };
  if (ahead_) ask(row_factor(facts_, inst.index, ahead_) * rows_ahead_);
  if (stream_ && (facts_.deps(inst.index) & TileFacts::bit(stream_)) != 0) {
    ask(stream_bytes_ / bytes);
    ask(far_bytes_ / bytes, true);
  }
  if (loop_)
    ask(passes_ * factor_of(program(), inst.index, [&](const tile::IndexNode& node) {
          return node.op == tile::IndexOp::Scalar && node.ref == loop_.index;
        }));
}

void Emitter::ask_next_row() {
  for (const tile::Inst* load : next_loads_) {
    const Access a = access(load->buffer, load->index, true);
    if (a.kind != Access::Contiguous) continue;
    const int64_t step = kLine / byte_size(program().buffers.at(load->buffer.index).dtype);
    const int64_t next = row_factor(facts_, load->index, next_row_);
    for (int64_t e = 0; next != 0 && e < lanes(); e += step)
      b_.prefetch(kir::ObjectId(load->buffer.index), add(a.index, i64(next + e)), true);
  }
}

}  // namespace poot::codegen::lowering
