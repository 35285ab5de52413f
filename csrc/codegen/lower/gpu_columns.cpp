// The columns of a row.
//
// Resident: a row that gives a thread few vectors is unrolled, and its positions are returned to in
// every phase, so the row is read once. Streamed: a longer row is walked again by each phase, its
// second read served by the cache: an unrolled main loop (several loads in flight), a loop of
// single vectors, and the elements after the last whole vector, one a thread.
//
// Reductions: a thread's accumulators pairwise, the lanes of its vector by halving, the threads of
// a warp by exchange with thread ^ 16, 8, …, the warps pairwise through workgroup memory, the
// workgroups of a cluster by writing to each other's. Every thread of the row ends with the same
// value, and the order depends on the kernel and the extent alone.
#include <algorithm>
#include <bit>

#include "codegen/lower/gpu_lowering.h"

namespace poot::codegen::lowering {

using ir::OpCode;
using kir::Op;
using kir::Pred;
using tile::AxisId;
using KValue = kir::ValueId;

namespace {

constexpr int64_t kResidentVectors = 8;    // of a thread
constexpr int64_t kScannedVectors = 16;    // the same of a row that is scanned
constexpr int64_t kResidentElements = 64;  // of a thread: registers, for values of f32

bool reduces(const std::vector<const Root*>& roots) {
  return std::any_of(roots.begin(), roots.end(), [](const Root* r) { return r->reduces_column(); });
}

}  // namespace

int64_t GpuLowering::positions_of(AxisId column) const {
  return (facts_.program().axes.at(column.index).capacity + stride() - 1) / stride();
}

// The extent is a multiple of the vector.
bool GpuLowering::whole_vectors(AxisId column) const {
  const uint64_t factor = facts_.known_factor(facts_.program().axes[column.index].extent, {});
  return factor % vector_ == 0;  // 0: the extent is 0
}

bool GpuLowering::stays(AxisId column) const {
  const int64_t vectors = positions_of(column);
  if (std::any_of(online_.begin(), online_.end(),
                  [&](const OnlinePair& p) { return p.column == column; }))
    return false;
  return vectors <= (scans_ ? kScannedVectors : kResidentVectors) &&
         vectors * vector_ <= kResidentElements && facts_.reduced_axes() != 0;
}

void GpuLowering::phases(const std::vector<Root>& given) {
  std::vector<Root> roots = given;
  resident_.clear();
  find_online(roots);
  BlockLowering::phases(roots);
  online_.clear();
  resident_.clear();
}

void GpuLowering::column_phase(AxisId column, const std::vector<const Root*>& roots) {
  std::vector<const Root*> hoisted = roots;
  std::erase_if(hoisted, [&](const Root* r) { return is_online_sum(*r); });
  hoist_roots(hoisted, column);
  if (stays(column)) {
    if (!resident_.contains(column.index)) resident_[column.index] = place(column);
    resident_phase(column, roots);
  } else {
    streamed_phase(column, roots);
  }
}

GpuLowering::Resident GpuLowering::place(AxisId column) {
  kir::KirBuilder& b = emit_.builder();
  const KValue n = emit_.extent(column);
  const auto fixed = emit_.static_extent(column);
  Resident all;
  const int64_t whole = fixed ? *fixed / vector_ * vector_ : 0;
  const KValue end = fixed ? emit_.i64(whole) : emit_.add(n, emit_.i64(1 - vector_));
  for (int64_t u = 0; u < positions_of(column); ++u) {
    if (fixed && u * stride() >= whole) break;
    Position p{
        .base = emit_.add(first_element_, emit_.i64(u * stride())), .predicate = {}, .scope = {}};
    if (!fixed || (u + 1) * stride() > whole) p.predicate = b.icmp(Pred::slt, p.base, end);
    all.vectors.push_back(std::move(p));
  }
  if (whole_vectors(column)) return all;
  const KValue first =
      fixed ? emit_.i64(whole) : b.emit(Op::band, {n, emit_.i64(-int64_t{vector_})});
  const int64_t left = fixed ? *fixed % vector_ : vector_ - 1;
  for (int64_t done = 0; done < left; done += columns_together()) {
    const KValue base = emit_.add(emit_.add(first, column_), emit_.i64(done));
    all.elements.push_back({.base = base, .predicate = b.icmp(Pred::slt, base, n), .scope = {}});
  }
  return all;
}

std::vector<KValue> GpuLowering::identities(const std::vector<const Root*>& roots, uint16_t lanes,
                                            size_t each) {
  std::vector<KValue> acc;
  for (const Root* r : roots)
    if (r->reduces_column()) acc.insert(acc.end(), each, identity(*r, lanes));
  return acc;
}

void GpuLowering::resident_phase(AxisId column, const std::vector<const Root*>& roots) {
  Resident& row = resident_.at(column.index);
  const KValue before = emit_.predicate();
  const auto walk = [&](std::vector<Position>& places, uint16_t lanes) {
    std::vector<KValue> acc = identities(roots, lanes, places.size());
    for (size_t u = 0; u < places.size(); ++u) {
      emit_.set_predicate(emit_.both(before, places[u].predicate));
      emit_.push_scope(std::move(places[u].scope));
      positions(roots, {column, places[u].base, lanes, {}}, acc, places.size(), u);
      places[u].scope = emit_.pop_scope();
    }
    emit_.set_predicate(before);
    return acc;
  };
  const std::vector<KValue> vectors = walk(row.vectors, vector_);
  finish_reductions(roots, vectors, walk(row.elements, 1));
  for (const Root* r : roots)
    if (r->kind == Root::Scan) scan(*r);
}

// `body` for lo, lo + step, … below hi; `once`: at most one of them.
template <class F>
void GpuLowering::strided(KValue lo, KValue hi, int64_t step, bool once, Sums& acc, F&& body) {
  kir::KirBuilder& b = emit_.builder();
  const std::vector<KValue> init = acc.flat();
  const auto run = [&](KValue i) {
    emit_.push_scope();
    body(i);
    emit_.pop_scope();
    return acc.flat();
  };
  std::vector<KValue> ends;
  if (once)
    ends = b.if_else(b.icmp(Pred::slt, lo, hi), [&] { return run(lo); }, [&] { return init; });
  else
    ends = b.for_loop(lo, hi, emit_.i64(step), init, [&](KValue i, std::span<const KValue> now) {
      acc.set(now);
      return run(i);
    });
  acc.set(ends);
}

void GpuLowering::streamed_phase(AxisId column, const std::vector<const Root*>& all) {
  if (scans_) throw Unsupported("kernel " + kernel_.name, "a scan of more than threads keep");
  kir::KirBuilder& b = emit_.builder();
  const KValue before = emit_.predicate();
  const auto fixed = emit_.static_extent(column);
  KValue n = emit_.extent(column);
  if (before) n = b.select(before, n, emit_.i64(0));  // no row, no columns
  emit_.set_predicate({});

  emit_.last_walk(facts_.reduced_axes() != 0 && !reduces(all));
  const Phase phase = split_phase(column, all);
  const int64_t unroll = phase.unroll;
  Sums acc = start(phase, vector_, unroll);
  const auto round = [&](KValue i, int64_t count) {
    std::vector<KValue> bases;
    for (int64_t u = 0; u < count; ++u)
      bases.push_back(emit_.add(emit_.add(i, first_element_), emit_.i64(u * stride())));
    take(phase, bases, vector_, acc);
  };
  // Whole rounds, then rounds of half as many vectors, …, of one, each at most once, then the
  // stride that is not whole. Where the extent is not known, a loop of single vectors does for
  // cheap phases.
  const bool known = fixed && !before;
  const bool halves = unroll > 1 && (known || !phase.online.empty());
  const int64_t whole = unroll * stride();
  int64_t at = 0;
  KValue done = emit_.i64(0);
  if (unroll > 1 && (!fixed || *fixed >= whole)) {
    if (known) at = *fixed / whole * whole;
    done = known ? emit_.i64(at) : b.emit(Op::band, {n, emit_.i64(-whole)});
    strided(emit_.i64(0), done, whole, false, acc, [&](KValue i) { round(i, unroll); });
  }
  for (int64_t u = unroll / 2; halves && u > 0; u /= 2) {
    const int64_t span = u * stride();
    if (!known) {
      const KValue end = emit_.add(n, emit_.i64(1 - span));
      strided(done, end, span, true, acc, [&](KValue i) { round(i, u); });
      done = b.select(b.icmp(Pred::slt, done, end), emit_.add(done, emit_.i64(span)), done);
    } else if (*fixed - at >= span) {
      round(done, u);
      at += span;
      done = emit_.i64(at);
    }
  }
  if (!known || *fixed - at >= vector_)
    strided(emit_.add(done, first_element_), emit_.add(n, emit_.i64(1 - vector_)), stride(),
            halves || positions_of(column) == 1, acc,
            [&](KValue i) { take(phase, {i}, vector_, acc); });
  Sums last;
  if (!whole_vectors(column)) {
    last = start(phase, 1, 1);
    const KValue first = b.emit(Op::band, {n, emit_.i64(-int64_t{vector_})});
    strided(emit_.add(first, column_), n, columns_together(), columns_together() >= vector_ - 1,
            last, [&](KValue i) { take(phase, {i}, 1, last); });
  }
  emit_.last_walk(false);
  emit_.set_predicate(before);
  finish_reductions(phase.others, acc.plain, last.plain);
  for (size_t p = 0; p < phase.online.size(); ++p)
    finish_online(phase.online[p], acc, last, p, fixed ? KValue() : n);
}

// `vectors`, `elements`: equally many accumulators for each reduction, either may have none.
void GpuLowering::finish_reductions(const std::vector<const Root*>& roots,
                                    const std::vector<KValue>& vectors,
                                    const std::vector<KValue>& elements) {
  if (!reduces(roots)) return;
  const auto count =
      std::count_if(roots.begin(), roots.end(), [](const Root* r) { return r->reduces_column(); });
  const auto part = [&](const std::vector<KValue>& acc, ptrdiff_t k) {
    const ptrdiff_t each = static_cast<ptrdiff_t>(acc.size()) / count;
    return std::vector<KValue>(acc.begin() + k * each, acc.begin() + (k + 1) * each);
  };
  ptrdiff_t k = 0;
  for (const Root* r : roots) {
    if (!r->reduces_column()) continue;
    std::vector<KValue> totals;
    for (const std::vector<KValue>* acc : {&vectors, &elements})
      if (!acc->empty()) totals.push_back(combine(*r, part(*acc, k)));
    if (totals.empty()) totals.push_back(identity(*r, 1));
    finish_reduction(*r, across_threads(*r, combine(*r, totals)));
    ++k;
  }
}

// Both partners of an exchange take the operands in one order, so that all agree on the sign of a
// zero and the NaN.
KValue GpuLowering::across_threads(const Root& root, KValue v) {
  kir::KirBuilder& b = emit_.builder();
  const DType dtype = facts_.program().type(root.value).dtype;
  const OpCode op = root.inst->pointwise;
  const bool ordered =
      kir::is_float(b.type(v).elem) && (op == OpCode::reduce_max || op == OpCode::reduce_min);
  for (uint32_t mask = std::min(threads_.columns, kWarp) / 2; mask > 0; mask /= 2) {
    const KValue peer = b.shuffle_xor(v, mask);
    if (!ordered) {
      v = step(op, dtype, v, peer);
      continue;
    }
    const KValue lower =
        b.icmp(Pred::eq, b.emit(Op::band, {column_, emit_.i64(mask)}), emit_.i64(0));
    v = step(op, dtype, b.select(lower, v, peer), b.select(lower, peer, v));
  }
  if (threads_.columns > kWarp) v = across_warps(root, v);
  return kernel_.cluster > 1 ? across_workgroups(root, v) : v;
}

kir::ObjectId GpuLowering::new_exchange(DType dtype, int64_t elems) {
  kir::Object o;
  o.name = "partial" + std::to_string(exchanges_++);
  o.kind = kir::ObjectKind::Workgroup;
  o.elem = storage_elem(dtype);
  o.writable = true;
  o.size = elems;
  return emit_.builder().add_object(std::move(o));
}

std::vector<KValue> GpuLowering::read_exchange(const Root& root, kir::ObjectId from,
                                               int64_t elems) {
  kir::KirBuilder& b = emit_.builder();
  const DType dtype = opmath(facts_.program().type(root.value).dtype);
  std::vector<KValue> all;
  for (int64_t i = 0; i < elems; ++i)
    all.push_back(emit_.from_storage(dtype, b.load(from, {storage_elem(dtype), 1}, emit_.i64(i))));
  return all;
}

// Threads ahead may write the next row's partial results while others still read this row's: where
// the place is used again, a barrier stands before the write too.
KValue GpuLowering::across_warps(const Root& root, KValue v) {
  kir::KirBuilder& b = emit_.builder();
  const DType dtype = opmath(facts_.program().type(root.value).dtype);
  const int64_t warps = threads_.columns / kWarp;
  const kir::ObjectId partial = new_exchange(dtype, warps);
  if (looped_) b.barrier();
  const KValue lane = b.emit(Op::band, {local_column_, emit_.i64(kWarp - 1)});
  const KValue stored = emit_.to_storage(dtype, v);
  b.if_else(
      b.icmp(Pred::eq, lane, emit_.i64(0)),
      [&] {
        b.store(partial, b.emit(Op::lshr, {local_column_, b.i64(std::countr_zero(kWarp))}), stored);
        return std::vector<KValue>{};
      },
      [] { return std::vector<KValue>{}; });
  b.barrier();
  return combine(root, read_exchange(root, partial, warps));
}

// Thread t writes the workgroup's value to workgroup t. No place is written twice, and after the
// barrier none is written from outside, so that a workgroup may end before the others.
KValue GpuLowering::across_workgroups(const Root& root, KValue v) {
  kir::KirBuilder& b = emit_.builder();
  const int64_t workgroups = kernel_.cluster;
  const DType dtype = opmath(facts_.program().type(root.value).dtype);
  const kir::ObjectId totals = new_exchange(dtype, workgroups);
  const KValue stored = emit_.to_storage(dtype, v);
  b.if_else(
      b.icmp(Pred::slt, local_column_, emit_.i64(workgroups)),
      [&] {
        b.store_peer(totals, local_column_, rank_, stored);
        return std::vector<KValue>{};
      },
      [] { return std::vector<KValue>{}; });
  b.cluster_barrier();
  return combine(root, read_exchange(root, totals, workgroups));
}

}  // namespace poot::codegen::lowering
