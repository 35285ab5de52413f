// tests/passes/<pass>.poot: cases of an input graph, "# =>", and the graph after the pass. Each is
// also evaluated before and after on random inputs, and compared bit for bit (an attention equation
// against its expansion: to a few ulp).
//
//   # case residual-norm
//   graph @g(…) -> (…) { … }
//   # =>
//   graph @g(…) -> (…) { … }
//
// "# passes: canonicalize fuse_row" after the case's line runs those instead of the file's pass.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "golden.h"
#include "ir/oracle.h"
#include "ir/scalar_eval.h"
#include "passes/pass.h"
#include "source_dir.h"

namespace poot::passes {
namespace {

struct Case {
  std::string heading, input;
  std::vector<std::string> passes;
};

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> list;
  for (std::string w; in >> w;) list.push_back(w);
  return list;
}

std::vector<Case> parse_cases(const std::string& text, const std::string& pass,
                              std::string* preamble) {
  std::vector<Case> cases;
  std::istringstream in(text);
  bool expected = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("# case")) {
      cases.push_back({line + "\n", "", {pass}});
      expected = false;
    } else if (cases.empty()) {
      *preamble += line + "\n";
    } else if (line.starts_with("# =>")) {
      expected = true;
    } else if (line.starts_with("# ") && cases.back().input.empty()) {
      cases.back().heading += line + "\n";
      if (line.starts_with("# passes:")) cases.back().passes = words(line.substr(9));
    } else if (!expected) {
      cases.back().input += line + "\n";
    }
  }
  return cases;
}

ir::HostArray random_array(const ir::TensorType& type, std::span<const int64_t> symbols,
                           std::mt19937& random) {
  std::vector<int64_t> shape;
  for (const Dim& d : type.shape) shape.push_back(d.eval(symbols));
  ir::HostArray array = ir::HostArray::zeros(type.dtype, std::move(shape));
  std::normal_distribution<double> normal;
  const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-40};
  for (int64_t i = 0; i < array.numel(); ++i) {
    const double v = random() % 29 == 0 ? special[random() % 6] : normal(random);
    // Integers stay small: they may be indices.
    array.set_bits(i, is_float(type.dtype) ? ir::from_double(v, type.dtype)
                                           : ir::from_int(random() % 2, type.dtype));
  }
  return array;
}

// Number of representable values between two floats of a dtype; 0 for two NaN.
double distance(ir::Bits a, ir::Bits b, DType d) {
  if (a == b) return 0;
  if (!is_float(d)) return INFINITY;
  const double x = ir::to_double(a, d), y = ir::to_double(b, d);
  if (std::isnan(x) && std::isnan(y)) return 0;
  if (x == y) return std::signbit(x) == std::signbit(y) ? 0 : INFINITY;
  return std::fabs(x - y) / std::max(1e-6, std::fabs(x)) * 0x1p23;
}

void compare(const ir::Graph& before, const ir::Graph& after, double ulps, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int64_t> symbols;
  for (const Symbol& s : before.symbols()) symbols.push_back(s.hint);
  std::vector<ir::HostArray> inputs;
  for (const ir::ValueId v : before.inputs())
    inputs.push_back(random_array(before.type(v), symbols, random));
  const auto x = ir::evaluate(before, inputs, symbols), y = ir::evaluate(after, inputs, symbols);
  ASSERT_EQ(x.size(), y.size());
  for (size_t o = 0; o < x.size(); ++o) {
    ASSERT_EQ(x[o].shape, y[o].shape);
    for (int64_t i = 0; i < x[o].numel(); ++i)
      ASSERT_LE(distance(x[o].bits(i), y[o].bits(i), x[o].dtype), ulps)
          << "output " << o << " element " << i << ": " << ir::to_double(x[o].bits(i), x[o].dtype)
          << " became " << ir::to_double(y[o].bits(i), y[o].dtype);
  }
}

const Target& test_target() {
  static const Target target;
  return target;
}

class PassGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(PassGolden, RewritesAndKeepsValues) {
  const std::string file = "passes/" + GetParam() + ".poot";
  const std::string text = read_file(source_dir() + "/tests/" + file);
  std::string actual;
  const auto cases = parse_cases(text, GetParam(), &actual);
  ASSERT_FALSE(cases.empty()) << file << " has no case";
  bool changed = false;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.heading);
    const ir::Graph before = ir::parse_graph(c.input);
    ir::Graph after = before;
    const bool freeze = c.heading.find("freeze") != std::string::npos;
    PassContext context{.target = test_target(), .options = {.freeze = freeze}};
    run_passes(after, context, c.passes);
    for (const PassRecord& r : context.records) changed = changed || r.changed;
    std::string notes;
    for (const auto* list : {&context.declines, &context.numerical_declines})
      for (const Decline& d : *list)
        notes += "# declined " + d.pass + " " + d.value + ": " + d.reason + "\n";
    const bool library = c.input.find("group @") != std::string::npos ||
                         c.input.find("= attention") != std::string::npos;
    for (uint32_t seed = 1; seed <= 2; ++seed)
      compare(before, after, library || freeze ? 64 : 0, seed);
    actual += c.heading + before.str() + "# =>\n" + after.str() + notes + "\n";
  }
  EXPECT_TRUE(changed) << "no case of " << file << " changes anything";
  testing::expect_golden(file, actual);
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const PassInfo& p : all_passes()) names.emplace_back(p.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, PassGolden, ::testing::ValuesIn(pass_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace poot::passes
