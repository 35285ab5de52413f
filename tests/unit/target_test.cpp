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
  const Target bf16 = Target::parse("x86-64-v4-bf16");
  EXPECT_TRUE(bf16.bf16_dot);
  EXPECT_FALSE(bf16.bf16_tiles);
  EXPECT_FALSE(Target::parse("x86-64-v4").bf16_dot);
  EXPECT_NE(bf16.key(), Target::parse("x86-64-v4").key());
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

#if defined(__x86_64__)
TEST(Target, HostTakesTheInstructionsOfItsProcessor) {
  unsetenv("POOT_TARGET");
  __builtin_cpu_init();
  const Target t = Target::host();
  EXPECT_EQ(t.vector_bytes == 64,
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"));
  EXPECT_EQ(t.bf16_dot,
            __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni"));
}
#endif

}  // namespace
}  // namespace poot
