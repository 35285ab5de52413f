// Every arithmetic instruction that x86 accepts, at several widths: machine code and interpreter
// agree bit for bit.
#include "codegen/math/math.h"
#include "exact_harness.h"
#include "ir/op.h"
#include "support/errors.h"

namespace poot::exact {
namespace {

class ExactArithmetic : public Exact {
 protected:
  void float_arithmetic(Elem e) {
    Harness h(name(e == Elem::F32 ? "float_f32x" : "float_f64x"), lanes());
    const std::vector<ObjectId> in = {h.input(e, 0), h.input(e, 1), h.input(e, 2),
                                      h.input(Elem::I32, 3)};
    KirBuilder& b = h.b;
    each(h, in, [&](std::span<const ValueId> v) {
      std::vector<ValueId> out;
      for (Op op :
           {Op::fadd, Op::fsub, Op::fmul, Op::fdiv, Op::frem, Op::fmin, Op::fmax, Op::fcopysign})
        for (auto [x, y] : {std::pair{0, 1}, {1, 0}, {1, 2}})
          out.push_back(b.emit(op, {v[x], v[y]}));
      for (Op op : {Op::fneg, Op::fabs, Op::fsqrt, Op::ffloor, Op::fceil, Op::ftrunc, Op::frint})
        for (int x : {0, 1}) out.push_back(b.emit(op, {v[x]}));
      out.push_back(b.emit(Op::fma, {v[0], v[1], v[2]}));
      out.push_back(b.emit(Op::fma, {v[1], v[2], v[0]}));
      // A product and a sum keep their two roundings.
      out.push_back(b.emit(Op::fadd, {b.emit(Op::fmul, {v[1], v[2]}), v[0]}));
      // Any i32 and one near the interesting range.
      const ValueId near = b.emit(Op::ashr, {v[3], b.i32(e == Elem::F32 ? 23 : 20, lanes())});
      for (ValueId n : {v[3], near})
        for (int x : {0, 1}) {
          out.push_back(b.emit(Op::fscale, {v[x], n}));
          out.push_back(b.emit(Op::fscale_whole, {v[x], b.emit(Op::sitofp, h.vec(e), {n})}));
        }
      for (int x : {0, 1}) {  // unspecified for zero and what is not finite
        const ValueId magnitude = b.emit(Op::fabs, {v[x]});
        const bool f32 = e == Elem::F32;
        const ValueId inf = b.constant(h.vec(e), f32 ? 0x7f800000 : 0x7ff0000000000000);
        const ValueId ok =
            b.emit(Op::band, {b.fcmp(Pred::olt, magnitude, inf),
                              b.fcmp(Pred::ogt, magnitude, b.constant(h.vec(e), 0))});
        out.push_back(
            b.select(ok, b.emit(Op::fexponent, h.vec(Elem::I32), {v[x]}), b.i32(0, lanes())));
        out.push_back(b.select(ok, b.emit(Op::fmantissa, {v[x]}), v[x]));
      }
      return out;
    });
  }

  void float_compare(Elem e) {
    Harness h(name(e == Elem::F32 ? "compare_f32x" : "compare_f64x"), lanes());
    const std::vector<ObjectId> in = {h.input(e, 0), h.input(e, 1)};
    KirBuilder& b = h.b;
    each(h, in, [&](std::span<const ValueId> v) {
      std::vector<ValueId> out;
      for (Pred p :
           {Pred::oeq, Pred::one, Pred::olt, Pred::ole, Pred::ogt, Pred::oge, Pred::ord, Pred::uno,
            Pred::une, Pred::ueq, Pred::fult, Pred::fule, Pred::fugt, Pred::fuge}) {
        out.push_back(b.fcmp(p, v[0], v[1]));
        out.push_back(b.fcmp(p, v[1], v[1]));
        out.push_back(b.select(out.back(), v[0], v[1]));
      }
      return out;
    });
  }

  void int_arithmetic(Elem e) {
    Harness h(name("int_" + std::string(kir::name(e)) + "x"), lanes());
    const std::vector<ObjectId> in = {h.input(e, 0), h.input(e, 1)};
    KirBuilder& b = h.b;
    const uint64_t width = static_cast<uint64_t>(kir::bit_width(e));
    each(h, in, [&](std::span<const ValueId> v) {
      std::vector<ValueId> out;
      for (Op op : {Op::iadd, Op::isub, Op::imul, Op::umulh, Op::smin, Op::smax, Op::umin, Op::umax,
                    Op::band, Op::bor, Op::bxor})
        out.push_back(b.emit(op, {v[0], v[1]}));
      const Type t = h.vec(e);
      const ValueId one = b.constant(t, 1);
      const ValueId minus_one = b.constant(t, ~uint64_t{0});
      const ValueId zero = b.constant(t, 0);
      const ValueId divisor = b.select(b.icmp(Pred::eq, v[1], zero), one, v[1]);
      const ValueId guarded = b.select(b.icmp(Pred::eq, divisor, minus_one), one, divisor);
      for (Op op : {Op::sdiv, Op::srem}) out.push_back(b.emit(op, {v[0], guarded}));
      for (Op op : {Op::udiv, Op::urem}) out.push_back(b.emit(op, {v[0], divisor}));
      const ValueId amount = b.emit(Op::band, {v[1], b.constant(t, width - 1)});
      for (Op op : {Op::shl, Op::lshr, Op::ashr}) out.push_back(b.emit(op, {v[0], amount}));
      out.push_back(b.emit(Op::ctlz, {v[0]}));
      for (Pred p : {Pred::eq, Pred::ne, Pred::slt, Pred::sle, Pred::sgt, Pred::sge, Pred::ult,
                     Pred::ule, Pred::ugt, Pred::uge})
        out.push_back(b.icmp(p, v[0], v[1]));
      const ValueId less = out.back();
      const ValueId equal = b.icmp(Pred::eq, v[0], v[1]);
      for (Op op : {Op::band, Op::bor, Op::bxor}) out.push_back(b.emit(op, {less, equal}));
      out.push_back(b.select(less, v[0], v[1]));
      for (Elem wide : {Elem::I16, Elem::I32, Elem::I64}) {
        if (kir::bit_width(wide) <= kir::bit_width(e)) continue;
        out.push_back(b.emit(Op::sext, h.vec(wide), {v[0]}));
        out.push_back(b.emit(Op::zext, h.vec(wide), {v[0]}));
      }
      for (Elem narrow : {Elem::I1, Elem::I8, Elem::I16, Elem::I32})
        if (kir::bit_width(narrow) < kir::bit_width(e))
          out.push_back(b.emit(Op::itrunc, h.vec(narrow), {v[0]}));
      out.push_back(b.emit(Op::zext, t, {less}));
      for (Elem f : {Elem::F32, Elem::F64}) {
        out.push_back(b.emit(Op::sitofp, h.vec(f), {v[0]}));
        out.push_back(b.emit(Op::uitofp, h.vec(f), {v[0]}));
        out.push_back(b.emit(Op::uitofp, h.vec(f), {less}));
      }
      return out;
    });
  }
};

TEST_P(ExactArithmetic, FloatArithmetic) {
  float_arithmetic(Elem::F32);
  float_arithmetic(Elem::F64);
}

TEST_P(ExactArithmetic, FloatCompare) {
  float_compare(Elem::F32);
  float_compare(Elem::F64);
}

TEST_P(ExactArithmetic, IntArithmetic) {
  for (Elem e : {Elem::I8, Elem::I16, Elem::I32, Elem::I64}) int_arithmetic(e);
}

TEST_P(ExactArithmetic, Conversions) {
  Harness h(name("convert_x"), lanes());
  const std::vector<ObjectId> in = {h.input(Elem::F32, 0), h.input(Elem::F64, 0),
                                    h.input(Elem::F16, 0), h.input(Elem::BF16, 0),
                                    h.input(Elem::F32, 5), h.input(Elem::F64, 5)};
  KirBuilder& b = h.b;
  each(h, in, [&](std::span<const ValueId> v) {
    std::vector<ValueId> out;
    for (int x : {0, 4}) {
      out.push_back(b.emit(Op::fpext, h.vec(Elem::F64), {v[x]}));
      out.push_back(b.emit(Op::fptrunc, h.vec(Elem::F16), {v[x]}));
      out.push_back(b.emit(Op::fptrunc, h.vec(Elem::BF16), {v[x]}));
      out.push_back(b.emit(Op::bitcast, h.vec(Elem::I32), {v[x]}));
    }
    for (int x : {1, 5}) {
      out.push_back(b.emit(Op::fptrunc, h.vec(Elem::F32), {v[x]}));
      out.push_back(b.emit(Op::bitcast, h.vec(Elem::I64), {v[x]}));
    }
    for (int x : {0, 4, 1, 5})
      for (Elem e : {Elem::I32, Elem::I64}) out.push_back(b.emit(Op::fptosi, h.vec(e), {v[x]}));
    for (int x : {2, 3}) {
      out.push_back(b.emit(Op::fpext, h.vec(Elem::F32), {v[x]}));
      out.push_back(b.emit(Op::bitcast, h.vec(Elem::I16), {v[x]}));
    }
    out.push_back(b.emit(Op::bitcast, h.vec(Elem::F16), {v[3]}));
    out.push_back(b.select(b.fcmp(Pred::olt, v[0], v[4]), v[2], out.back()));
    return out;
  });
}

// Steps that round to bf16: what follows from bf16 operands alone is narrowed without a check for
// NaN, what meets an f32 from memory with one.
TEST_P(ExactArithmetic, NarrowSteps) {
  Harness h(name("narrow_x"), lanes());
  const std::vector<ObjectId> in = {h.input(Elem::BF16, 0), h.input(Elem::BF16, 1),
                                    h.input(Elem::F32, 0)};
  KirBuilder& b = h.b;
  each(h, in, [&](std::span<const ValueId> v) {
    std::vector<ValueId> out;
    const auto wide = [&](ValueId x) { return b.emit(Op::fpext, h.vec(Elem::F32), {x}); };
    const auto narrow = [&](ValueId x) {
      out.push_back(b.emit(Op::fptrunc, h.vec(Elem::BF16), {x}));
      return out.back();
    };
    const ValueId x = wide(v[0]), y = wide(v[1]);
    for (Op op : {Op::fadd, Op::fsub, Op::fmul, Op::fdiv, Op::fmin, Op::fmax, Op::fcopysign})
      narrow(b.emit(op, {wide(narrow(b.emit(op, {x, y}))), x}));
    for (Op op : {Op::fneg, Op::fabs, Op::fsqrt, Op::frint}) narrow(b.emit(op, {x}));
    narrow(b.emit(Op::fma, {x, y, x}));
    narrow(b.select(b.fcmp(Pred::olt, x, y), x, y));
    for (Op op : {Op::fadd, Op::fmul, Op::fmax}) narrow(b.emit(op, {x, v[2]}));
    const ValueId some = b.fcmp(Pred::olt, b.f32(0), lanes() > 1 ? b.extract(y, 0) : y);
    for (ValueId other : {v[2], y})
      narrow(b.if_else(
          some, [&] { return std::vector{b.emit(Op::fmul, {x, y})}; },
          [&] { return std::vector{other}; })[0]);
    return out;
  });
}

class ExactVectors : public Exact {};

TEST_P(ExactVectors, LanesAndReductions) {
  Harness h(name("lanes_x"), lanes());
  const std::vector<ObjectId> in = {h.input(Elem::F32, 0), h.input(Elem::F32, 1),
                                    h.input(Elem::F64, 1), h.input(Elem::I32, 1),
                                    h.input(Elem::I64, 1), h.input(Elem::BF16, 1)};
  KirBuilder& b = h.b;
  const uint16_t n = lanes();
  std::vector<int32_t> mask, reverse;
  for (int32_t l = 0; l < n; ++l) {
    mask.push_back((l * 5 + 3) % (2 * n));
    reverse.push_back(n - 1 - l);
  }
  each(h, in, [&](std::span<const ValueId> v) {
    std::vector<ValueId> out;
    for (int x : {0, 1, 2})
      for (Op op : {Op::reduce_fadd, Op::reduce_fmul, Op::reduce_fmax, Op::reduce_fmin})
        out.push_back(b.emit(op, {v[x]}));
    for (int x : {3, 4})
      for (Op op : {Op::reduce_iadd, Op::reduce_imul, Op::reduce_smax, Op::reduce_smin,
                    Op::reduce_or, Op::reduce_and})
        out.push_back(b.emit(op, {v[x]}));
    const ValueId m = b.fcmp(Pred::olt, v[0], v[1]);
    out.push_back(b.emit(Op::reduce_or, {m}));
    out.push_back(b.emit(Op::reduce_and, {m}));
    for (int x : {0, 2, 4, 5}) {
      out.push_back(b.shuffle(v[x], v[x], mask));
      out.push_back(b.shuffle(v[x], v[x], reverse));
      out.push_back(b.extract(v[x], static_cast<uint16_t>(n - 1)));
      out.push_back(b.splat(out.back(), n));
    }
    out.push_back(b.shuffle(v[0], v[1], mask));
    for (Elem e : {Elem::I8, Elem::I32, Elem::I64})
      out.push_back(b.emit(Op::lane_ids, h.vec(e), {}));
    return out;
  });
}

TEST_P(ExactArithmetic, TableLookup) {
  Harness h(name("lookup_x"), lanes());
  const std::vector<ObjectId> in = {h.input(Elem::I32, 1)};
  KirBuilder& b = h.b;
  std::vector<std::pair<ObjectId, uint32_t>> tables;
  for (Elem e : {Elem::F32, Elem::I32, Elem::F64, Elem::I8, Elem::BF16})
    for (uint32_t size : {8u, 16u, 32u, 128u}) {
      std::vector<uint64_t> bits = pattern(e, size);
      bits.resize(size);
      tables.push_back({b.table("t" + std::to_string(tables.size()), e, bits), size});
    }
  each(h, in, [&](std::span<const ValueId> v) {
    std::vector<ValueId> out;
    for (const auto& [table, size] : tables) {
      const ValueId index =
          b.emit(Op::band, {v[0], b.i32(static_cast<int32_t>(size) - 1, lanes())});
      out.push_back(b.lookup(table, index));
      out.push_back(b.lookup(table, b.emit(Op::zext, h.vec(Elem::I64), {index})));
    }
    return out;
  });
}

// The math library is made of these instructions; its long chains are what kernels run.
class ExactMath : public Exact {};

TEST_P(ExactMath, EveryFloatFunction) {
  for (const int inputs : {1, 2}) {
    Harness h(name("math" + std::to_string(inputs) + "_x"), lanes());
    const std::vector<ObjectId> in = {h.input(Elem::F32, 0), h.input(Elem::F32, 1)};
    int emitted = 0;
    each(h, in, [&](std::span<const ValueId> v) {
      std::vector<ValueId> out;
      for (int op = 0; op < ir::kOpCount; ++op) {
        const ir::OpInfo& info = ir::op_info(static_cast<ir::OpCode>(op));
        if (info.kind > ir::OpKind::Compare || info.inputs != inputs) continue;
        try {
          out.push_back(math::emit(h.b, info.code, v.first(static_cast<size_t>(inputs)), true));
          ++emitted;
        } catch (const Unsupported&) {
          // Integers only.
        }
      }
      return out;
    });
    EXPECT_GT(emitted, 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Lanes, ExactMath, testing::Values(1, 16));
INSTANTIATE_TEST_SUITE_P(Lanes, ExactVectors, testing::Values(2, 4, 8, 16, 32));
INSTANTIATE_TEST_SUITE_P(Lanes, ExactArithmetic, testing::Values(1, 4, 8, 16, 32));

}  // namespace
}  // namespace poot::exact
