// Tile programs: index simplification, text, and every rule of the verifier broken once.
#include "codegen/codegen.h"
#include "golden.h"
#include "support/errors.h"
#include "tile_harness.h"

namespace poot::tile {
namespace {

TEST(TileIndex, constants_fold_and_go_right) {
  TileBuilder b("p");
  const AxisId c = b.axis("c", 64, b.cst(64));
  EXPECT_EQ(b.add(b.cst(2), b.cst(3)), b.cst(5));
  EXPECT_EQ(b.add(b.cst(2), b.coord(c)), b.add(b.coord(c), b.cst(2)));
  EXPECT_EQ(b.add(b.add(b.coord(c), b.cst(2)), b.cst(-2)), b.coord(c));
  EXPECT_EQ(b.mul(b.coord(c), b.cst(0)), b.cst(0));
  EXPECT_EQ(b.div(b.cst(-7), b.cst(4)), b.cst(-2));
  EXPECT_EQ(b.mod(b.cst(-7), b.cst(4)), b.cst(1));
}

TEST(TileIndex, division_cancels_by_capacity) {
  TileBuilder b("p");
  const AxisId r = b.axis("r", 8, b.cst(8)), c = b.axis("c", 64, b.cst(64));
  const IndexId flat = b.add(b.mul(b.coord(r), b.cst(64)), b.coord(c));
  EXPECT_EQ(b.div(flat, b.cst(64)), b.coord(r));
  EXPECT_EQ(b.mod(flat, b.cst(64)), b.coord(c));
  EXPECT_EQ(b.div(b.add(flat, b.cst(-64)), b.cst(64)), b.add(b.coord(r), b.cst(-1)));
  // 63 + 1 may carry: nothing cancels.
  EXPECT_NE(b.div(b.add(flat, b.cst(1)), b.cst(64)), b.coord(r));
  EXPECT_EQ(b.min(b.cst(64), b.coord(c)), b.coord(c));
}

TEST(TileIndex, symbols_become_metadata_words_once) {
  TileBuilder b("p", {{{1, 100}, 8}, {{1, 100}, 8}});
  const Dim n = Dim::symbol(0), m = Dim::symbol(1);
  const IndexId i = b.dim(n * m + Dim::floordiv(n, 4));
  EXPECT_EQ(b.dim(n * m + Dim::floordiv(n, 4)), i);
  EXPECT_EQ(b.program().meta, (std::vector<Dim>{n, m}));
  EXPECT_EQ(b.bounds(b.dim(n)).hi, 100);
}

TEST(TileIndex, stride_and_dependence) {
  TileBuilder b("p", {{{1, 100}, 8}});
  const AxisId r = b.axis("r", 8, b.cst(8)), c = b.axis("c", 64, b.cst(64));
  const IndexId i = b.add(b.mul(b.coord(c), b.cst(3)), b.mul(b.coord(r), b.dim(Dim::symbol(0))));
  EXPECT_EQ(const_stride(b.program(), i, c), 3);
  EXPECT_EQ(const_stride(b.program(), i, r), std::nullopt);
  EXPECT_TRUE(depends_on(b.program(), i, r));
  EXPECT_EQ(const_stride(b.program(), b.mod(i, b.cst(7)), c), std::nullopt);
  const ValueId v = b.index_tile(b.coord(c), DType::I64, {AxisId(), c});
  EXPECT_TRUE(depends_on(b.program(), b.loaded(v), c));
  EXPECT_EQ(const_stride(b.program(), b.loaded(v), r), 0);
}

// A well-formed program with a loop, a mask and a reduction.
const char* kGood = R"(tile @good {
  buffer in0 f32 align 4
  buffer in1 i64 align 8
  buffer out0 f32 align 4 out
  meta "s0"
  grid "s0" "1" "1"
  elems 64
  axis c 64 = min($0, 64)
  %0 = block_id 0
  %1 = constant f32 0 : f32[-]
  for %2 = 0 to $0 carry (%3 = %1) {
    %4 = load in0[%2*64 + c] where 0 <= c < 60 and 0 <= %0 < $0 else f32 -inf : f32[c]
    %5 = reduce reduce_max %4 axis 0 : f32[-]
    %6 = maximum %3, %5 : f32[-]
    yield %6
  } -> %7
  %8 = load in1[c] : i64[c]
  %9 = constant i64 0 : i64[]
  %10 = ge %8, %9 : bool[c]
  check %10 1
  %11 = load in0[[%8]*2 + floordiv(%0, 3)] : f32[c]
  %12 = add %11, %7 : f32[c]
  %13 = index_tile c + 5 : i32[c]
  %14 = broadcast %7 : f32[c]
  store out0[c] %12
  store out0[c] %14 where 1 <= c < 3
}
)";

TEST(TileText, round_trip) {
  EXPECT_EQ(parse_program(kGood).str(), kGood);
}

const char* kScan = R"(tile @scan {
  buffer in0 f32 align 4
  buffer out0 f32 align 4 out
  grid "1" "1" "1"
  elems 64
  axis c 64 = 60
  %0 = constant f32 0 : f32[]
  %1 = constant f32 0 : f32[-]
  %2 = load in0[c] : f32[c]
  scan %0, %1, %2 axis 0 by (%3 : f32[], %4 : f32[]) {
    %5 = add %3, %4 : f32[]
    yield %5
  } -> %6 : f32[c], %7 : f32[-]
  store out0[c] %6
}
)";

TEST(TileText, scans) {
  EXPECT_EQ(parse_program(kScan).str(), kScan);
}

TEST(TileText, errors_name_line_and_column) {
  const auto where = [](const std::string& text) {
    try {
      parse_program(text);
    } catch (const InvalidGraph& e) {
      return e.where();
    }
    return std::string("no error");
  };
  EXPECT_EQ(where("tile @x {\n  buffer a q32 align 4\n"), "2:12");
  EXPECT_EQ(where("tile @x {\n  grid \"s0 +\" \"1\" \"1\"\n"), "2:8");
  std::string text = kGood;
  text.replace(text.find("%10 = ge"), 8, "%10 = gg");
  EXPECT_EQ(where(text), "19:9");
  // Cut anywhere, the text is refused and nothing crashes.
  for (size_t n = 0; n + 2 < std::string(kGood).size(); n++)
    EXPECT_THROW(parse_program(std::string_view(kGood).substr(0, n)), InvalidGraph);
}

// The constraint that a change of the text or the program breaks.
std::string broken(const std::string& from, const std::string& to, std::string text = kGood) {
  const size_t at = text.find(from);
  if (at == std::string::npos) return "no such text: " + from;
  text.replace(at, from.size(), to);
  try {
    parse_program(text);
  } catch (const InvalidGraph& e) {
    return e.constraint();
  }
  return "accepted";
}
template <class F>
std::string broken(F change) {
  Program p = parse_program(kGood);
  change(p);
  const auto found = verify(p);
  return found.empty() ? "accepted" : found[0].constraint;
}

TEST(TileVerify, tile_C1) {
  EXPECT_EQ(broken([](Program& p) { p.body.insts.back().buffer = BufferId(9); }), "tile-C1");
  EXPECT_EQ(broken([](Program& p) { p.index.push_back({.op = IndexOp::Meta, .value = 7}); }),
            "tile-C1");
}
TEST(TileVerify, tile_C2) {
  EXPECT_EQ(
      broken([](Program& p) { p.body.insts.back().args[0] = p.body.insts[2].blocks[0].params[1]; }),
      "tile-C2");
  EXPECT_EQ(broken([](Program& p) { p.body.axis_ids.clear(); }), "tile-C2");
}
TEST(TileVerify, tile_C3) {
  EXPECT_EQ(broken("ge %8, %9", "ge %8"), "tile-C3");
  EXPECT_EQ(broken([](Program& p) { p.body.insts.back().args.clear(); }), "tile-C3");
}
TEST(TileVerify, tile_C4) {
  EXPECT_EQ(broken("%14 = broadcast %7 : f32[c]", "%14 = broadcast %7 : f32[c, c]"), "tile-C4");
  EXPECT_EQ(broken("check %10", "check %0"), "tile-C4");
}
TEST(TileVerify, tile_C5) {
  EXPECT_EQ(broken("%12 = add %11, %7 : f32[c]", "%12 = add %11, %7 : f32[-]"), "tile-C5");
  EXPECT_EQ(broken("broadcast %7 : f32[c]", "broadcast %12 : f32[-]"), "tile-C5");
}
TEST(TileVerify, tile_C6) {
  EXPECT_EQ(broken("ge %8, %9 : bool[c]", "ge %8, %9 : i64[c]"), "tile-C6");
  EXPECT_EQ(broken("add %11, %7 : f32[c]", "add %11, %8 : f32[c]"), "tile-C6");
}
TEST(TileVerify, tile_C7) {
  EXPECT_EQ(broken("in0[%2*64 + c] where 0 <= c < 60 and 0 <= %0 < $0 else f32 -inf : f32[c]",
                   "in0[%2*64 + c] : f32[-]"),
            "tile-C7");
  EXPECT_EQ(broken("store out0[c] %12", "store out0[c] %7"), "tile-C7");
}
TEST(TileVerify, tile_C8) {
  EXPECT_EQ(broken("buffer out0 f32 align 4 out", "buffer out0 f32 align 4"), "tile-C8");
  EXPECT_EQ(broken("load in1[c] : i64[c]", "load in0[c] : i64[c]"), "tile-C8");
  EXPECT_EQ(broken("else f32 -inf", "else f64 0"), "tile-C8");
}
TEST(TileVerify, tile_C9) {
  EXPECT_EQ(broken("    yield %6\n", ""), "tile-C9");
  EXPECT_EQ(broken("yield %6", "yield %4"), "tile-C9");
}
TEST(TileVerify, tile_C10) {
  EXPECT_EQ(broken("reduce reduce_max %4 axis 0", "reduce reduce_max %4 axis 1"), "tile-C10");
  EXPECT_EQ(broken("reduce reduce_max %4", "reduce add %4"), "tile-C10");
}
TEST(TileVerify, tile_C11) {
  EXPECT_EQ(broken("axis c 64 =", "axis c 0 ="), "tile-C11");
  EXPECT_EQ(broken("%2 = 0 to $0", "%2 = 0 to c"), "tile-C11");
}
TEST(TileVerify, tile_C12) {
  EXPECT_EQ(broken("check %10 1", "check %10 3"), "tile-C12");
  EXPECT_EQ(broken("check %10 1", "check %8 1"), "tile-C12");
}
TEST(TileVerify, tile_C13) {
  EXPECT_EQ(broken("c + 5 : i32[c]", "c + 5 : f32[c]"), "tile-C13");
  EXPECT_EQ(broken("store out0[c] %12", "store out0[[%11]] %12"), "tile-C13");
}
TEST(TileVerify, tile_C14) {
  EXPECT_EQ(broken("floordiv(%0, 3)", "floordiv(%0, 0)"), "tile-C14");
}
TEST(TileVerify, tile_C15) {
  EXPECT_EQ(broken("block_id 0", "block_id 3"), "tile-C15");
}

TEST(TileVerify, tile_C16) {
  const auto dot = [](const std::string& operands, const std::string& type) {
    const std::string text =
        "tile @t {\n  buffer x bf16 align 2\n  buffer y f32 align 4\n  grid \"1\" \"1\" \"1\"\n"
        "  elems 1\n  axis r 4 = 4\n  axis c 8 = 8\n  %0 = load x[r*8 + c] : bf16[r, c]\n"
        "  %1 = load x[c] : bf16[-, c]\n  %2 = load y[c] : f32[-, c]\n"
        "  %3 = load y[r] : f32[r, -]\n  %4 = load x[r] : bf16[r, -]\n  %5 = dot " +
        operands + " : " + type + "\n}\n";
    try {
      return parse_program(text).str() == text ? "accepted" : "another text";
    } catch (const InvalidGraph& e) {
      return e.constraint() == "tile-C16" ? "tile-C16" : "another rule";
    }
  };
  EXPECT_STREQ(dot("%0, %1 axis 1", "f32[r, -]"), "accepted");
  EXPECT_STREQ(dot("%0, %1 axis 1", "bf16[r, -]"), "tile-C16");
  EXPECT_STREQ(dot("%0, %2 axis 1", "f32[r, -]"), "tile-C16");
  EXPECT_STREQ(dot("%1, %1 axis 0", "f32[-, c]"), "tile-C16");
  EXPECT_STREQ(dot("%0, %1 axis 1", "f32[r, c]"), "tile-C16");
  EXPECT_STREQ(dot("%0, %1 axis 2", "f32[r, -]"), "tile-C16");
  EXPECT_STREQ(dot("%0, %1 from %3 axis 1", "f32[r, -]"), "accepted");
  EXPECT_STREQ(dot("%0, %1 from %2 axis 1", "f32[r, -]"), "tile-C16");
  EXPECT_STREQ(dot("%0, %1 from %4 axis 1", "f32[r, -]"), "tile-C16");
}
TEST(TileVerify, tile_C17) {
  EXPECT_EQ(broken("scan %0, %1, %2", "scan %0, %1", kScan), "tile-C3");
  EXPECT_EQ(broken("scan %0, %1, %2", "scan %1, %1, %2", kScan), "tile-C17");
  EXPECT_EQ(broken("scan %0, %1, %2", "scan %0, %0, %2", kScan), "tile-C17");
  EXPECT_EQ(broken("axis 0 by", "axis 1 by", kScan), "tile-C17");
  EXPECT_EQ(broken("%4 : f32[])", "%4 : f64[])", kScan), "tile-C17");
  EXPECT_EQ(broken("yield %5", "%9 = add %3, %2 : f32[c]\n    yield %5", kScan), "tile-C17");
}

std::string run_error(int64_t s0, size_t in_elems) {
  const Program p = parse_program(kGood);
  std::vector<float> in(in_elems), out(64);
  std::vector<int64_t> index(64);
  const std::span<std::byte> buffers[] = {std::as_writable_bytes(std::span(in)),
                                          std::as_writable_bytes(std::span(index)),
                                          std::as_writable_bytes(std::span(out))};
  const int64_t symbols[] = {s0};
  try {
    interpret(p, buffers, symbols);
  } catch (const InvalidGraph& e) {
    return e.constraint();
  }
  return "ran";
}

TEST(TileRun, tile_run_C1_bounds) {
  EXPECT_EQ(run_error(4, 256), "ran");
  EXPECT_EQ(run_error(4, 100), "tile-run-C1");
}
TEST(TileRun, tile_run_C2_buffers) {
  const Program p = parse_program(kGood);
  const int64_t symbols[] = {1};
  EXPECT_THROW(interpret(p, {}, symbols), InvalidGraph);
}
TEST(TileRun, tile_run_C3_C4_sizes) {
  const auto run = [](const char* extent, int64_t s0) {
    const std::string text = std::string(
                                 "tile @t {\n  meta \"s0\"\n  grid \"1\" \"1\" \"1\"\n  elems 1\n"
                                 "  axis c 8 = ") +
                             extent + "\n  %0 = index_tile c : i64[c]\n}\n";
    const int64_t symbols[] = {s0};
    try {
      interpret(parse_program(text), {}, symbols);
    } catch (const InvalidGraph& e) {
      return e.constraint();
    }
    return std::string("ran");
  };
  EXPECT_EQ(run("$0", 8), "ran");
  EXPECT_EQ(run("$0", 9), "tile-run-C4");
  EXPECT_EQ(run("floordiv(8, $0)", 0), "tile-run-C3");
}

// Text of one program a generator, so that a change of what generators write shows in review.
TEST(TileGolden, generators) {
  using passes::RequestKind;
  const std::tuple<const char*, RequestKind, const char*> cases[] = {
      {"elementwise", RequestKind::Elementwise,
       R"(graph @relu(s0 in [1, inf] hint 64, %x: bf16[s0,64]) -> (bf16[s0,64]) {
         %0 = add %x, bf16 1 : bf16[s0,64]
         %1 = maximum %0, bf16 0 : bf16[s0,64]
         return %1
       })"},
      {"rotate_half", RequestKind::Elementwise,
       R"(graph @rotate_half(%x: f32[6,128]) -> (f32[6,128]) {
         %0 = slice %x {axis=1, start=0, end=64, step=1} : f32[6,64]
         %1 = slice %x {axis=1, start=64, end=128, step=1} : f32[6,64]
         %2 = neg %1 : f32[6,64]
         %3 = concat %2, %0 {axis=1} : f32[6,128]
         return %3
       })"},
      {"gather", RequestKind::Elementwise,
       R"(graph @embedding(%w: f32[100,64], %i: i64[8]) -> (f32[8,64]) {
         %0 = gather %w, %i {axis=0} : f32[8,64]
         return %0
       })"},
      {"row", RequestKind::Row,
       R"(graph @softmax(s0 in [1, inf] hint 8, %x: f32[s0,1000]) -> (f32[s0,1000]) {
         %0 = reduce_max %x {axes=[1], keepdim=true} : f32[s0,1]
         %1 = sub %x, %0 : f32[s0,1000]
         %2 = exp %1 : f32[s0,1000]
         %3 = reduce_sum %2 {axes=[1], keepdim=true} : f32[s0,1]
         %4 = div %2, %3 : f32[s0,1000]
         return %4
       })"},
      {"reduce_along", RequestKind::Reduce,
       R"(graph @sum(%x: bf16[8,100000]) -> (bf16[8]) {
         %0 = reduce_sum %x {axes=[1], keepdim=false} : bf16[8]
         return %0
       })"},
      {"reduce_across", RequestKind::Reduce,
       R"(graph @sum(%x: f32[1000,256]) -> (f32[256]) {
         %0 = reduce_sum %x {axes=[0], keepdim=false} : f32[256]
         return %0
       })"},
      {"contraction", RequestKind::Contraction,
       R"(graph @gated(%x: bf16[2,512], %g: bf16[1000,512], %u: bf16[1000,512]) -> (bf16[2,1000]) {
         %0 = transpose %g {perm=[1,0]} : bf16[512,1000]
         %1 = matmul %x, %0 : bf16[2,1000]
         %2 = maximum %1, bf16 0 : bf16[2,1000]
         %3 = transpose %u {perm=[1,0]} : bf16[512,1000]
         %4 = matmul %x, %3 : bf16[2,1000]
         %5 = mul %2, %4 : bf16[2,1000]
         return %5
       })"},
      {"scatter", RequestKind::Scatter,
       R"(graph @cache(%b: f32[2,128,64], %i: i64[4], %x: f32[2,4,64]) -> (f32[2,128,64]) {
         %0 = scatter_update %b, %i, %x {axis=1} : f32[2,128,64]
         return %0
       })"}};
  for (const auto& [file, kind, graph] : cases) {
    const auto request = testing::make_request({.kind = kind, .graph = graph});
    const std::string text = codegen::generate(request, Target::parse("x86-64-v4")).str();
    testing::expect_golden(std::string("codegen/tile/") + file + ".tile", text);
    EXPECT_EQ(parse_program(text).str(), text);
  }
}

}  // namespace
}  // namespace poot::tile
