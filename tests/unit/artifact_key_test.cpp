// Pinned: what names a compiled kernel. A change here orphans every cache on disk.
#include "runtime/artifact_key.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <sstream>

#include "golden.h"

namespace poot::runtime {
namespace {

struct Key {
  std::string kir = "kernel @k x86 meta=0 threads=1 {\n}\n";
  Target target = Target::parse("x86-64-v3");
  int level = 2;
  std::string build_id = "build";
  std::string hex() const { return artifact_key(kir, target, level, build_id).hex(); }
};

TEST(Golden, ArtifactKey) {
  const std::pair<const char*, std::function<void(Key&)>> enters[] = {
      {"build id", [](Key& k) { k.build_id = "another"; }},
      {"isa", [](Key& k) { k.target.isa = Isa::Ptx; }},
      {"cpu", [](Key& k) { k.target.cpu = "x86-64-v4"; }},
      {"features", [](Key& k) { k.target.features = "+avx512f"; }},
      {"vector bytes", [](Key& k) { k.target.vector_bytes = 64; }},
      {"level", [](Key& k) { k.level = 0; }},
      {"kir", [](Key& k) { k.kir += " "; }},
  };
  const std::pair<const char*, std::function<void(Key&)>> does_not[] = {
      {"warp", [](Key& k) { k.target.warp = 64; }},
      {"max threads", [](Key& k) { k.target.max_threads = 256; }},
      {"shared bytes", [](Key& k) { k.target.shared_bytes = 1 << 16; }},
      {"cores", [](Key& k) { k.target.cores = 96; }},
      {"cache bytes", [](Key& k) { k.target.cache_bytes = 1 << 20; }},
  };
  std::ostringstream text;
  std::set<std::string> keys = {Key().hex()};
  text << "x86-64-v3, level 2: " << Key().hex() << '\n';
  for (const auto& [what, change] : enters) {
    Key k;
    change(k);
    EXPECT_TRUE(keys.insert(k.hex()).second) << what;
    text << "another " << what << ": " << k.hex() << '\n';
  }
  for (const auto& [what, change] : does_not) {
    Key k;
    change(k);
    EXPECT_EQ(k.hex(), Key().hex()) << what;
    text << "another " << what << ": the same\n";
  }
  testing::expect_golden("program/artifact_key.golden", text.str());
}

// Fields do not run into each other.
TEST(ArtifactKey, FieldsAreApart) {
  Key a, b;
  a.target.cpu = "ab";
  a.target.features = "c";
  b.target.cpu = "a";
  b.target.features = "bc";
  EXPECT_NE(a.hex(), b.hex());
}

}  // namespace
}  // namespace poot::runtime
