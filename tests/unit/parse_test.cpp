// The text form: what printing and parsing keep, and that no corrupt text does worse than throw.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "ir/graph.h"
#include "source_dir.h"

namespace poot::ir {
namespace {

std::string read(const std::string& name) {
  std::ifstream in(source_dir() + "/tests/ir/" + name);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

TEST(Parse, NamesOfResultsAndLineBreaksDoNotMatter) {
  const Graph a = parse_graph("graph @g(%x: f32[4]) -> (f32[4]) { %y = neg %x return %y }");
  const Graph b = parse_graph(R"(
# a comment
graph @g(%x: f32[4])
    -> (f32[4]) {   # another
  %0 = neg %x : f32[4]
  return %0
})");
  EXPECT_EQ(a.str(), b.str());
  EXPECT_EQ(a.hash(), b.hash());
}

TEST(Parse, HashSeesTheGraphButNotItsOrigins) {
  const std::string plain = "graph @g(%x: f32[4]) -> (f32[4]) { %0 = neg %x return %0 }";
  const std::string located =
      "graph @g(%x: f32[4]) -> (f32[4]) { %0 = neg %x loc(0) origin 0 \"n\" \"m.py:1\" return %0 }";
  const std::string other = "graph @g(%x: f32[4]) -> (f32[4]) { %0 = abs %x return %0 }";
  EXPECT_EQ(parse_graph(plain).hash(), parse_graph(located).hash());
  EXPECT_NE(parse_graph(plain).str(), parse_graph(located).str());
  EXPECT_NE(parse_graph(plain).hash(), parse_graph(other).hash());
  EXPECT_EQ(parse_graph("graph @g(%w: f32[] weight \"a\") -> () { return }").hash(),
            parse_graph("graph @g(%v: f32[] weight \"a\") -> () { return }").hash());
}

TEST(Parse, BodiesNestToALimit) {
  std::string open = "graph @g(%x: f32[4]) -> () {\n", close;
  for (int i = 0; i < 50; ++i) open += "%0 = fused body() {\n";
  EXPECT_THROW(parse_graph(open), InvalidGraph);
}

// Every mutant parses or throws InvalidGraph; one that parses also prints and parses again.
TEST(Parse, CorruptTextNeverCrashes) {
  std::mt19937 rng(11);
  const std::string texts[] = {read("equations.poot"), read("signature.poot")};
  const std::string alphabet = "%@{}()[]\"\\,:=-+*#\n s0f32i64_.inf\xff\0x";
  size_t survived = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string text = texts[round % 2];
    const int edits = 1 + static_cast<int>(rng() % 3);
    for (int k = 0; k < edits && !text.empty(); ++k) {
      const size_t at = rng() % text.size();
      switch (rng() % 5) {
        case 0:
          text[at] = alphabet[rng() % alphabet.size()];
          break;
        case 1:
          text.erase(at, rng() % 12);
          break;
        case 2:
          text.insert(at, 1, alphabet[rng() % alphabet.size()]);
          break;
        case 3:
          text.insert(at, text.substr(rng() % text.size(), rng() % 40));
          break;
        default:
          text.resize(at);
      }
    }
    try {
      for (const Graph& g : parse_graphs(text)) {
        EXPECT_EQ(parse_graph(g.str()).str(), g.str());
        ++survived;
      }
    } catch (const InvalidGraph& e) {
      EXPECT_FALSE(e.constraint().empty());
      EXPECT_NE(e.where().find(':'), std::string::npos) << e.what();
    }
  }
  EXPECT_GT(survived, 100u);
}

}  // namespace
}  // namespace poot::ir
