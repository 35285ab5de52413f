// Lowering to the CPU's KIR: reductions, phases, kept tiles, loops with carried tiles.
#include "lower_cpu_test.h"

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
constexpr DType kF32 = DType::F32;

struct Rows {
  AxisId r, c;
  IndexId at, row;
};

// Tiles [r, c] over kM rows of `n` columns, `height` rows a block.
Rows rows(TileBuilder& b, const Dim& n, int64_t capacity, int64_t height) {
  b.grid(0, Dim::ceildiv(kM, height));
  const IndexId first = b.mul(b.scalar(b.block_id(0)), b.cst(height));
  const AxisId r =
      b.axis("r", height, b.min(b.cst(height), b.add(b.dim(kM), b.mul(first, b.cst(-1)))));
  const AxisId c = b.axis("c", capacity, b.dim(n));
  const IndexId row = b.add(first, b.coord(r));
  return {r, c, b.add(b.mul(row, b.dim(n)), b.coord(c)), row};
}

tile::Program softmax(DType d, const Dim& n, int64_t capacity, int64_t height) {
  TileBuilder b("softmax");
  const BufferId x = b.buffer("x", d, false), out = b.buffer("out", d, true);
  const Rows at = rows(b, n, capacity, height);
  const auto f32 = [&](OpCode op, std::vector<ValueId> a) { return b.pointwise(op, kF32, a); };
  ValueId v = b.load(x, at.at, {at.r, at.c});
  if (d != kF32) v = f32(OpCode::cast, {v});
  const ValueId m = b.reduce(OpCode::reduce_max, v, 1);
  const ValueId e = f32(OpCode::exp, {f32(OpCode::sub, {v, m})});
  const ValueId s = b.reduce(OpCode::reduce_sum, e, 1);
  ValueId y = f32(OpCode::div, {e, s});
  if (d != kF32) y = b.pointwise(OpCode::cast, d, {y});
  b.store(out, at.at, y);
  return b.finish();
}

// The next row is asked for in the phase of the exponentials, and only if rows come from memory.
TEST(LowerCpuRows, PrefetchInTheDearestPhase) {
  tile::Program p = softmax(kF32, Dim(1000), 1000, 4);
  const auto kir = [&] { return codegen::lower_cpu(p, cpu_target()).str(); };
  for (const Dim& blocks : {Dim(2000), p.grid[0]}) {
    p.grid[0] = blocks;
    p.block_elems = 4000;
    const std::string text = kir();
    const size_t first = text.find("prefetch %x");
    ASSERT_NE(first, std::string::npos);
    EXPECT_LT(text.find("reduce_fmax"), first);
    EXPECT_LT(text.rfind("prefetch %x"), text.find("reduce_fadd"));
  }
  p.grid[0] = 2;
  EXPECT_EQ(kir().find("prefetch"), std::string::npos);
}

// Where the exponentials are kept, rows are read once: the next is asked for, further away, while
// this one is written.
TEST(LowerCpuRows, PrefetchWithTheStores) {
  tile::Program p = softmax(kF32, Dim(4000), 4000, 4);
  const auto kir = [&] { return codegen::lower_cpu(p, cpu_target()).str(); };
  p.grid[0] = 2000;
  p.block_elems = 16000;
  const std::string text = kir();
  const size_t far = text.find("prefetch_far %x");
  ASSERT_NE(far, std::string::npos) << text;
  EXPECT_LT(text.rfind("prefetch %x"), far);
  EXPECT_LT(text.find("store %out"), far);
  p.grid[0] = 2;
  EXPECT_EQ(kir().find("prefetch"), std::string::npos);
}

// Rows that are walked once ask ahead too: long ones within the row, short ones some rows on.
TEST(LowerCpuRows, PrefetchInASinglePass) {
  for (int64_t n : {64, 2000}) {
    TileBuilder b("twice");
    const BufferId x = b.buffer("x", kF32, false), out = b.buffer("out", kF32, true);
    const Rows at = rows(b, Dim(n), n, 64);
    const ValueId v = b.load(x, at.at, {at.r, at.c});
    b.store(out, at.at, b.pointwise(OpCode::add, kF32, {v, v}));
    tile::Program p = b.finish();
    p.block_elems = 64 * n;
    const auto kir = [&] { return codegen::lower_cpu(p, cpu_target()).str(); };
    p.grid[0] = 5000;
    const std::string text = kir();
    EXPECT_NE(text.find("prefetch %x"), std::string::npos) << text;
    EXPECT_NE(text.find(" = constant 1024 i64"), std::string::npos) << text;
    p.grid[0] = 2;
    EXPECT_EQ(kir().find("prefetch"), std::string::npos);
  }
}

// The even and the odd elements of pairs lie in the same lines, each of which is asked for once;
// loads two lines apart ask for their own.
TEST(LowerCpuRows, PrefetchOfALineOnce) {
  constexpr int64_t kColumns = 256;
  for (const auto& [second, asked] : {std::pair<int64_t, int>{1, 2}, {32, 4}}) {
    TileBuilder b("pairs");
    const BufferId x = b.buffer("x", kF32, false), out = b.buffer("out", kF32, true);
    const Rows at = rows(b, Dim(kColumns), kColumns, 16);
    const IndexId first = b.mul(at.at, b.cst(2));
    const ValueId even = b.load(x, first, {at.r, at.c}),
                  odd = b.load(x, b.add(first, b.cst(second)), {at.r, at.c});
    b.store(out, at.at, b.pointwise(OpCode::mul, kF32, {even, odd}));
    tile::Program p = b.finish();
    p.grid[0] = 5000;
    p.block_elems = 16 * kColumns;
    const std::string text = codegen::lower_cpu(p, cpu_target()).str();
    int found = 0, stores = 0;
    for (size_t i = text.find("prefetch %x"); i != text.npos; i = text.find("prefetch %x", i + 1))
      ++found;
    for (size_t i = text.find("store %out"); i != text.npos; i = text.find("store %out", i + 1))
      ++stores;
    ASSERT_GT(stores, 0);
    EXPECT_EQ(found, asked * stores) << text;
  }
}

// Rows of bf16 that fill no whole vector of it are computed in single vectors of f32.
TEST(LowerCpuRows, ShortRowsOfBf16) {
  for (const auto& [columns, whole] : {std::pair<int64_t, bool>{17, false}, {32, true}}) {
    const tile::Program p = softmax(DType::BF16, Dim(columns), columns, 4);
    const std::string text = codegen::lower_cpu(p, cpu_target()).str();
    EXPECT_EQ(text.find("f32x32") != text.npos, whole) << text;
  }
}

TEST(LowerCpuRows, Softmax) {
  for (int64_t n : kLengths) {
    if (n == 0) continue;
    const int64_t m = n > 1000 ? 2 : 5;
    compare(softmax(kF32, kN, 8192, 4), {Data::random(kF32, n * m, 1), Data(kF32, n * m)}, {n, m},
            24);
    compare(softmax(kF32, Dim(n), n, 4), {Data::random(kF32, n * m, 1), Data(kF32, n * m)}, {n, m},
            24);
  }
  // Too wide to keep: the exponentials are evaluated twice.
  compare(softmax(kF32, kN, 1 << 30, 1), {Data::random(kF32, 300, 1), Data(kF32, 300)}, {100, 3},
          16);
  compare(softmax(DType::BF16, kN, 512, 2),
          {Data::random(DType::BF16, 300, 1), Data(DType::BF16, 300)}, {100, 3}, 1, 32);
}

// h = x + residual; out = h * rsqrt(mean(h^2) + eps) * w in bf16, as eager rounds.
TEST(LowerCpuRows, RmsNormWithResidual) {
  const DType d = DType::BF16;
  for (int64_t n : {64, 65, 200}) {
    TileBuilder b("rmsnorm");
    const BufferId x = b.buffer("x", d, false), res = b.buffer("res", d, false),
                   w = b.buffer("w", d, false), sum = b.buffer("sum", d, true),
                   out = b.buffer("out", d, true);
    const Rows at = rows(b, Dim(n), n, 2);
    const auto f32 = [&](OpCode op, std::vector<ValueId> a) { return b.pointwise(op, kF32, a); };
    const ValueId h = b.pointwise(
        OpCode::add, d, {b.load(x, at.at, {at.r, at.c}), b.load(res, at.at, {at.r, at.c})});
    b.store(sum, at.at, h);
    const ValueId wide = f32(OpCode::cast, {h});
    const ValueId squares = b.reduce(OpCode::reduce_sum, f32(OpCode::mul, {wide, wide}), 1);
    const ValueId mean =
        f32(OpCode::div, {squares, b.constant(Scalar::of(kF32, static_cast<double>(n)))});
    const ValueId scale =
        f32(OpCode::rsqrt, {f32(OpCode::add, {mean, b.constant(Scalar::of(kF32, 1e-5))})});
    const ValueId y = b.pointwise(OpCode::cast, d, {f32(OpCode::mul, {wide, scale})});
    b.store(out, at.at,
            b.pointwise(OpCode::mul, d, {y, b.load(w, b.coord(at.c), {AxisId(), at.c})}));
    const tile::Program p = b.finish();
    const int64_t m = 5;
    compare(p,
            {Data::random(d, n * m, 1), Data::random(d, n * m, 2), Data::random(d, n, 3),
             Data(d, n * m), Data(d, n * m)},
            {0, m}, 1);
  }
}

TEST(LowerCpuRows, ReductionsOfEveryDtype) {
  struct Case {
    OpCode op;
    DType d;
    double limit;
  };
  for (const Case& k : std::vector<Case>{{OpCode::reduce_sum, kF32, 64},
                                         {OpCode::reduce_prod, DType::F64, 64},
                                         {OpCode::reduce_max, DType::BF16, 0},
                                         {OpCode::reduce_min, DType::F16, 0},
                                         {OpCode::reduce_sum, DType::I64, 0},
                                         {OpCode::reduce_prod, DType::I32, 0},
                                         {OpCode::reduce_max, DType::U8, 0},
                                         {OpCode::reduce_min, DType::I8, 0},
                                         {OpCode::reduce_max, DType::I64, 0},
                                         {OpCode::reduce_any, DType::Bool, 0},
                                         {OpCode::reduce_all, DType::Bool, 0}}) {
    TileBuilder b(std::string(ir::op_info(k.op).name));
    const BufferId x = b.buffer("x", k.d, false), out = b.buffer("out", k.d, true);
    const Rows at = rows(b, kN, 5000, 3);
    const ValueId v = b.reduce(k.op, b.load(x, at.at, {at.r, at.c}), 1);
    b.store(out, at.row, b.broadcast(v, {at.r, AxisId()}));
    const tile::Program p = b.finish();
    for (int64_t n : {1, 17, 64, 100, 257})
      compare(p, {Data::random(k.d, n * 4, 1), Data(k.d, 4)}, {n, 4}, k.limit);
  }
}

// Tails, chunks side by side, blocks of chunks in loops; of what is dear, kept for the next walk.
TEST(LowerCpuRows, Moments) {
  for (int64_t n : {1, 7, 8, 100, 1024, 1500, 4096, 9000, 33001}) {
    TileBuilder b("moments");
    const BufferId x = b.buffer("x", kF32, false), out = b.buffer("out", kF32, true),
                   squares = b.buffer("squares", kF32, true);
    const Rows at = rows(b, Dim(n), n, 2);
    ValueId v = b.load(x, at.at, {at.r, at.c});
    v = n % 2 == 0 ? b.pointwise(OpCode::exp, kF32, {v}) : b.pointwise(OpCode::abs, kF32, {v});
    const ValueId mean = b.reduce(OpCode::welford_mean, v, 1);
    b.store(squares, at.row,
            b.broadcast(b.reduce(OpCode::welford_squares, v, 1), {at.r, AxisId()}));
    b.store(out, at.at, b.pointwise(OpCode::mul, kF32, {v, mean}));
    compare(b.finish(), {Data::random(kF32, n * 3, 1), Data(kF32, n * 3), Data(kF32, 3)}, {0, 3},
            64);
  }
}

TEST(LowerCpuRows, NanReachesTheMaximum) {
  TileBuilder b("nan_max");
  const BufferId x = b.buffer("x", kF32, false), out = b.buffer("out", kF32, true);
  const AxisId c = b.axis("c", 128, b.dim(kN));
  b.store(out, b.cst(0), b.reduce(OpCode::reduce_max, b.load(x, b.coord(c), {c}), 0));
  const tile::Program p = b.finish();
  for (int64_t n : {5, 70, 128}) {
    for (int64_t k : {int64_t{0}, n / 2, n - 1}) {
      std::vector<Data> data{Data::random(kF32, n, 1), Data(kF32, 1)};
      data[0].set(k, 0x7fc00000);
      const Outcome o = run_kir(p, codegen::lower_cpu(p, cpu_target()), data, std::vector{n});
      EXPECT_TRUE(std::isnan(ir::to_double(o.buffers[1].get(0), kF32)));
    }
  }
}

// Reductions over the first axis, over both, and a value that needs both.
TEST(LowerCpuRows, ReductionOverRows) {
  TileBuilder b("column_sums");
  const BufferId x = b.buffer("x", kF32, false), sums = b.buffer("sums", kF32, true),
                 total = b.buffer("total", kF32, true), out = b.buffer("out", kF32, true);
  const AxisId r = b.axis("r", 16, b.dim(kM)), c = b.axis("c", 100, b.dim(kN));
  const IndexId at = b.add(b.mul(b.coord(r), b.dim(kN)), b.coord(c));
  const ValueId v = b.load(x, at, {r, c});
  const ValueId down = b.reduce(OpCode::reduce_sum, v, 0);
  const ValueId all = b.reduce(OpCode::reduce_max, b.reduce(OpCode::reduce_max, v, 1), 0);
  b.store(sums, b.coord(c), b.broadcast(down, {AxisId(), c}));
  b.store(total, b.cst(0), all);
  const ValueId shifted = b.pointwise(OpCode::sub, kF32, {v, all});
  b.store(out, at, b.pointwise(OpCode::add, kF32, {shifted, down}));
  const tile::Program p = b.finish();
  for (auto [n, m] : {std::pair{100, 16}, {17, 3}, {1, 1}})
    compare(p, {Data::random(kF32, n * m, 1), Data(kF32, n), Data(kF32, 1), Data(kF32, n * m)},
            {n, m}, 32);
}

// Row minima used by another nest: kept for all rows.
TEST(LowerCpuRows, RowResultsAcrossNests) {
  TileBuilder b("cross_nests");
  const BufferId x = b.buffer("x", kF32, false), y = b.buffer("y", kF32, true),
                 z = b.buffer("z", kF32, true);
  const AxisId h = b.axis("h", 3, b.cst(3)), r = b.axis("r", 8, b.dim(kM)),
               c = b.axis("c", 40, b.dim(kN));
  const AxisId unit;
  const IndexId at = b.add(b.mul(b.coord(r), b.dim(kN)), b.coord(c));
  const ValueId v = b.load(x, at, {unit, r, c});
  const ValueId s = b.reduce(OpCode::reduce_min, v, 2);
  b.store(y, b.coord(r), b.broadcast(s, {unit, r, unit}));
  const ValueId k = b.index_tile(b.coord(h), DType::I64, {h, unit, unit});
  const ValueId scaled = b.pointwise(OpCode::mul, kF32, {s, b.pointwise(OpCode::cast, kF32, {k})});
  const IndexId where = b.add(b.mul(b.coord(h), b.dim(kM * kN)), at);
  b.store(z, where, b.pointwise(OpCode::add, kF32, {v, scaled}));
  const tile::Program p = b.finish();
  compare(p, {Data::random(kF32, 40 * 8, 1), Data(kF32, 8), Data(kF32, 3 * 40 * 8)}, {40, 8});
  compare(p, {Data::random(kF32, 17 * 2, 1), Data(kF32, 2), Data(kF32, 3 * 17 * 2)}, {17, 2});
}

// Online softmax over chunks of 64 columns: [r, unit] tiles carried by a loop.
TEST(LowerCpuRows, StreamedSoftmaxCarriesScalars) {
  TileBuilder b("streamed");
  const BufferId x = b.buffer("x", kF32, false), out = b.buffer("out", kF32, true);
  b.grid(0, kM);
  const AxisId unit;
  const IndexId row = b.scalar(b.block_id(0));
  const AxisId r = b.axis("r", 2, b.cst(1));
  const IndexId chunks = b.dim(Dim::ceildiv(kN, 64));
  const auto chunk = [&](ValueId i) {
    const IndexId first = b.mul(b.scalar(i), b.cst(64));
    const AxisId c = b.axis("c", 64, b.min(b.cst(64), b.add(b.dim(kN), b.mul(first, b.cst(-1)))));
    const IndexId at = b.add(b.mul(b.add(row, b.coord(r)), b.dim(kN)), b.add(first, b.coord(c)));
    return std::pair(c, at);
  };
  const auto f32 = [&](OpCode op, std::vector<ValueId> a) { return b.pointwise(op, kF32, a); };
  b.begin_for(b.cst(0), chunks,
              {b.constant(Scalar::of(kF32, -INFINITY), {r, unit}),
               b.constant(Scalar::of(kF32, 0.0), {r, unit})});
  {
    const std::vector<ValueId> carried = b.for_carried();
    const auto [c, at] = chunk(b.for_index());
    const ValueId v = b.load(x, at, {r, c});
    const ValueId m = f32(OpCode::maximum, {carried[0], b.reduce(OpCode::reduce_max, v, 1)});
    const ValueId s = b.reduce(OpCode::reduce_sum, f32(OpCode::exp, {f32(OpCode::sub, {v, m})}), 1);
    const ValueId scale = f32(OpCode::exp, {f32(OpCode::sub, {carried[0], m})});
    b.end_for({m, f32(OpCode::add, {f32(OpCode::mul, {carried[1], scale}), s})});
  }
  const std::vector<ValueId> total = {b.program().body.insts.back().results[0],
                                      b.program().body.insts.back().results[1]};
  b.begin_for(b.cst(0), chunks, {});
  const auto [c, at] = chunk(b.for_index());
  const ValueId e = f32(OpCode::exp, {f32(OpCode::sub, {b.load(x, at, {r, c}), total[0]})});
  b.store(out, at, f32(OpCode::div, {e, total[1]}));
  b.end_for({});
  const tile::Program p = b.finish();
  for (int64_t n : {1, 64, 65, 200})
    compare(p, {Data::random(kF32, n * 3, 1), Data(kF32, n * 3)}, {n, 3}, 16);
}

// Column sums over a loop: a [c] tile carried in an array, with a swapped pair beside it.
TEST(LowerCpuRows, CarriedColumnsLiveInArrays) {
  TileBuilder b("carried");
  const BufferId x = b.buffer("x", kF32, false), out = b.buffer("out", kF32, true),
                 other = b.buffer("other", kF32, true);
  const AxisId c = b.axis("c", 100, b.dim(kN));
  b.begin_for(b.cst(0), b.dim(kM),
              {b.constant(Scalar::of(kF32, 0.0), {c}), b.load(x, b.coord(c), {c}),
               b.constant(Scalar::of(DType::I64, int64_t{3}), {})});
  const std::vector<ValueId> carried = b.for_carried();
  const IndexId at = b.add(b.mul(b.scalar(b.for_index()), b.dim(kN)), b.coord(c));
  const ValueId v = b.load(x, at, {c});
  const ValueId norm = b.reduce(OpCode::reduce_max, v, 0);
  const ValueId next = b.pointwise(OpCode::add, kF32, {carried[0], v});
  const ValueId step =
      b.pointwise(OpCode::mul, kF32, {b.pointwise(OpCode::sub, kF32, {v, norm}), carried[0]});
  b.end_for({b.pointwise(OpCode::sub, kF32, {carried[1], step}), next,
             b.pointwise(OpCode::add, DType::I64,
                         {carried[2], b.constant(Scalar::of(DType::I64, int64_t{1}))})});
  const std::vector<ValueId> done = b.program().body.insts.back().results;
  b.store(out, b.coord(c), done[0]);
  b.store(other, b.coord(c),
          b.pointwise(OpCode::add, kF32, {done[1], b.pointwise(OpCode::cast, kF32, {done[2]})}));
  const tile::Program p = b.finish();
  for (auto [n, m] : {std::pair{100, 5}, {17, 1}, {64, 4}, {3, 0}})
    compare(p, {Data::random(kF32, n * std::max(m, 1), 1), Data(kF32, n), Data(kF32, n)}, {n, m},
            16);
}

// A dear value made before a loop and used inside it is kept for the loop.
TEST(LowerCpuRows, ValuesUsedInALoopAreKept) {
  TileBuilder b("kept_for_loop");
  const BufferId x = b.buffer("x", kF32, false), out = b.buffer("out", kF32, true);
  const AxisId c = b.axis("c", 64, b.dim(kN));
  const ValueId e = b.pointwise(OpCode::div, kF32,
                                {b.load(x, b.coord(c), {c}), b.constant(Scalar::of(kF32, 3.0))});
  const ValueId cheap = b.pointwise(OpCode::neg, kF32, {b.load(x, b.coord(c), {c})});
  const ValueId m = b.reduce(OpCode::reduce_max, e, 0);
  b.begin_for(b.cst(0), b.dim(kM), {});
  const IndexId at = b.add(b.mul(b.scalar(b.for_index()), b.dim(kN)), b.coord(c));
  const ValueId v = b.pointwise(OpCode::sub, kF32, {e, m});
  b.store(out, at, b.pointwise(OpCode::add, kF32, {v, cheap}));
  b.end_for({});
  const tile::Program p = b.finish();
  const std::string text = codegen::lower_cpu(p, cpu_target()).str();
  EXPECT_NE(text.find("kept"), std::string::npos);
  for (auto [n, m2] : {std::pair{64, 3}, {5, 2}})
    compare(p, {Data::random(kF32, n, 1), Data(kF32, n * m2)}, {n, m2});
}

// A row over one divisor: multiplication by the reciprocal and a correction must give the
// quotient's bits, for any dividend and divisor.
TEST(LowerCpuRows, DivisionByARowsValueIsExact) {
  TileBuilder b("row_divisor");
  const BufferId x = b.buffer("x", kF32, false), d = b.buffer("d", kF32, false),
                 out = b.buffer("out", kF32, true);
  const Rows at = rows(b, kN, 4096, 8);
  const ValueId v = b.load(x, at.at, {at.r, at.c});
  const ValueId divisor = b.load(d, at.row, {at.r, AxisId()});
  b.store(out, at.at, b.pointwise(OpCode::div, kF32, {v, divisor}));
  const tile::Program p = b.finish();
  EXPECT_NE(codegen::lower_cpu(p, cpu_target()).str().find(" fma "), std::string::npos);
  const int64_t n = 1000, m = 48;
  std::vector<Data> data{Data(kF32, n * m), Data(kF32, m), Data(kF32, n * m)};
  std::mt19937 rng(5);
  // Rows of moderate, of any, and of special values.
  const uint32_t special[] = {0,          0x80000000, 1,          0x807fffff, 0x00800000,
                              0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x3f800000};
  for (int64_t r = 0; r < m; ++r) {
    const uint32_t any = static_cast<uint32_t>(rng());
    data[1].set(r, r < 10 ? special[r] : r % 2 == 0 ? (any & 0x007fffff) | 0x40000000 : any);
    for (int64_t c = 0; c < n; ++c) {
      const uint32_t bits = static_cast<uint32_t>(rng());
      data[0].set(r * n + c, r % 3 == 0 ? bits
                             : c % 97 == 0 && r % 3 == 1
                                 ? special[bits % 10]
                                 : (bits & 0x807fffff) | (0x38000000 + (bits >> 7 & 0x0f800000)));
    }
  }
  compare(p, data, {n, m});
}

// In place: a row is read before it is overwritten, though the maximum needs it earlier.
TEST(LowerCpuRows, InPlaceRow) {
  TileBuilder b("in_place");
  const BufferId x = b.buffer("x", kF32, true);
  const Rows at = rows(b, kN, 300, 2);
  const ValueId v = b.load(x, at.at, {at.r, at.c});
  const ValueId m = b.reduce(OpCode::reduce_max, v, 1);
  b.store(x, at.at, b.pointwise(OpCode::sub, kF32, {v, m}));
  const tile::Program p = b.finish();
  for (int64_t n : {1, 64, 300}) compare(p, {Data::random(kF32, n * 3, 1)}, {n, 3});
}

}  // namespace
}  // namespace poot::lowering_test
