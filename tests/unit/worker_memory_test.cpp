// Memory, control flow, grids and the status word: machine code and interpreter agree bit for bit.
#include "exact_harness.h"

namespace poot::exact {
namespace {

class ExactMemory : public Exact {};

// Blocks of a three-axis grid, masked tails, gathers and scatters, private arrays, carried loops,
// branches, metadata and the status word.
TEST_P(ExactMemory, MemoryAndControl) {
  constexpr int64_t kRow = 61;  // not a multiple of any width
  const uint16_t n = lanes();
  for (Elem e : {Elem::F32, Elem::F64, Elem::I8, Elem::I16, Elem::BF16, Elem::I64}) {
    Harness h(name("memory_" + std::string(kir::name(e)) + "x"), n);
    KirBuilder& b = h.b;
    const ObjectId x = h.input(e, 1), indices = h.input(Elem::I32, 2);
    h.grid[0] = 3, h.grid[1] = 2, h.grid[2] = 2;
    const auto rows = static_cast<size_t>(12 * kRow);
    const ObjectId copied = h.output(e, rows), gathered = h.output(e, rows),
                   scattered = h.output(e, rows), sums = h.output(Elem::I64, 24);
    h.meta(kRow);
    h.meta(7);
    kir::Object array;
    array.name = "kept";
    array.kind = kir::ObjectKind::Private;
    array.elem = e;
    array.size = 64 + n;
    const ObjectId kept = b.add_object(array);

    auto i64 = [&](int64_t v) { return b.i64(v); };
    auto mul = [&](ValueId p, ValueId q) { return b.emit(Op::imul, {p, q}); };
    auto add = [&](ValueId p, ValueId q) { return b.emit(Op::iadd, {p, q}); };
    const ValueId block =
        add(b.block_id(0), mul(i64(3), add(b.block_id(1), mul(i64(2), b.block_id(2)))));
    const ValueId row = b.meta(0), base = mul(block, row);
    const ValueId zero = b.constant(h.vec(e), 0);
    b.for_loop(i64(0), row, i64(n), {}, [&](ValueId at, std::span<const ValueId>) {
      ValueId ids = b.emit(Op::lane_ids, h.vec(Elem::I64), {});
      ids = add(ids, b.splat(at, n));
      const ValueId inside = b.icmp(Pred::slt, ids, b.splat(row, n));
      const ValueId v = b.load_masked(x, h.vec(e), at, inside, zero);
      b.store(kept, at, v);
      b.store_masked(copied, add(base, at), v, inside);
      const ValueId some = b.load_masked(indices, h.vec(Elem::I32), at, inside, b.i32(0, n));
      const ValueId index = b.emit(Op::urem, {some, b.i32(static_cast<int32_t>(kRow), n)});
      const ValueId other = b.gather(x, h.vec(e), index, inside, v);
      b.store_masked(gathered, add(base, at), other, inside);
      // Lanes in order: a later lane wins where two meet.
      const ValueId target = add(b.splat(base, n), b.emit(Op::sext, h.vec(Elem::I64), {index}));
      b.scatter(scattered, target, v, inside);
      b.prefetch(x, add(at, i64(1 << 20)));
      b.prefetch(x, add(at, i64(1 << 21)), true);
      return std::vector<ValueId>{};
    });
    const auto total = b.for_loop(
        i64(0), row, i64(1), {i64(0), i64(1)}, [&](ValueId at, std::span<const ValueId> c) {
          const ValueId bits = [&] {
            const ValueId v = b.load(kept, {e, 1}, at);
            const Elem as = kir::bit_width(e) == 8    ? Elem::I8
                            : kir::bit_width(e) == 16 ? Elem::I16
                            : kir::bit_width(e) == 32 ? Elem::I32
                                                      : Elem::I64;
            const ValueId i = b.emit(Op::bitcast, {as, 1}, {v});
            return as == Elem::I64 ? i : b.emit(Op::zext, {Elem::I64, 1}, {i});
          }();
          const auto picked = b.if_else(
              b.icmp(Pred::eq, b.emit(Op::band, {at, i64(1)}), i64(0)),
              [&] { return std::vector<ValueId>{add(c[0], bits), c[1]}; },
              [&] { return std::vector<ValueId>{c[0], add(mul(c[1], b.meta(1)), bits)}; });
          return std::vector<ValueId>{picked[1], picked[0]};  // carried values trade places
        });
    b.store(sums, mul(block, i64(2)), total[0]);
    b.store(sums, add(mul(block, i64(2)), i64(1)), total[1]);
    b.fail(4, b.icmp(Pred::eq, block, i64(5)));
    b.fail(8, b.icmp(Pred::eq, block, i64(50)));
    h.check();
  }
}

TEST_P(ExactMemory, NonTemporalStoresAndAlignment) {
  Harness h(name("stream_x"), lanes());
  const ObjectId x = h.input(Elem::F32, 1);
  KirBuilder& b = h.b;
  const ObjectId y = h.output(Elem::F32);
  b.for_loop(b.i64(0), b.i64(kCount), b.i64(lanes()), {},
             [&](ValueId at, std::span<const ValueId>) {
               b.store(y, at, b.load(x, h.vec(Elem::F32), at, 4), 4, true);
               return std::vector<ValueId>{};
             });
  h.check();
}

INSTANTIATE_TEST_SUITE_P(Lanes, ExactMemory, testing::Values(1, 4, 8, 16, 32));

}  // namespace
}  // namespace poot::exact
