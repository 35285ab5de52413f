// Target names fix the code; the host's name may be overridden.
#include "codegen/target.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/errors.h"

namespace poot {
namespace {

TEST(Target, NamesFixTheFeatures) {
  EXPECT_EQ(Target::parse("x86-64-v4").vector_bytes, 64u);
  EXPECT_EQ(Target::parse("x86-64-v3").vector_bytes, 32u);
  EXPECT_EQ(Target::parse("sm_90a").isa, Isa::Ptx);
  EXPECT_GT(Target::parse("sm_90a").shared_bytes, Target::parse("sm_80").shared_bytes);
  EXPECT_EQ(Target::parse("x86-64-v3").key(), Target::parse("x86-64-v3").key());
  EXPECT_NE(Target::parse("x86-64-v3").key(), Target::parse("x86-64-v4").key());
  EXPECT_THROW(Target::parse("z80"), Unsupported);
}

TEST(Target, HostTakesTheEnvironmentsName) {
  ASSERT_EQ(setenv("POOT_TARGET", "x86-64-v3", 1), 0);
  const Target t = Target::host();
  EXPECT_EQ(t.cpu, "x86-64-v3");
  EXPECT_GE(t.cores, 1u);
  ASSERT_EQ(setenv("POOT_TARGET", "pdp11", 1), 0);
  EXPECT_THROW(Target::host(), Unsupported);
  unsetenv("POOT_TARGET");
}

}  // namespace
}  // namespace poot
