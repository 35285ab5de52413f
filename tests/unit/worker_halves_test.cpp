// Vectors that the worker holds even lanes first (llvm/even_odd.h): machine code equals the
// interpreter in every bit, whatever their lanes meet on the way.
#include "exact_harness.h"

namespace poot::exact {
namespace {

// `LANES` bf16 at a time: rounded and widened again, selected by masks of their own and by
// position, kept in an array, carried by a loop, joined with f32 from memory, summed, and stored
// both ways.
constexpr const char* kHalves = R"(kernel @halves x86 meta=0 threads=1 {
  buffer %a bf16
  buffer %b bf16
  buffer %f f32
  buffer %y bf16 out
  buffer %g f32 out
  buffer %s f32 out
  array %kept private f32 1152
  array %skewed private f32 1160
  %zero = constant 0 i64
  %n = constant 1152 i64
  %eight = constant 8 i64
  %step = constant LANES i64
  %none = constant 0x00000000 f32xLANES
  %some = constant 0x40490fdb f32xLANES
  %ids = lane_ids i32xLANES
  %seven = constant 7 i32xLANES
  %early = icmp slt %ids, %seven i1xLANES
  for %i = %zero to %n step %step carry (%acc = %none : f32xLANES) -> (%total) {
    %a1 = load %a[%i] bf16xLANES
    %b1 = load_masked %b[%i, %early, %a1] bf16xLANES
    %f1 = load %f[%i] f32xLANES
    %aw = fpext %a1 f32xLANES
    %bw = fpext %b1 f32xLANES
    %sum = fadd %aw, %bw f32xLANES
    %near = fptrunc %sum bf16xLANES
    %again = fpext %near f32xLANES
    %p = fmul %again, %some f32xLANES
    %less = fcmp olt %p, %bw i1xLANES
    %q = select %less, %p, %f1 f32xLANES
    %r = select %early, %q, %p f32xLANES
    %bits = bitcast %r i32xLANES
    %odd = iadd %bits, %ids i32xLANES
    %t = bitcast %odd f32xLANES
    %nan = fcmp uno %t, %t i1xLANES
    %u = select %nan, %some, %t f32xLANES
    store %kept[%i, %u]
    %at = iadd %i, %eight i64
    store %skewed[%at, %u]
    %w = fptrunc %u bf16xLANES
    store_masked %y[%i, %early, %w]
    %abs = fabs %u f32xLANES
    %next = fmax %acc, %abs f32xLANES
    yield %next
  }
  for %j = %zero to %n step %step {
    %k1 = load %kept[%j] f32xLANES
    %jt = iadd %j, %eight i64
    %k2 = load %skewed[%jt] f32xLANES
    %d = fsub %k1, %k2 f32xLANES
    %e = fadd %d, %k1 f32xLANES
    %y1 = fptrunc %e bf16xLANES
    %y2 = load %y[%j] bf16xLANES
    %y3 = select %early, %y2, %y1 bf16xLANES
    store %y[%j, %y3]
    store %g[%j, %e]
    yield
  }
  %all = reduce_fmax %total f32
  store %s[%zero, %all]
  %sums = reduce_fadd %total f32
  %one = constant 1 i64
  store %s[%one, %sums]
}
)";

std::string with_lanes(std::string text, int lanes) {
  const std::string word = "LANES";
  for (size_t at; (at = text.find(word)) != std::string::npos;)
    text.replace(at, word.size(), std::to_string(lanes));
  return text;
}

TEST(WorkerHalves, EqualTheInterpreter) {
  if (!store()) GTEST_SKIP() << "the worker was not built";
  for (const int lanes : {8, 16, 32, 64}) {
    const std::string text = with_lanes(kHalves, lanes);
    const kir::Kernel kernel = kir::parse_kernel(text);
    const std::vector<Data> data = {Data(Elem::BF16, pattern(Elem::BF16, 1)),
                                    Data(Elem::BF16, pattern(Elem::BF16, 2)),
                                    Data(Elem::F32, pattern(Elem::F32, 3)),
                                    Data(Elem::BF16, std::vector<uint64_t>(kCount, 0)),
                                    Data(Elem::F32, std::vector<uint64_t>(kCount, 0)),
                                    Data(Elem::F32, std::vector<uint64_t>(2, 0))};
    std::vector<Data> want = data;
    kir::RunArgs args;
    for (Data& d : want) args.buffers.push_back(d.bytes);
    kir::interpret(kernel, args, 0, 1);
    for (const Target& target : targets())
      for (const int level : {0, 2}) {
        std::vector<Data> got = data;
        const runtime::KernelArtifact a = store()->get(text, target, level).get();
        std::vector<void*> buffers;
        for (Data& d : got) buffers.push_back(d.bytes.data());
        uint32_t status = 0;
        const program::Args run{buffers.data(), nullptr, &status, {1, 1, 1}};
        a.image->entry()(&run, 0, 1);
        for (size_t k = 3; k < got.size(); ++k)
          for (size_t i = 0; i < got[k].size(); ++i) {
            const Elem e = got[k].elem;
            if (is_nan(e, got[k].at(i)) && is_nan(e, want[k].at(i))) continue;
            ASSERT_EQ(got[k].at(i), want[k].at(i)) << lanes << " lanes, " << target.cpu << " level "
                                                   << level << ", buffer " << k << " element " << i;
          }
      }
  }
}

}  // namespace
}  // namespace poot::exact
