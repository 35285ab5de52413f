// Rounds of a streamed walk, and the pair of reductions under a softmax in one walk:
//
//   m = reduce max v;  s = reduce sum exp(v - m)
//
// would read the row twice. Instead each thread keeps the largest element so far and the sum in
// proportion to it: a round of vectors is read, its largest element found, the sum so far scaled by
// exp(old - new), once, and the round's powers added. At the end the threads' sums are brought to
// the row's largest element. While a thread has seen nothing but -inf, 0 stands for the largest, so
// that nothing is added; a row of -inf alone gives NaN in the end, as two walks do.
#include <algorithm>
#include <bit>

#include "codegen/lower/gpu_lowering.h"
#include "codegen/math/softmax.h"

namespace poot::codegen::lowering {

using ir::OpCode;
using kir::Pred;
using tile::AxisId;
using tile::ValueId;
using KValue = kir::ValueId;

namespace {

constexpr int64_t kFewOps = 8;                     // of a phase: more vectors in flight pay
constexpr int64_t kVectors = 4, kMoreVectors = 8;  // of a round
constexpr int64_t kOnlineVectors = 4;              // of a round of a pair
constexpr int64_t kFewPositions = 4;  // of a thread: the row is better kept than walked

}  // namespace

std::vector<KValue> GpuLowering::Sums::flat() const {
  std::vector<KValue> all = plain;
  all.insert(all.end(), largest.begin(), largest.end());
  all.insert(all.end(), sum.begin(), sum.end());
  return all;
}

void GpuLowering::Sums::set(std::span<const KValue> all) {
  auto at = all.begin();
  for (std::vector<KValue>* part : {&plain, &largest, &sum})
    for (KValue& v : *part) v = *at++;
}

// Pairs of long rows: the sum moves up to the phase of its largest element.
void GpuLowering::find_online(std::vector<Root>& roots) {
  const tile::Program& p = facts_.program();
  const auto pointwise = [&](ValueId v) {
    const tile::Inst* d = facts_.def(v);
    const bool is = d != nullptr && d->op == tile::Op::pointwise && p.type(v).dtype == DType::F32;
    return is ? d : nullptr;
  };
  for (Root& sum : roots) {
    if (!sum.reduces_column() || sum.inst->pointwise != OpCode::reduce_sum ||
        positions_of(sum.column) <= kFewPositions)
      continue;
    const tile::Inst* power = pointwise(sum.value);
    if (!power || !math::is_exponential(power->pointwise)) continue;
    const tile::Inst* below = pointwise(power->args[0]);
    if (!below || below->pointwise != OpCode::sub) continue;
    for (const Root& largest : roots) {
      if (!largest.reduces_column() || largest.inst->pointwise != OpCode::reduce_max ||
          largest.column != sum.column || largest.value != below->args[0] ||
          largest.kept_as != below->args[1] || largest.level + 1 != sum.level)
        continue;
      sum.level = largest.level;
      online_.push_back({sum.column, largest.kept_as, sum.kept_as});
      break;
    }
  }
}

// It reads its largest element, which is not at hand before the walk.
bool GpuLowering::is_online_sum(const Root& root) const {
  return root.kind == Root::Reduce &&
         std::any_of(online_.begin(), online_.end(),
                     [&](const OnlinePair& pair) { return pair.sum == root.kept_as; });
}

GpuLowering::Phase GpuLowering::split_phase(AxisId column,
                                            const std::vector<const Root*>& roots) const {
  Phase phase{.column = column, .others = {}, .online = {}, .unroll = kVectors};
  const auto root_of = [&](ValueId value) {
    const auto it = std::find_if(roots.begin(), roots.end(), [&](const Root* r) {
      return r->kind == Root::Reduce && r->kept_as == value;
    });
    return it == roots.end() ? nullptr : *it;
  };
  phase.others = roots;
  for (const OnlinePair& p : online_) {
    const Online pair{root_of(p.largest), root_of(p.sum)};
    if (!pair.largest || !pair.sum) continue;
    phase.online.push_back(pair);
    std::erase(phase.others, pair.sum);
    // One largest element may serve several sums, and is then found once more by each.
    std::erase(phase.others, pair.largest);
  }
  if (!phase.online.empty())
    phase.unroll = kOnlineVectors;
  else if (phase_cost(roots, column).ops <= kFewOps)
    phase.unroll = kMoreVectors;
  while (phase.unroll > positions_of(column)) phase.unroll /= 2;
  return phase;
}

GpuLowering::Sums GpuLowering::start(const Phase& phase, uint16_t lanes, int64_t unroll) {
  Sums acc;
  acc.plain = identities(phase.others, lanes, static_cast<size_t>(unroll));
  for (const Online& pair : phase.online) {
    acc.largest.push_back(identity(*pair.largest, 1));
    acc.sum.push_back(identity(*pair.sum, lanes));
  }
  return acc;
}

// The vectors at `bases`: all values of pairs are read before the first is used.
void GpuLowering::take(const Phase& phase, const std::vector<KValue>& bases, uint16_t lanes,
                       Sums& acc) {
  size_t reductions = 0;
  for (const Root* r : phase.others) reductions += r->reduces_column();
  const size_t each = reductions == 0 ? 1 : acc.plain.size() / reductions;
  std::vector<Emitter::Scope> scopes;
  for (size_t u = 0; u < bases.size(); ++u) {
    emit_.push_scope();
    positions(phase.others, {phase.column, bases[u], lanes, {}}, acc.plain, each, u);
    if (!phase.online.empty()) {
      emit_.bind_vector({phase.column, bases[u], lanes, {}});
      for (const Online& pair : phase.online) emit_.compute(pair.largest->value, lanes);
      emit_.unbind_vector(phase.column);
    }
    scopes.push_back(emit_.pop_scope());
  }
  for (size_t p = 0; p < phase.online.size(); ++p) take_online(phase, p, bases, lanes, scopes, acc);
}

void GpuLowering::take_online(const Phase& phase, size_t p, const std::vector<KValue>& bases,
                              uint16_t lanes, std::vector<Emitter::Scope>& scopes, Sums& acc) {
  kir::KirBuilder& b = emit_.builder();
  const Online& pair = phase.online[p];
  const auto at = [&](size_t u, ValueId v, KValue largest) {
    emit_.push_scope(scopes[u]);
    emit_.bind_vector({phase.column, bases[u], lanes, {}});
    if (largest) emit_.define(pair.largest->kept_as, {largest, {}});
    const KValue value = emit_.compute(v, lanes);
    emit_.unbind_vector(phase.column);
    emit_.pop_scope();
    return value;
  };
  std::vector<KValue> values, powers;
  for (size_t u = 0; u < bases.size(); ++u) values.push_back(at(u, pair.largest->value, {}));
  const KValue before = acc.largest[p];
  const KValue now =
      step(OpCode::reduce_max, DType::F32, before, combine(*pair.largest, std::move(values)));
  const KValue base = b.select(b.fcmp(Pred::oeq, now, identity(*pair.largest, 1)), b.f32(0), now);
  // An exponential's error grows with its argument, so that large ones are of small terms.
  emit_.cheap_function(pair.sum->value);
  for (size_t u = 0; u < bases.size(); ++u) powers.push_back(at(u, pair.sum->value, base));
  emit_.cheap_function({});
  for (size_t left = powers.size(); left > 1;) {
    const size_t half = (left + 1) / 2;
    for (size_t i = 0; i + half < left; ++i)
      powers[i] = step(OpCode::reduce_sum, DType::F32, powers[i], powers[i + half]);
    left = half;
  }
  const KValue scale = b.splat(exp_of_difference(before, base), lanes);
  acc.largest[p] = now;
  acc.sum[p] = b.emit(kir::Op::fma, {acc.sum[p], scale, powers[0]});
}

KValue GpuLowering::exp_of_difference(KValue a, KValue b) {
  kir::KirBuilder& k = emit_.builder();
  return math::gpu_exp(k, k.emit(kir::Op::fsub, {a, b}));
}

// `elements`: none where there are only whole vectors. `extent`: where it may be 0.
void GpuLowering::finish_online(const Online& pair, const Sums& vectors, const Sums& elements,
                                size_t p, KValue extent) {
  kir::KirBuilder& b = emit_.builder();
  std::vector<std::pair<KValue, KValue>> parts = {
      {vectors.largest[p], combine(*pair.sum, {vectors.sum[p]})}};
  if (!elements.largest.empty()) parts.emplace_back(elements.largest[p], elements.sum[p]);
  KValue largest = parts[0].first;
  if (parts.size() > 1) largest = step(OpCode::reduce_max, DType::F32, largest, parts[1].first);
  largest = across_threads(*pair.largest, largest);
  finish_reduction(*pair.largest, largest);
  KValue total;
  for (const auto& [own, sum] : parts) {
    const KValue scaled = b.emit(kir::Op::fmul, {sum, exp_of_difference(own, largest)});
    total = total ? b.emit(kir::Op::fadd, {total, scaled}) : scaled;
  }
  total = across_threads(*pair.sum, total);
  if (extent)
    total = b.select(b.icmp(Pred::sgt, extent, emit_.i64(0)), total, identity(*pair.sum, 1));
  finish_reduction(*pair.sum, total);
}

}  // namespace poot::codegen::lowering
