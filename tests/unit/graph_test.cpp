// Builder, accessors, literals and edits.
#include "ir/graph.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/graph_tables.h"

namespace poot::ir {
namespace {

std::string constraint(const auto& action) {
  try {
    action();
  } catch (const InvalidGraph& e) {
    return e.constraint();
  }
  return "none";
}

TensorType f32(Shape shape) {
  return {DType::F32, std::move(shape)};
}

Graph chain() {
  Builder b("chain", {{{2, 64}, 8}});
  const ValueId x = b.input(f32({Dim::symbol(0), 4}), Storage::Device, Named{"x"});
  const ValueId y = b.emit(OpCode::add, {x, Scalar::of(DType::F32, 1.0)});
  const ValueId z = b.emit(OpCode::mul, {y, x});
  b.output(z);
  return b.finish();
}

TEST(Builder, InfersAndFinishes) {
  const Graph g = chain();
  EXPECT_EQ(g.eqns().size(), 2u);
  EXPECT_EQ(g.type(g.outputs()[0].value).str(), "f32[s0,4]");
  EXPECT_EQ(g.def(g.outputs()[0].value), 1);
  EXPECT_TRUE(g.is_input(g.inputs()[0]));
  EXPECT_EQ(use_counts(g), (std::vector<uint32_t>{2, 1, 1}));
  EXPECT_TRUE(verify(g).empty());
  EXPECT_EQ(parse_graph(g.str()).str(), g.str());
  EXPECT_EQ(parse_graph(g.str()).hash(), g.hash());
}

TEST(Builder, ThrowsAtTheFirstFault) {
  Builder b;
  const ValueId x = b.input(f32({2, 3}));
  const ValueId y = b.input(f32({4}));
  EXPECT_EQ(constraint([&] { b.emit(OpCode::add, {x, y}); }), "pointwise-C2");
  EXPECT_EQ(constraint([&] { b.emit(OpCode::add, {x}); }), "eqn-C1");
  EXPECT_EQ(constraint([&] { b.emit(OpCode::cast, {x}); }), "eqn-C2");
  EXPECT_EQ(constraint([&] { b.emit(OpCode::cast, {x}, {int64_t{1}}); }), "eqn-C2");
  EXPECT_EQ(constraint([&] { b.emit(OpCode::add, {x, ValueId(9)}); }), "ssa-C2");
}

TEST(Edit, ResolvesChainsAndRenumbers) {
  Graph g = chain();
  GraphEdit edit(g);
  const ValueId x = g.inputs()[0], y = g.eqns()[0].outs[0], z = g.eqns()[1].outs[0];
  Eqn neg = edit.make(OpCode::neg, {x});
  edit.replace_uses(z, y);
  edit.replace_uses(y, neg.outs[0]);
  edit.eqns() = {neg};
  edit.commit();
  EXPECT_EQ(g.eqns().size(), 1u);
  EXPECT_EQ(g.value_count(), 2u);
  EXPECT_EQ(g.outputs()[0].value, g.eqns()[0].outs[0]);
}

TEST(Edit, RefusesAndLeavesTheGraph) {
  const std::string before = chain().str();
  auto refused = [&](const auto& change) {
    Graph g = chain();
    const std::string id = constraint([&] {
      GraphEdit edit(g);
      change(g, edit);
      edit.commit();
    });
    EXPECT_EQ(g.str(), before);
    return id;
  };
  EXPECT_EQ(
      refused([](Graph& g, GraphEdit& e) { e.replace_uses(g.inputs()[0], e.new_value(f32({}))); }),
      "edit-C2");
  EXPECT_EQ(refused([](Graph& g, GraphEdit& e) {
              e.replace_uses(g.eqns()[0].outs[0], g.eqns()[1].outs[0]);
              e.replace_uses(g.eqns()[1].outs[0], g.eqns()[0].outs[0]);
            }),
            "edit-C2");
  EXPECT_EQ(refused([](Graph&, GraphEdit& e) { std::swap(e.eqns()[0], e.eqns()[1]); }), "ssa-C2");
  EXPECT_EQ(refused([](Graph&, GraphEdit& e) { e.eqns().pop_back(); }), "edit-C1");
  EXPECT_EQ(refused([](Graph&, GraphEdit& e) { e.eqns().erase(e.eqns().begin()); }), "ssa-C2");
  EXPECT_EQ(refused([](Graph&, GraphEdit& e) { e.eqns().push_back(e.eqns()[0]); }), "ssa-C1");
  EXPECT_EQ(refused([](Graph&, GraphEdit& e) { e.eqns()[0].origins = {3}; }), "origin-C1");
  EXPECT_EQ(refused([](Graph& g, GraphEdit& e) {
              e.eqns()[0].op = OpCode::eq;
              (void)g;
            }),
            "eqn-C3");
}

TEST(Edit, DropsGroupsWithoutEquations) {
  Builder b;
  const ValueId x = b.input(f32({4}));
  b.begin_group("one", {x}, {});
  const ValueId y = b.emit(OpCode::neg, {x});
  b.end_group({y});
  b.begin_group("two", {y}, {0.5});
  const ValueId z = b.emit(OpCode::exp, {y});
  b.end_group({z});
  b.output(z);
  Graph g = b.finish();
  GraphEdit edit(g);
  edit.eqns()[0].group = {};
  edit.commit();
  ASSERT_EQ(g.groups().size(), 1u);
  EXPECT_EQ(g.groups()[0].kind, "two");
  EXPECT_EQ(g.eqns()[1].group, GroupId(0));
  EXPECT_EQ(parse_graph(g.str()).str(), g.str());
}

TEST(Scalar, RoundsToItsDtypeAndReadsBack) {
  EXPECT_EQ(Scalar::of(DType::F32, 0.1).str(), "f32 0.1");
  EXPECT_EQ(Scalar::of(DType::BF16, 1.00390625).as_double(), 1.0);  // tie to even
  EXPECT_EQ(Scalar::of(DType::BF16, 1.01171875).as_double(), 1.015625);
  EXPECT_EQ(Scalar::of(DType::F16, 65520.0).str(), "f16 inf");
  EXPECT_EQ(Scalar::of(DType::F16, 65519.0).as_double(), 65504.0);
  EXPECT_EQ(Scalar::of(DType::F16, std::ldexp(1.0, -25)).as_double(), 0.0);
  EXPECT_EQ(Scalar::of(DType::F16, std::ldexp(1.5, -25)).as_double(), std::ldexp(1.0, -24));
  EXPECT_EQ(Scalar::of(DType::BF16, 3.4e38).str(), "bf16 inf");
  EXPECT_EQ(Scalar::of(DType::I8, int64_t{200}).as_int(), -56);
  EXPECT_EQ(Scalar::of(DType::Bool, 0.5).as_int(), 1);
  EXPECT_EQ(Scalar::of(DType::I64, 1e30).as_int(), INT64_MAX);
  EXPECT_NE(Scalar::of(DType::F32, 0.0), Scalar::of(DType::F32, -0.0));
  EXPECT_EQ(Scalar::of(DType::F64, NAN), Scalar::of(DType::F64, NAN));
  for (DType d : {DType::F16, DType::BF16, DType::F32, DType::F64})
    for (double v : {0.0, -0.0, 1.0 / 3, -1e-7, 123456.789, HUGE_VAL, -HUGE_VAL, 5e-324, 3e38}) {
      const Scalar s = Scalar::of(d, v);
      const std::string text = s.str();
      EXPECT_EQ(Scalar::parse(d, text.substr(text.find(' ') + 1)), s) << text;
    }
  EXPECT_FALSE(Scalar::parse(DType::U8, "256"));
  EXPECT_FALSE(Scalar::parse(DType::I32, "1.5"));
}

TEST(Ops, TableIsConsistent) {
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& info = op_info(static_cast<OpCode>(i));
    EXPECT_EQ(op_from_name(info.name), info.code);
    EXPECT_FALSE(info.doc.empty());
  }
  EXPECT_FALSE(op_from_name("no_such_op"));
  EXPECT_EQ(op_info(OpCode::slice).attr_index("step"), 3u);
}

}  // namespace
}  // namespace poot::ir
