// Lowering tile programs to the CPU's KIR: elementwise values, dtypes, masks, index maps.
#include "lower_cpu_test.h"

#include "program/kernel_abi.h"

namespace poot::lowering_test {
namespace {

using ir::OpCode;
using ir::Scalar;
using tile::AxisId;
using tile::BufferId;
using tile::IndexId;
using tile::TileBuilder;
using tile::ValueId;

const Dim kN = Dim::symbol(0), kM = Dim::symbol(1);

// Columns of a flat iteration space of n elements in blocks of `block`.
struct Flat {
  AxisId c;
  IndexId at;
};
Flat flat(TileBuilder& b, const Dim& n, int64_t block) {
  b.grid(0, Dim::ceildiv(n, block));
  const IndexId first = b.mul(b.scalar(b.block_id(0)), b.cst(block));
  const IndexId left = b.add(b.dim(n), b.mul(first, b.cst(-1)));
  const AxisId c = b.axis("c", block, b.min(b.cst(block), left));
  return {c, b.add(first, b.coord(c))};
}

// A kernel out = f(in0, in1, …) over n elements.
template <class F>
tile::Program pointwise_program(const std::string& name, const std::vector<DType>& in, DType out,
                                int64_t block, F&& f) {
  TileBuilder b(name);
  std::vector<BufferId> buffers;
  for (size_t i = 0; i < in.size(); ++i)
    buffers.push_back(b.buffer("in" + std::to_string(i), in[i], false));
  const BufferId result = b.buffer("out", out, true);
  const Flat at = flat(b, kN, block);
  std::vector<ValueId> args;
  for (BufferId x : buffers) args.push_back(b.load(x, at.at, {at.c}));
  b.store(result, at.at, f(b, args));
  return b.finish();
}

std::vector<Data> random_data(const tile::Program& p, int64_t n) {
  std::vector<Data> data;
  for (size_t i = 0; i < p.buffers.size(); ++i)
    data.push_back(p.buffers[i].written
                       ? Data(p.buffers[i].dtype, n)
                       : Data::random(p.buffers[i].dtype, n, static_cast<uint32_t>(7 + i)));
  return data;
}

TEST(LowerCpu, ReluOfSum) {
  for (DType d : {DType::F32, DType::BF16, DType::F16, DType::F64}) {
    const tile::Program p =
        pointwise_program("relu_add", {d}, d, 4096, [&](TileBuilder& b, std::vector<ValueId>& x) {
          const ValueId sum = b.pointwise(OpCode::add, d, {x[0], b.constant(Scalar::of(d, 1.0))});
          return b.pointwise(OpCode::maximum, d, {sum, b.constant(Scalar::of(d, 0.0))});
        });
    for (int64_t n : kLengths) compare(p, random_data(p, n), {n});
    for (uint32_t vector_bytes : {16u, 32u}) compare(p, random_data(p, 77), {77}, 0, vector_bytes);
  }
}

TEST(LowerCpu, Bf16RoundsEveryStep) {
  const DType d = DType::BF16;
  const tile::Program p =
      pointwise_program("steps", {d, d, d}, d, 64, [&](TileBuilder& b, std::vector<ValueId>& x) {
        const ValueId m = b.pointwise(OpCode::mul, d, {x[0], x[1]});
        const ValueId s = b.pointwise(OpCode::add, d, {m, x[2]});
        const ValueId n = b.pointwise(OpCode::neg, d, {s});
        return b.pointwise(OpCode::select, d,
                           {b.pointwise(OpCode::lt, DType::Bool, {n, m}), n,
                            b.pointwise(OpCode::sub, d, {s, x[0]})});
      });
  for (int64_t n : {1, 63, 64, 65, 200}) compare(p, random_data(p, n), {n});
}

TEST(LowerCpu, CastsBetweenAllDtypes) {
  const DType all[] = {DType::Bool, DType::U8,  DType::I8,   DType::I16, DType::I32,
                       DType::I64,  DType::F16, DType::BF16, DType::F32, DType::F64};
  for (DType from : all) {
    for (DType to : all) {
      if (from == to) continue;
      const tile::Program p =
          pointwise_program("cast_" + std::string(name(from)) + "_" + std::string(name(to)), {from},
                            to, 64, [&](TileBuilder& b, std::vector<ValueId>& x) {
                              return b.pointwise(OpCode::cast, to, {x[0]});
                            });
      std::vector<Data> data = random_data(p, 70);
      if (is_float(from) && to == DType::U8)  // negative floats to unsigned are undefined
        for (int64_t i = 0; i < 70; ++i)
          data[0].set(i, ir::from_double(std::abs(ir::to_double(data[0].get(i), from)), from));
      compare(p, data, {70});
    }
  }
}

TEST(LowerCpu, CopiesOfNarrowTypesFillTheVector) {
  for (auto [d, text] : {std::pair{DType::BF16, "bf16x32"}, {DType::U8, "i8x64"}}) {
    const tile::Program p = pointwise_program(
        "copy", {d}, d, 4096, [](TileBuilder&, std::vector<ValueId>& x) { return x[0]; });
    EXPECT_NE(codegen::lower_cpu(p, cpu_target()).str().find(text), std::string::npos);
    for (int64_t n : {1, 63, 129, 4096}) compare(p, random_data(p, n), {n});
  }
}

TEST(LowerCpu, ComparisonsAndBools) {
  for (DType d : {DType::F32, DType::I64, DType::BF16, DType::U8}) {
    const tile::Program p = pointwise_program(
        "compare", {d, d, DType::Bool}, DType::Bool, 64,
        [&](TileBuilder& b, std::vector<ValueId>& x) {
          const ValueId lt = b.pointwise(OpCode::lt, DType::Bool, {x[0], x[1]});
          const ValueId eq = b.pointwise(OpCode::eq, DType::Bool, {x[0], x[1]});
          const ValueId either = b.pointwise(OpCode::bit_or, DType::Bool, {lt, eq});
          return b.pointwise(OpCode::bit_xor, DType::Bool, {either, x[2]});
        });
    for (int64_t n : {3, 64, 129}) compare(p, random_data(p, n), {n});
  }
}

TEST(LowerCpu, IntegerDivisionByZeroSetsTheStatusWord) {
  for (OpCode op : {OpCode::floor_div, OpCode::trunc_div, OpCode::remainder, OpCode::fmod}) {
    for (DType d : {DType::I32, DType::I64}) {
      const tile::Program p = pointwise_program(
          "divide", {d, d}, d, 64,
          [&](TileBuilder& b, std::vector<ValueId>& x) { return b.pointwise(op, d, x); });
      std::vector<Data> data = random_data(p, 100);
      for (int64_t i = 0; i < 100; ++i)
        if (ir::to_int(data[1].get(i), d) == 0) data[1].set(i, ir::from_int(3, d));
      data[0].set(5, d == DType::I32 ? 0x80000000u : uint64_t{1} << 63);
      data[1].set(5, ir::from_int(-1, d));
      compare(p, data, {100});
      data[1].set(99, 0);
      const Outcome o =
          run_kir(p, codegen::lower_cpu(p, cpu_target()), data, std::vector<int64_t>{100});
      EXPECT_EQ(o.status, program::kDivideByZero);
      // The zero is outside the extent.
      const Outcome shorter =
          run_kir(p, codegen::lower_cpu(p, cpu_target()), data, std::vector<int64_t>{99});
      EXPECT_EQ(shorter.status, 0u);
    }
  }
}

TEST(LowerCpu, CheckOfAnyPosition) {
  const tile::Program p = [] {
    TileBuilder b("check");
    const BufferId x = b.buffer("x", DType::Bool, false);
    const Flat at = flat(b, kN, 64);
    b.check(b.load(x, at.at, {at.c}), program::kIndexOutOfRange);
    return b.finish();
  }();
  for (int64_t n : {0, 1, 64, 65, 130}) {
    std::vector<Data> data{Data(DType::Bool, n)};
    for (int64_t i = 0; i < n; ++i) data[0].set(i, 1);
    compare(p, data, {n});
    if (n == 0) continue;
    data[0].set(n - 1, 0);
    compare(p, data, {n});
  }
}

// out[r, c] = x[r, c] * row[r] + column[c] + s[]
TEST(LowerCpu, BroadcastsOfRowsColumnsAndScalars) {
  for (DType d : {DType::F32, DType::BF16}) {
    TileBuilder b("broadcasts");
    const BufferId x = b.buffer("x", d, false), row = b.buffer("row", d, false),
                   column = b.buffer("column", d, false), s = b.buffer("s", d, false),
                   out = b.buffer("out", d, true);
    b.grid(1, Dim::ceildiv(kM, 8));
    b.grid(0, Dim::ceildiv(kN, 64));
    const auto blocked = [&](uint32_t grid, const char* name, const Dim& n, int64_t block) {
      const IndexId first = b.mul(b.scalar(b.block_id(grid)), b.cst(block));
      const IndexId left = b.add(b.dim(n), b.mul(first, b.cst(-1)));
      const AxisId a = b.axis(name, block, b.min(b.cst(block), left));
      return std::pair(a, b.add(first, b.coord(a)));
    };
    const auto [r, ri] = blocked(1, "r", kM, 8);
    const auto [c, ci] = blocked(0, "c", kN, 64);
    const IndexId at = b.add(b.mul(ri, b.dim(kN)), ci);
    ValueId v = b.load(x, at, {r, c});
    v = b.pointwise(OpCode::mul, d, {v, b.load(row, ri, {r, AxisId()})});
    v = b.pointwise(OpCode::add, d, {v, b.load(column, ci, {AxisId(), c})});
    v = b.pointwise(OpCode::add, d, {v, b.load(s, b.cst(0), {})});
    b.store(out, at, v);
    const tile::Program p = b.finish();
    for (auto [n, m] : {std::pair{1, 1}, {70, 9}, {64, 8}, {130, 3}, {0, 4}, {5, 0}})
      compare(p,
              {Data::random(d, n * m, 1), Data::random(d, m, 2), Data::random(d, n, 3),
               Data::random(d, 1, 4), Data(d, n * m)},
              {n, m});
  }
}

// A column of seven elements: short rows take half a vector.
TEST(LowerCpu, ShortConstantRows) {
  for (int64_t width : {1, 2, 5, 7, 16, 24}) {
    TileBuilder b("short_rows");
    const BufferId x = b.buffer("x", DType::F32, false), out = b.buffer("out", DType::F32, true);
    b.grid(0, Dim::ceildiv(kM, 4));
    const IndexId first = b.mul(b.scalar(b.block_id(0)), b.cst(4));
    const AxisId r = b.axis("r", 4, b.min(b.cst(4), b.add(b.dim(kM), b.mul(first, b.cst(-1)))));
    const AxisId c = b.axis("c", width, b.cst(width));
    const IndexId at = b.add(b.mul(b.add(first, b.coord(r)), b.cst(width)), b.coord(c));
    const ValueId v = b.broadcast(b.load(x, at, {r, c}), {r, c});
    b.store(out, at, b.pointwise(OpCode::neg, DType::F32, {v}));
    const tile::Program p = b.finish();
    for (int64_t m : {0, 1, 4, 6})
      compare(p, {Data::random(DType::F32, width * m, 1), Data(DType::F32, width * m)}, {0, m});
  }
}

// Every second element (interleaved pairs) and a reversed axis: loads and shuffles, no gather but
// in the tail.
TEST(LowerCpu, PairsAndFlips) {
  for (DType d : {DType::F32, DType::BF16, DType::Bool}) {
    TileBuilder b("pairs");
    const BufferId x = b.buffer("x", d, false), out = b.buffer("out", d, true),
                   back = b.buffer("back", d, true);
    const Flat at = flat(b, kN, 256);
    const ValueId even = b.load(x, b.mul(at.at, b.cst(2)), {at.c});
    const ValueId last =
        b.load(x, b.add(b.dim(kN + kN + Dim(-1)), b.mul(at.at, b.cst(-1))), {at.c});
    const ValueId is_equal = b.pointwise(OpCode::eq, DType::Bool, {even, last});
    b.store(out, at.at, b.pointwise(OpCode::select, d, {is_equal, last, even}));
    b.store(back, b.add(b.dim(kN + Dim(-1)), b.mul(at.at, b.cst(-1))), last);
    const tile::Program p = b.finish();
    for (int64_t n : {1, 16, 17, 64, 100, 300})
      compare(p, {Data::random(d, 2 * n, 1), Data(d, n), Data(d, n)}, {n});
  }
}

TEST(LowerCpu, TransposeStridesAndReversal) {
  for (DType d : {DType::F32, DType::BF16, DType::Bool}) {
    TileBuilder b("transpose");
    const BufferId x = b.buffer("x", d, false), out = b.buffer("out", d, true),
                   even = b.buffer("even", d, true), back = b.buffer("back", d, true);
    const AxisId r = b.axis("r", 20, b.cst(20)), c = b.axis("c", 37, b.cst(37));
    const IndexId i = b.coord(r), j = b.coord(c);
    const ValueId v = b.load(x, b.add(b.mul(j, b.cst(20)), i), {r, c});
    const IndexId row = b.add(b.mul(i, b.cst(37)), j);
    b.store(out, row, v);
    b.store(even, b.mul(row, b.cst(2)), v);
    b.store(back, b.add(b.mul(j, b.cst(-1)), b.add(b.mul(i, b.cst(37)), b.cst(36))), v);
    const tile::Program p = b.finish();
    compare(p, {Data::random(d, 740, 1), Data(d, 740), Data(d, 1480), Data(d, 740)});
  }
}

// x[idx[c] of the row, …] through a loaded index, with a mask that keeps it in bounds.
TEST(LowerCpu, LoadedIndicesAndMasks) {
  TileBuilder b("gather");
  const BufferId x = b.buffer("x", DType::F32, false), idx = b.buffer("idx", DType::I64, false),
                 rows = b.buffer("rows", DType::I32, false),
                 out = b.buffer("out", DType::F32, true),
                 moved = b.buffer("moved", DType::F32, true);
  const AxisId r = b.axis("r", 6, b.dim(kM)), c = b.axis("c", 100, b.dim(kN));
  const ValueId i = b.load(idx, b.coord(c), {AxisId(), c});
  const ValueId k = b.load(rows, b.coord(r), {r, AxisId()});
  const IndexId at = b.add(b.mul(b.loaded(k), b.cst(50)), b.loaded(i));
  const tile::Mask inside{{b.loaded(i), b.cst(0), b.cst(50)}, {b.loaded(k), b.cst(0), b.cst(6)}};
  const ValueId v = b.load(x, at, {r, c}, inside, Scalar::of(DType::F32, 9.5));
  b.store(out, b.add(b.mul(b.coord(r), b.dim(kN)), b.coord(c)), v);
  b.store(moved, b.add(b.mul(b.loaded(k), b.dim(kN)), b.coord(c)), v,
          {{b.loaded(k), b.cst(0), b.cst(6)}});
  const tile::Program p = b.finish();
  for (auto [n, m] : {std::pair{100, 6}, {17, 3}, {1, 1}}) {
    Data index(DType::I64, n), row(DType::I32, m);
    for (int64_t e = 0; e < n; ++e) index.set(e, ir::from_int(e * 7 % 53 - 1, DType::I64));
    for (int64_t e = 0; e < m; ++e)
      row.set(e, ir::from_int((e * 5 + 1) % 7 - (e == 2), DType::I32));
    compare(p,
            {Data::random(DType::F32, 300, 1), index, row, Data(DType::F32, n * m),
             Data(DType::F32, 6 * n)},
            {n, m});
  }
}

// Padding, a rolled axis and a repeated head: masks and div/mod that vary with the column.
TEST(LowerCpu, GuardsAndQuotientsOfTheColumn) {
  TileBuilder b("guards");
  const BufferId x = b.buffer("x", DType::F32, false), out = b.buffer("out", DType::F32, true),
                 where = b.buffer("where", DType::I64, true);
  const Flat at = flat(b, kN, 64);
  const IndexId shifted = b.add(at.at, b.cst(-3));
  const ValueId padded =
      b.load(x, shifted, {at.c}, {{shifted, b.cst(0), b.dim(kM)}}, Scalar::of(DType::F32, -1.0));
  const IndexId rolled = b.mod(b.add(at.at, b.cst(-5)), b.dim(kM));
  const ValueId turned = b.load(x, rolled, {at.c});
  const ValueId repeated = b.load(x, b.div(at.at, b.cst(7)), {at.c});
  ValueId sum = b.pointwise(OpCode::add, DType::F32, {padded, turned});
  sum = b.pointwise(OpCode::sub, DType::F32, {sum, repeated});
  b.store(out, at.at, sum);
  b.store(where, at.at,
          b.index_tile(b.max(b.min(shifted, b.cst(90)), b.cst(2)), DType::I64, {at.c}));
  const tile::Program p = b.finish();
  for (auto [n, m] : {std::pair{100, 97}, {64, 40}, {130, 20}, {3, 1}})
    compare(p, {Data::random(DType::F32, m, 1), Data(DType::F32, n), Data(DType::I64, n)}, {n, m});
}

// A mask that is uniform in the row guards a scalar load and a scalar store.
TEST(LowerCpu, RowMasks) {
  TileBuilder b("row_masks");
  const BufferId x = b.buffer("x", DType::BF16, false), out = b.buffer("out", DType::F32, true),
                 first = b.buffer("first", DType::BF16, true);
  const AxisId r = b.axis("r", 8, b.cst(8)), c = b.axis("c", 33, b.cst(33));
  const tile::Mask inside{{b.coord(r), b.cst(2), b.dim(kN)}};
  const ValueId v = b.load(x, b.coord(r), {r, AxisId()}, inside);
  const ValueId wide = b.pointwise(OpCode::cast, DType::F32, {v});
  b.store(out, b.add(b.mul(b.coord(r), b.cst(33)), b.coord(c)), b.broadcast(wide, {r, c}), inside);
  b.store(first, b.coord(r), b.broadcast(v, {r, AxisId()}), inside);
  const tile::Program p = b.finish();
  for (int64_t n : {0, 5, 8})
    compare(p, {Data::random(DType::BF16, n, 1), Data(DType::F32, 264), Data(DType::BF16, 8)}, {n});
}

}  // namespace
}  // namespace poot::lowering_test
