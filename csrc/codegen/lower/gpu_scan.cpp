// Running folds of a row that stays in registers. A row is stretches of consecutive elements of a
// thread, threads.columns of them side by side: a thread folds the elements of each of its
// stretches, a warp the stretches of its threads, the first warp those of all warps, which then
// reach every element from the left:
//
//   folded[e]  elements of the stretch up to e         one after the other
//   before     stretches of the threads before         exchange with thread ^ 1, 2, 4, …
//   partials   what each warp's stretches fold to, in the order of the row, in workgroup memory
//   result[e]  (start . warps before . before) . folded[e]
//
// Elements outside the extent are the identity. The order depends on the kernel alone.
#include <algorithm>
#include <bit>

#include "codegen/lower/gpu_lowering.h"

namespace poot::codegen::lowering {

using kir::Op;
using kir::Pred;
using KValue = kir::ValueId;

namespace {

DType scanned_dtype(const tile::Program& p, const tile::Inst& scan, size_t i) {
  return p.type(tile::scan_elements(scan)[i]).dtype;
}

}  // namespace

// The body of the scan on values of one element.
GpuLowering::Values GpuLowering::fold(const tile::Inst& scan, const Values& before,
                                      const Values& next) {
  const tile::Block& body = scan.blocks.at(0);
  emit_.push_scope();
  for (size_t i = 0; i < before.size(); ++i) {
    emit_.define(body.params[i], {before[i], {}});
    emit_.define(body.params[before.size() + i], {next[i], {}});
  }
  Values out;
  for (const tile::ValueId v : body.insts.back().args) out.push_back(emit_.exact(v));
  emit_.pop_scope();
  return out;
}

GpuLowering::Values GpuLowering::scan_identities(const tile::Inst& scan) {
  Values out;
  for (const tile::ValueId v : tile::scan_identities(scan)) out.push_back(emit_.exact(v));
  return out;
}

GpuLowering::Stretch GpuLowering::fold_elements(const Root& root, Position& at, uint16_t lanes) {
  kir::KirBuilder& b = emit_.builder();
  const Values identities = scan_identities(*root.inst);
  const KValue before = emit_.predicate();
  Values elements;
  emit_.set_predicate(emit_.both(before, at.predicate));
  emit_.push_scope(std::move(at.scope));
  emit_.bind_vector({root.column, at.base, lanes, {}});
  for (const tile::ValueId v : tile::scan_elements(*root.inst))
    elements.push_back(emit_.exact(v, lanes));
  emit_.unbind_vector(root.column);
  at.scope = emit_.pop_scope();
  emit_.set_predicate(before);

  Stretch s{&at, {}, {}, {}};
  for (uint16_t e = 0; e < lanes; ++e) {
    Values own;
    for (size_t i = 0; i < elements.size(); ++i) {
      const KValue v = lanes == 1 ? elements[i] : b.extract(elements[i], e);
      own.push_back(at.predicate ? b.select(at.predicate, v, identities[i]) : v);
    }
    s.folded.push_back(e == 0 ? own : fold(*root.inst, s.folded.back(), own));
  }
  s.all = s.folded.back();
  return s;
}

// After the exchange with thread ^ m, `all` is that of 2 m threads, `before` that of those among
// them that lie before the thread.
void GpuLowering::fold_warp(const tile::Inst& scan, Stretch& s) {
  kir::KirBuilder& b = emit_.builder();
  s.before = scan_identities(scan);
  const auto choose = [&](KValue first, const Values& x, const Values& y) {
    Values out;
    for (size_t i = 0; i < x.size(); ++i) out.push_back(b.select(first, x[i], y[i]));
    return out;
  };
  for (uint32_t m = 1; m < std::min(threads_.columns, kWarp); m *= 2) {
    Values peer;
    for (const KValue v : s.all) peer.push_back(b.shuffle_xor(v, m));
    const KValue lower = b.icmp(Pred::eq, b.emit(Op::band, {column_, emit_.i64(m)}), emit_.i64(0));
    s.before = choose(lower, s.before, m == 1 ? peer : fold(scan, peer, s.before));
    s.all = fold(scan, choose(lower, s.all, peer), choose(lower, peer, s.all));
  }
}

// Partials of all stretches and warps; `before` becomes what all that lies before a warp folds to.
// The second array keeps the next row's partials from overtaking those who still read this row's.
void GpuLowering::fold_warps(const tile::Inst& scan, std::vector<Stretch>& stretches, Values& all) {
  kir::KirBuilder& b = emit_.builder();
  const int64_t warps = threads_.columns / kWarp;
  const int64_t count = warps * static_cast<int64_t>(stretches.size());
  const KValue lane = b.emit(Op::band, {local_column_, emit_.i64(kWarp - 1)});
  const KValue warp = b.emit(Op::lshr, {local_column_, emit_.i64(std::countr_zero(kWarp))});
  const auto dtype = [&](size_t i) { return scanned_dtype(facts_.program(), scan, i); };
  std::vector<kir::ObjectId> partials, before;
  for (size_t i = 0; i < all.size(); ++i) {
    partials.push_back(new_exchange(dtype(i), count));
    before.push_back(new_exchange(dtype(i), count + 1));
  }
  const auto place = [&](size_t stretch) {
    return emit_.add(emit_.i64(static_cast<int64_t>(stretch) * warps), warp);
  };
  b.if_else(
      b.icmp(Pred::eq, lane, emit_.i64(0)),
      [&] {
        emit_.push_scope();
        for (size_t k = 0; k < stretches.size(); ++k)
          for (size_t i = 0; i < all.size(); ++i)
            b.store(partials[i], place(k), emit_.to_storage(dtype(i), stretches[k].all[i]));
        emit_.pop_scope();
        return Values{};
      },
      [] { return Values{}; });
  b.barrier();
  b.if_else(
      b.icmp(Pred::eq, warp, emit_.i64(0)),
      [&] {
        emit_.push_scope();
        fold_partials(scan, partials, before, count);
        emit_.pop_scope();
        return Values{};
      },
      [] { return Values{}; });
  b.barrier();
  const auto read = [&](KValue at) {
    Values out;
    for (size_t i = 0; i < all.size(); ++i)
      out.push_back(
          emit_.from_storage(dtype(i), b.load(before[i], {storage_elem(dtype(i)), 1}, at)));
    return out;
  };
  for (size_t k = 0; k < stretches.size(); ++k)
    stretches[k].before = fold(scan, read(place(k)), stretches[k].before);
  all = read(emit_.i64(count));
}

// By one warp: thread t folds partials t * each .. (t + 1) * each.
void GpuLowering::fold_partials(const tile::Inst& scan, const std::vector<kir::ObjectId>& partials,
                                const std::vector<kir::ObjectId>& before, int64_t count) {
  kir::KirBuilder& b = emit_.builder();
  const int64_t each = (count + kWarp - 1) / kWarp;
  const Values identities = scan_identities(scan);
  const auto dtype = [&](size_t i) { return scanned_dtype(facts_.program(), scan, i); };
  const KValue first = emit_.mul(local_column_, emit_.i64(each));
  std::vector<KValue> places, inside;
  Stretch s{nullptr, {}, {}, {}};
  for (int64_t k = 0; k < each; ++k) {
    places.push_back(emit_.add(first, emit_.i64(k)));
    inside.push_back(b.icmp(Pred::slt, places.back(), emit_.i64(count)));
    const KValue at = b.select(inside.back(), places.back(), emit_.i64(0));
    Values own;
    for (size_t i = 0; i < partials.size(); ++i) {
      const KValue v =
          emit_.from_storage(dtype(i), b.load(partials[i], {storage_elem(dtype(i)), 1}, at));
      own.push_back(b.select(inside.back(), v, identities[i]));
    }
    s.folded.push_back(k == 0 ? own : fold(scan, s.folded.back(), own));
  }
  s.all = s.folded.back();
  fold_warp(scan, s);
  const auto store = [&](KValue condition, KValue at, const Values& v) {
    b.if_else(
        condition,
        [&] {
          for (size_t i = 0; i < v.size(); ++i)
            b.store(before[i], at, emit_.to_storage(dtype(i), v[i]));
          return Values{};
        },
        [] { return Values{}; });
  };
  for (size_t k = 0; k < places.size(); ++k)
    store(inside[k], places[k], k == 0 ? s.before : fold(scan, s.before, s.folded[k - 1]));
  store(first_column_, emit_.i64(count), s.all);
}

// Defines the results at the positions of a stretch.
void GpuLowering::finish_scan(const tile::Inst& scan, Stretch& s, const Values& start) {
  kir::KirBuilder& b = emit_.builder();
  const Values before = fold(scan, start, s.before);
  const auto lanes = static_cast<uint16_t>(s.folded.size());
  Values all;
  for (uint16_t e = 0; e < lanes; ++e) {
    const Values v = fold(scan, before, s.folded[e]);
    if (e == 0)
      for (const KValue first : v) all.push_back(lanes == 1 ? first : b.splat(first, lanes));
    for (size_t i = 0; e > 0 && i < v.size(); ++i) all[i] = b.insert(all[i], v[i], e);
  }
  emit_.push_scope(std::move(s.at->scope));
  for (size_t i = 0; i < all.size(); ++i) emit_.define(scan.results[i], {all[i], {}});
  s.at->scope = emit_.pop_scope();
}

void GpuLowering::scan(const Root& root) {
  const tile::Inst& inst = *root.inst;
  Resident& row = resident_.at(root.column.index);
  std::vector<Stretch> stretches;
  for (Position& p : row.vectors) stretches.push_back(fold_elements(root, p, vector_));
  for (Position& p : row.elements) stretches.push_back(fold_elements(root, p, 1));
  Values start;
  for (const tile::ValueId v : tile::scan_starts(inst)) start.push_back(emit_.exact(v));
  for (Stretch& s : stretches) fold_warp(inst, s);
  Values end = start;
  if (threads_.columns > kWarp && !stretches.empty()) {
    Values all = start;
    fold_warps(inst, stretches, all);
    for (Stretch& s : stretches) finish_scan(inst, s, start);
    end = fold(inst, start, all);
  } else {
    for (Stretch& s : stretches) {
      finish_scan(inst, s, end);
      end = fold(inst, end, s.all);
    }
  }
  for (size_t i = 0; i < end.size(); ++i) emit_.define(inst.results[end.size() + i], {end[i], {}});
}

}  // namespace poot::codegen::lowering
