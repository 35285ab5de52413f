// The matrix unit's instructions as machine code: equal to the interpreter in every bit.
#include "exact_harness.h"

namespace poot::exact {
namespace {

// y[i][j] += product of `rows` rows of x by the packed w, `steps` steps of 32.
kir::Kernel product(int64_t rows, int64_t steps) {
  kir::Kernel kernel;
  kernel.name = "tiles";
  KirBuilder b(kernel);
  b.add_object({.name = "x", .elem = Elem::BF16});
  b.add_object({.name = "w", .elem = Elem::BF16});
  b.add_object({.name = "y", .elem = Elem::F32, .writable = true});
  const ValueId width = b.i64(16), row = b.i64(34 * steps), zero = b.i64(0);
  b.tile_rows(b.i64(rows));
  b.tile_load(0, ObjectId(2), zero, width);
  b.for_loop(zero, b.i64(steps), b.i64(1), {}, [&](ValueId s, std::span<const ValueId>) {
    b.tile_load(4, ObjectId(0), b.emit(Op::imul, {s, b.i64(32)}), row);
    b.tile_load(6, ObjectId(1), b.emit(Op::imul, {s, b.i64(512)}), b.i64(32));
    b.tile_dot(0, 4, 6);
    return std::vector<ValueId>{};
  });
  b.tile_store(0, ObjectId(2), zero, width);
  b.tile_release();
  return kernel;
}

// Values between 2^-4 and 2^4 of both signs, with a denormal now and then.
std::vector<uint64_t> moderate(Elem e, uint64_t seed) {
  const int64_t unused = kir::bit_width(e) == 16 ? 0 : 16;
  std::mt19937_64 rng(seed);
  std::vector<uint64_t> out;
  for (int64_t i = 0; i < kCount; ++i) {
    const uint64_t r = rng(), bits = r % 31 == 0 ? r % 128 : 0x3d80 + r % 0x400;
    out.push_back(((r >> 63 << 15 | bits) << unused) | (unused ? (r >> 40) % 65536 : 0));
  }
  return out;
}

void compare(std::vector<uint64_t> (*values)(Elem, uint64_t)) {
  for (const int64_t rows : {1, 7, 16}) {
    const kir::Kernel kernel = product(rows, 2);
    std::vector<Data> data = {Data(Elem::BF16, values(Elem::BF16, 1)),
                              Data(Elem::BF16, values(Elem::BF16, 2)),
                              Data(Elem::F32, values(Elem::F32, 3))};
    std::vector<Data> want = data, got = data;
    kir::RunArgs args;
    for (Data& d : want) args.buffers.push_back(d.bytes);
    kir::interpret(kernel, args, 0, 1);
    const runtime::KernelArtifact a =
        store()->get(kernel.str(), Target::parse("sapphirerapids"), 2).get();
    std::vector<void*> buffers;
    for (Data& d : got) buffers.push_back(d.bytes.data());
    uint32_t status = 0;
    const program::Args run{buffers.data(), nullptr, &status, {1, 1, 1}};
    a.image->entry()(&run, 0, 1);
    for (size_t i = 0; i < got[2].size(); ++i) {
      if (is_nan(Elem::F32, got[2].at(i)) && is_nan(Elem::F32, want[2].at(i))) continue;
      EXPECT_EQ(got[2].at(i), want[2].at(i)) << rows << " rows, element " << i;
    }
  }
}

TEST(WorkerTiles, AsTheInterpreter) {
  if (!store() || !Target::host().bf16_tiles) GTEST_SKIP() << "needs AMX";
  compare(pattern);
  compare(moderate);
}

TEST(WorkerTiles, RefusedWithoutTheUnit) {
  if (!store()) GTEST_SKIP() << "the worker was not built";
  EXPECT_THROW(store()->get(product(16, 1).str(), Target::parse("x86-64-v4"), 2).get(), Error);
}

}  // namespace
}  // namespace poot::exact
