// Means and sums of squared deviations of f32 rows, in one walk of the row, with the bits that
// eager's layer norm has on CPUs with AVX2 or more.
//
// A row is taken in vectors of eight lanes, each of which runs Welford's recurrence
//
//   d = x - mean;  mean = fma(1 / count, d, mean);  squares = fma(d, x - mean, squares)
//
// over chunks of sixteen vectors. Chunks are merged two and two, those again two and two, and so on
// (as a sum cascades); of a number of chunks that is no power of two, the powers of two it is made
// of are merged in the end, the shortest first. Elements beyond the last vector run the recurrence
// alone; then the lanes are added to them one after the other. A chunk is a chain of dependent
// instructions: up to eight are evaluated side by side.
#include <bit>

#include "codegen/lower/cpu_lowering.h"
#include "ir/moments.h"

namespace poot::codegen::lowering {

using kir::Op;
using tile::AxisId;
using KValue = kir::ValueId;

namespace {

constexpr uint16_t kLanes = 8;
constexpr int64_t kChunk = 16;         // vectors
constexpr int64_t kTogether = 8;       // chunks
constexpr int64_t kWrittenOut = 1200;  // operations of chunks without a loop

class Welford {
 public:
  // The elements from start + offset on; no start: 0.
  using Elements = std::function<KValue(KValue start, int64_t offset, uint16_t lanes)>;
  struct Moments {
    KValue mean, squares;
    int64_t count;  // of elements a lane
  };

  Welford(kir::KirBuilder& b, Elements elements, int64_t cost)
      : b_(b), elements_(std::move(elements)), cost_(cost) {}

  Moments row(int64_t extent) {
    const int64_t vectors = extent / kLanes;
    Moments total{b_.f32(0), b_.f32(0), 0};
    for (int64_t i = vectors * kLanes; i < extent; ++i) total = with_element(total, i);
    if (vectors == 0) return total;
    const Moments lanes = all_lanes(vectors);
    for (uint16_t lane = 0; lane < kLanes; ++lane) total = with_lane(total, lanes, lane);
    return total;
  }

 private:
  KValue sub(KValue a, KValue b) { return b_.emit(Op::fsub, {a, b}); }
  KValue add(KValue a, KValue b) { return b_.emit(Op::fadd, {a, b}); }
  KValue mul(KValue a, KValue b) { return b_.emit(Op::fmul, {a, b}); }
  KValue fma(KValue a, KValue b, KValue c) { return b_.emit(Op::fma, {a, b, c}); }
  static float share(int64_t part, int64_t whole) {
    return static_cast<float>(part) / static_cast<float>(whole);
  }

  Moments with_element(const Moments& m, int64_t at) {
    const KValue x = elements_({}, at, 1), d = sub(x, m.mean);
    const KValue step = b_.emit(Op::fdiv, {d, b_.f32(static_cast<float>(m.count + 1))});
    const KValue mean = add(m.mean, step);
    return {mean, add(m.squares, mul(d, sub(x, mean))), m.count + 1};
  }

  Moments with_lane(const Moments& m, const Moments& lanes, uint16_t lane) {
    const KValue mean = b_.extract(lanes.mean, lane), squares = b_.extract(lanes.squares, lane);
    const int64_t count = m.count + lanes.count;
    if (m.count == 0) return {mean, squares, count};
    const KValue c = b_.f32(share(lanes.count, count));
    const KValue d = sub(mean, m.mean), square = mul(mul(d, d), c);
    return {fma(c, d, m.mean),
            add(m.squares, fma(square, b_.f32(static_cast<float>(m.count)), squares)), count};
  }

  Moments merged(const Moments& a, const Moments& b, KValue share_of_b, KValue count_of_a) {
    const KValue d = sub(b.mean, a.mean), step = mul(share_of_b, d);
    return {add(a.mean, step), fma(mul(d, count_of_a), step, add(a.squares, b.squares)),
            a.count + b.count};
  }
  Moments merged(const Moments& a, const Moments& b) {
    return merged(a, b, b_.f32(share(b.count, a.count + b.count), kLanes),
                  b_.f32(static_cast<float>(a.count), kLanes));
  }
  Moments merged(std::span<const Moments> parts) {
    if (parts.size() == 1) return parts[0];
    const size_t half = parts.size() / 2;
    return merged(merged(parts.first(half)), merged(parts.subspan(half)));
  }

  // The lanes of the first `vectors` vectors.
  Moments all_lanes(int64_t vectors) {
    const int64_t chunks = (vectors + kChunk - 1) / kChunk, last = vectors - (chunks - 1) * kChunk;
    const int64_t left = chunks % kTogether, whole = chunks / kTogether;
    std::vector<Moments> parts;  // from the longest on
    int64_t first = 0;
    for (int64_t level = std::bit_width(static_cast<uint64_t>(whole)) - 1; level >= 0; --level) {
      if ((whole >> level & 1) == 0) continue;
      const int64_t next = first + (kTogether << level);
      parts.push_back(block({}, first * kChunk * kLanes, level, next == chunks ? last : kChunk));
      first = next;
    }
    if (left > 0) {
      const std::vector<Moments> rest = side_by_side({}, first * kChunk * kLanes, left, last);
      std::span<const Moments> open(rest);
      for (size_t size = kTogether / 2; size > 0; size /= 2) {
        if ((static_cast<size_t>(left) & size) == 0) continue;
        parts.push_back(merged(open.first(size)));
        open = open.subspan(size);
      }
    }
    Moments total = parts.back();
    for (size_t i = parts.size() - 1; i-- > 0;) total = merged(total, parts[i]);
    return total;
  }

  // kTogether << level chunks, the last of them of `last` vectors.
  Moments block(KValue start, int64_t offset, int64_t level, int64_t last) {
    if (level == 0) return merged(side_by_side(start, offset, kTogether, last));
    const int64_t half = (kTogether << (level - 1)) * kChunk, elements = half * kLanes;
    if (last != kChunk)
      return merged(block(start, offset, level - 1, kChunk),
                    block(start, offset + elements, level - 1, last));
    const KValue none = b_.f32(0, kLanes);
    const auto both = b_.for_loop(
        b_.i64(0), b_.i64(2), b_.i64(1), {none, none}, [&](KValue i, std::span<const KValue> c) {
          const KValue step = b_.emit(Op::imul, {i, b_.i64(elements)});
          const KValue from = start ? b_.emit(Op::iadd, {start, step}) : step;
          const Moments next = block(from, offset, level - 1, kChunk);
          const KValue first = b_.icmp(kir::Pred::eq, i, b_.i64(0));
          const auto either = [&](float a, float b) {
            return b_.splat(b_.select(first, b_.f32(a), b_.f32(b)), kLanes);
          };
          const Moments m = merged({c[0], c[1], half}, next, either(1, 0.5F),
                                   either(0, static_cast<float>(half)));
          return std::vector<KValue>{m.mean, m.squares};
        });
    return {both[0], both[1], 2 * half};
  }

  std::vector<Moments> side_by_side(KValue start, int64_t offset, int64_t chunks, int64_t last) {
    const KValue zero = b_.f32(0, kLanes);
    std::vector<Moments> parts(static_cast<size_t>(chunks), {zero, zero, kChunk});
    parts.back().count = last;
    const auto step = [&](KValue from, int64_t vector, KValue share, size_t count) {
      for (size_t k = 0; k < count; ++k) {
        const int64_t at = (static_cast<int64_t>(k) * kChunk + vector) * kLanes;
        Moments& m = parts[k];
        const KValue x = elements_(from, offset + at, kLanes), d = sub(x, m.mean);
        m.mean = fma(share, d, m.mean);
        m.squares = fma(d, sub(x, m.mean), m.squares);
      }
    };
    const auto written_out = [&](int64_t from, int64_t to, size_t count) {
      for (int64_t j = from; j < to; ++j) step(start, j, b_.f32(share(1, j + 1), kLanes), count);
    };
    if (chunks * kChunk * cost_ <= kWrittenOut)
      written_out(0, last, parts.size());
    else
      looped(start, last, parts, step);
    written_out(last, kChunk, parts.size() - 1);
    return parts;
  }

  // The first `vectors` of each chunk.
  void looped(KValue start, int64_t vectors, std::vector<Moments>& parts,
              const std::function<void(KValue, int64_t, KValue, size_t)>& step) {
    std::vector<KValue> carried;
    for (const Moments& m : parts) carried.insert(carried.end(), {m.mean, m.squares});
    const auto assign = [&](std::span<const KValue> from) {
      for (size_t k = 0; k < parts.size(); ++k)
        parts[k].mean = from[2 * k], parts[k].squares = from[2 * k + 1];
    };
    carried = b_.for_loop(b_.i64(0), b_.i64(vectors), b_.i64(1), carried,
                          [&](KValue j, std::span<const KValue> c) {
                            assign(c);
                            const KValue elements = b_.emit(Op::imul, {j, b_.i64(kLanes)});
                            const KValue count = b_.emit(Op::sitofp, kir::Type{kir::Elem::F32, 1},
                                                         {b_.emit(Op::iadd, {j, b_.i64(1)})});
                            const KValue share = b_.emit(Op::fdiv, {b_.f32(1), count});
                            step(start ? b_.emit(Op::iadd, {start, elements}) : elements, 0,
                                 b_.splat(share, kLanes), parts.size());
                            std::vector<KValue> next;
                            for (const Moments& m : parts)
                              next.insert(next.end(), {m.mean, m.squares});
                            return next;
                          });
    assign(carried);
  }

  kir::KirBuilder& b_;
  Elements elements_;
  int64_t cost_;  // operations of a vector
};

}  // namespace

bool CpuLowering::is_moment(const Root& root) {
  return root.reduces_column() && ir::is_moment(root.inst->pointwise);
}

void CpuLowering::moments_phase(AxisId column, const Roots& roots) {
  const auto extent = emit_.static_extent(column);
  if (!extent)
    throw Unsupported("tile program " + facts_.program().name, "moments of unknown sizes");
  // Arrays are filled by the first walk; what else the phase has to do comes after the moments, as
  // it may overwrite what they read.
  Roots moments, arrays, others;
  for (const Root* r : roots)
    (is_moment(*r) ? moments : r->kind == Root::Keep ? arrays : others).push_back(r);
  hoist_roots(roots, column);
  while (!moments.empty()) {
    const tile::ValueId value = moments[0]->value;
    const auto elements = [&](KValue start, int64_t offset, uint16_t lanes) {
      emit_.push_scope();
      const KValue base = start ? emit_.add(start, emit_.i64(offset)) : emit_.i64(offset);
      emit_.bind_vector({column, base, lanes, {}});
      const KValue x = emit_.compute(value, lanes);
      for (const Root* r : arrays) emit_.compute(r->value);
      for (const Root* r : arrays) effects(*r);
      emit_.unbind_vector(column);
      emit_.pop_scope();
      return x;
    };
    Roots walked = arrays;
    walked.push_back(moments[0]);
    Welford welford(emit_.builder(), elements, phase_cost(walked, column).ops + 4);
    const auto found = welford.row(*extent);
    for (const Root* r : arrays) emit_.set_kept(r->kept_as, r->array);
    arrays.clear();
    std::erase_if(moments, [&](const Root* r) {
      if (r->value != value) return false;
      const bool mean = r->inst->pointwise == ir::OpCode::welford_mean;
      finish_reduction(*r, mean ? found.mean : found.squares);
      return true;
    });
  }
  if (!others.empty()) column_phase(column, others);
}

}  // namespace poot::codegen::lowering
