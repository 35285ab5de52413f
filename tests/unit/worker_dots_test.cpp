// dot_pairs as machine code: equal to the interpreter in every bit, special values included, for
// accumulators of each width that a lowering makes.
#include "exact_harness.h"

namespace poot::exact {
namespace {

TEST(WorkerDots, PairsAreAddedOddFirst) {
  __builtin_cpu_init();
  if (!store() || !__builtin_cpu_supports("avx512bf16")) GTEST_SKIP() << "needs AVX512-BF16";
  for (const uint16_t lanes : {4, 8, 16, 32}) {
    kir::Kernel kernel;
    kernel.name = "dots" + std::to_string(lanes);
    KirBuilder b(kernel);
    const std::vector<Data> data = {Data(Elem::BF16, pattern(Elem::BF16, 1)),
                                    Data(Elem::BF16, pattern(Elem::BF16, 2)),
                                    Data(Elem::F32, pattern(Elem::F32, 3)),
                                    Data(Elem::F32, std::vector<uint64_t>(kCount / 2, 0))};
    for (size_t i = 0; i < data.size(); ++i)
      b.add_object({.name = "b" + std::to_string(i), .elem = data[i].elem, .writable = i == 3});
    const auto pairs = static_cast<uint16_t>(2 * lanes);
    b.for_loop(b.i64(0), b.i64(kCount / 2), b.i64(lanes), {},
               [&](ValueId i, std::span<const ValueId>) {
                 const ValueId at = b.emit(Op::iadd, {i, i});
                 const ValueId x = b.load(ObjectId(0), {Elem::BF16, pairs}, at);
                 const ValueId y = b.load(ObjectId(1), {Elem::BF16, pairs}, at);
                 const ValueId acc = b.load(ObjectId(2), {Elem::F32, lanes}, i);
                 b.store(ObjectId(3), i, b.emit(Op::dot_pairs, {acc, x, y}));
                 return std::vector<ValueId>{};
               });
    std::vector<Data> want = data, got = data;
    kir::RunArgs args;
    for (Data& d : want) args.buffers.push_back(d.bytes);
    kir::interpret(kernel, args, 0, 1);
    const runtime::KernelArtifact a =
        store()->get(kernel.str(), Target::parse("x86-64-v4-bf16"), 2).get();
    std::vector<void*> buffers;
    for (Data& d : got) buffers.push_back(d.bytes.data());
    uint32_t status = 0;
    const program::Args run{buffers.data(), nullptr, &status, {1, 1, 1}};
    a.image->entry()(&run, 0, 1);
    for (size_t i = 0; i < got[3].size(); ++i) {
      if (is_nan(Elem::F32, got[3].at(i)) && is_nan(Elem::F32, want[3].at(i))) continue;
      EXPECT_EQ(got[3].at(i), want[3].at(i)) << lanes << " lanes, element " << i;
    }
  }
}

TEST(WorkerDots, RefusedWithoutTheInstruction) {
  if (!store()) GTEST_SKIP() << "the worker was not built";
  kir::Kernel kernel;
  kernel.name = "dots_refused";
  KirBuilder b(kernel);
  b.add_object({.name = "y", .writable = true});
  const ValueId pairs = b.constant({Elem::BF16, 16}, 0);
  b.store(ObjectId(0), b.i64(0), b.emit(Op::dot_pairs, {b.f32(0, 8), pairs, pairs}));
  EXPECT_THROW(store()->get(kernel.str(), Target::parse("x86-64-v4"), 2).get(), Error);
}

}  // namespace
}  // namespace poot::exact
