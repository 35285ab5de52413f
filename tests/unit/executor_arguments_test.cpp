// What a call must look like: every kind of mismatch, and that nothing is written before it is
// found.
#include "executor_fixture.h"

namespace poot::runtime {
namespace {

using What = ArgumentMismatch::What;

What mismatch(Executor& e, std::vector<CallArg> args, uint32_t arg) {
  std::vector<CallResult> results(e.program().results.size());
  try {
    e.run(args, results);
  } catch (const ArgumentMismatch& m) {
    EXPECT_EQ(m.arg(), arg) << m.what();
    return m.what_kind();
  }
  ADD_FAILURE() << "accepted";
  return What::Kind;
}

// arguments: x [s0], n = 2 * s0, y [s0] mutated: y = x + 1.
Program update() {
  Program p = chain();
  p.args = {vector_of(s0), program::ArgInt{2 * s0}, vector_of(s0, true)};
  p.buffers = {buffer(BufferClass::Input, 0, 0, 0), buffer(BufferClass::Input, 2, 0, 0)};
  p.views.clear();
  p.segments = {{program::SegmentKind::Replayable, {add(0, 1, 1)}}};
  p.results = {program::ResultArg{2}};
  return p;
}

TEST_F(ExecutorTest, MutatedArgumentsAreWrittenInPlace) {
  const auto e = make(update());
  Vector x(10, 5), y(10);
  CallArg n;
  n.integer = 20;
  const CallArg args[] = {x.arg(), n, y.arg()};
  CallResult results[1];
  e->run(args, results);
  EXPECT_EQ(y.data, Vector(10, 6).data);
}

TEST_F(ExecutorTest, MismatchesAreToldApartBeforeAnythingIsWritten) {
  const auto e = make(update());
  Vector x(10, 5), y(10);
  CallArg n;
  n.integer = 20;
  CallArg other = x.arg();
  other.tensor.dtype = DType::F32;
  EXPECT_EQ(mismatch(*e, {other, n, y.arg()}, 0), What::Dtype);
  Vector longer(11);
  EXPECT_EQ(mismatch(*e, {x.arg(), n, longer.arg()}, 2), What::Sizes);
  CallArg scalar = y.arg();
  scalar.tensor.sizes = scalar.tensor.strides = {};
  EXPECT_EQ(mismatch(*e, {x.arg(), n, scalar}, 2), What::Sizes);
  CallArg strided = y.arg();
  const int64_t two[] = {2};
  strided.tensor.strides = two;
  EXPECT_EQ(mismatch(*e, {x.arg(), n, strided}, 2), What::Strides);
  CallArg wrong = n;
  wrong.integer = 21;
  EXPECT_EQ(mismatch(*e, {x.arg(), wrong, y.arg()}, 1), What::Kind);
  EXPECT_EQ(mismatch(*e, {y.arg(), n, y.arg()}, 2), What::Overlap);
  Vector both(15);
  CallArg low = both.arg(), high = both.arg();
  low.tensor.sizes = high.tensor.sizes = x.sizes;
  high.tensor.data = both.data.data() + 5;
  EXPECT_EQ(mismatch(*e, {low, n, high}, 2), What::Overlap);
  EXPECT_EQ(both.data, Vector(15).data);
  EXPECT_EQ(y.data, Vector(10).data);
  CallResult results[1];
  EXPECT_THROW(e->run(std::vector<CallArg>{x.arg()}, results), InternalError);
}

TEST_F(ExecutorTest, SizesLinearInASymbolBindIt) {
  Program p = chain();
  p.args = {vector_of(2 * s0 + 1)};
  const auto e = make(std::move(p));
  Vector odd(21, 5), even(20);
  EXPECT_EQ(call(*e, odd), Vector(10, 5 + 3 * (10 - 8)).data);
  EXPECT_EQ(mismatch(*e, {even.arg()}, 0), What::Sizes);
}

TEST_F(ExecutorTest, WantedStridesFollowTheCall) {
  Program p = update();
  std::get<program::ArgTensor>(p.args[2]).strides = {2 * s0};
  const auto e = make(std::move(p));
  Vector x(10), y(10);
  const CallArg args[] = {x.arg(), {}, y.arg()};
  EXPECT_EQ(e->wanted_strides(args, 2), std::vector<int64_t>{20});
}

}  // namespace
}  // namespace poot::runtime
