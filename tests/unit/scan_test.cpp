// Scans: the tile program against the oracle, its lowering against the tile program.
#include "tile_harness.h"

namespace poot::testing {
namespace {

std::string scan(const std::string& op, const std::string& type, int axis) {
  const std::string places = "i64" + type.substr(type.find('['));
  const bool two = op == "scan_max" || op == "scan_min";
  return "graph @s(%x: " + type + ") -> (" + type + (two ? ", " + places : "") + ") {\n  %0" +
         (two ? ", %1" : "") + " = " + op + " %x {axis=" + std::to_string(axis) + "} : " + type +
         (two ? ", " + places : "") + "\n  return %0" + (two ? ", %1" : "") + "\n}";
}

bool is_16_bits(const std::string& d) {
  return d.ends_with("f16");
}

// What a scan of f32 folds is f64, so that the order hardly shows in its sums.
void run_scan(const std::string& graph, std::vector<int64_t> symbols = {},
              double gpu_tolerance = 1e-6) {
  run_tile_case({.kind = passes::RequestKind::Scan,
                 .graph = graph,
                 .symbols = std::move(symbols),
                 .gpu_tolerance = gpu_tolerance});
}

TEST(GenerateScan, every_function_and_axis) {
  for (const char* op : {"scan_sum", "scan_prod", "scan_max", "scan_min", "scan_logaddexp"})
    for (int axis = 0; axis < 3; axis++) run_scan(scan(op, "f32[3,5,70]", axis));
}

TEST(GenerateScan, dtypes) {
  for (const char* d : {"f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8"})
    for (const char* op : {"scan_sum", "scan_max"})
      run_tile_case({.kind = passes::RequestKind::Scan,
                     .graph = scan(op, std::string(d) + "[37,20]", 1),
                     .gpu_tolerance = is_16_bits(d) ? 0.01 : 1e-6});
}

// A warp or less a row, several warps, rows in chunks; ends that are no whole vector.
TEST(GenerateScan, lengths_of_rows) {
  for (const int64_t n : {1, 2, 5, 31, 256, 257, 1024, 5003, 8192, 20005})
    for (const char* op : {"scan_sum", "scan_max"})
      run_scan(scan(op, "f32[3," + std::to_string(n) + "]", 1));
  run_scan(scan("scan_logaddexp", "f32[2,9001]", 1), {}, 1e-5);
  run_scan(scan("scan_sum", "i64[9,3000]", 1));
}

TEST(GenerateScan, one_row_and_strided_memory) {
  run_scan(scan("scan_sum", "f32[300]", 0));
  run_tile_case({.kind = passes::RequestKind::Scan,
                 .graph = scan("scan_sum", "f32[40,60]", 1),
                 .inputs = {{0, {{1, 40}, 0, 4}}},
                 .outputs = {{0, {{1, 40}, 0, 4}}},
                 .gpu_tolerance = 1e-6});
}

TEST(GenerateScan, symbolic_sizes) {
  run_scan(R"(graph @s(s0 in [0, inf] hint 64, %x: f32[s0,7]) -> (f32[s0,7]) {
    %0 = scan_sum %x {axis=1} : f32[s0,7]
    return %0
  })",
           {6});
  for (const int64_t n : {0, 1, 33, 700})
    run_scan(R"(graph @s(s0 in [0, inf] hint 64, s1 in [0, inf] hint 64,
                         %x: f32[s0,s1]) -> (f32[s0,s1]) {
      %0 = scan_sum %x {axis=1} : f32[s0,s1]
      return %0
    })",
             {5, n});
  for (const int64_t n : {0, 1, 33})
    for (const int64_t m : {0, 1, 20})
      run_scan(R"(graph @s(s0 in [0, inf] hint 64, s1 in [0, inf] hint 64,
                           %x: f32[s0,s1]) -> (f32[s0,s1]) {
        %0 = scan_sum %x {axis=0} : f32[s0,s1]
        return %0
      })",
               {n, m});
}

using Bytes = std::vector<std::byte>;

uint32_t run_kernel(const passes::KernelRequest& request, std::vector<Bytes*> buffers,
                    std::span<const int64_t> symbols) {
  const Target gpu = Target::parse("sm_90a");
  const tile::Program program = codegen::generate(request, gpu);
  SCOPED_TRACE(program.str());
  EXPECT_EQ(tile::parse_program(program.str()).str(), program.str());
  const kir::Kernel kernel = codegen::lower(program, gpu);
  kir::RunArgs args;
  for (Bytes* b : buffers) args.buffers.emplace_back(*b);
  for (const Dim& d : program.meta) args.meta.push_back(d.eval(symbols));
  for (int i = 0; i < 3; i++) args.grid[i] = static_cast<uint32_t>(program.grid[i].eval(symbols));
  return kir::interpret(kernel, args, 0, args.grid[0] * args.grid[1] * args.grid[2]);
}

// Both kernels of a scan in parts against the oracle.
void run_parts(const std::string& graph, const Dim& parts, std::vector<int64_t> symbols = {}) {
  SCOPED_TRACE(graph);
  const TileCase c{.kind = passes::RequestKind::Scan,
                   .graph = graph,
                   .symbols = std::move(symbols),
                   .tolerance = 1e-6};
  passes::KernelRequest request = make_request(c);
  request.parts = parts;
  const ir::Graph& body = *request.body;
  std::mt19937_64 rng(3);
  const std::vector<ir::HostArray> arrays = {random_array(body.type(body.inputs()[0]), c, rng)};
  std::vector<Memory> memory;
  memory.emplace_back(body.type(body.inputs()[0]), request.inputs[0], c.symbols);
  memory[0].put(arrays[0]);
  for (size_t i = 0; i < body.outputs().size(); i++)
    memory.emplace_back(body.type(body.outputs()[i].value), request.outputs[i], c.symbols);
  std::vector<Bytes> totals;
  for (const DType d : passes::scan_accumulators(body, Isa::Ptx))
    totals.emplace_back(
        static_cast<size_t>(numel(body.type(body.inputs()[0]).shape).eval(c.symbols) *
                            parts.eval(c.symbols) * byte_size(d)));
  std::vector<Bytes*> whole;
  for (Memory& m : memory) whole.push_back(&m.bytes);
  std::vector<Bytes*> partial = {whole[0]};
  for (Bytes& t : totals) whole.push_back(&t), partial.push_back(&t);
  passes::KernelRequest first = request;
  first.kind = passes::RequestKind::ScanParts;
  EXPECT_NE(first.str(), request.str());
  EXPECT_EQ(run_kernel(first, partial, c.symbols), 0u);
  EXPECT_EQ(run_kernel(request, whole, c.symbols), 0u);
  const auto want = ir::evaluate(body, arrays, c.symbols);
  for (size_t i = 0; i < want.size(); i++)
    expect_equal(memory[1 + i].get(), want[i], c, "output " + std::to_string(i));
}

TEST(GenerateScan, parts_of_long_rows) {
  for (const char* op : {"scan_sum", "scan_max"}) {
    run_parts(scan(op, "f32[2,40000]", 1), 3);
    run_parts(scan(op, "f32[9000]", 0), 4);  // more parts than chunks
  }
  const std::string text = R"(graph @s(s0 in [0, inf] hint 90000, %x: i64[1,s0]) -> (i64[1,s0]) {
    %0 = scan_sum %x {axis=1} : i64[1,s0]
    return %0
  })";
  for (const int64_t n : {1, 8192, 30000})
    run_parts(text, Dim::max(Dim::ceildiv(Dim::symbol(0), 16384), 1), {n});
}

TEST(GenerateScan, parts_of_columns) {
  for (const char* op : {"scan_sum", "scan_min", "scan_logaddexp"}) {
    run_parts(scan(op, "f32[100,40]", 0), 7);
    run_parts(scan(op, "f32[3,50,130]", 1), 60);  // some have no position
  }
}

TEST(GenerateScan, kernels_of_rows_meet_in_two_barriers) {
  const Target gpu = Target::parse("sm_90a");
  const auto lowered = [&](const std::string& graph) {
    const TileCase c{.kind = passes::RequestKind::Scan, .graph = graph};
    return codegen::lower(codegen::generate(make_request(c), gpu), gpu);
  };
  const auto barriers = [](const kir::Kernel& k) {
    const std::string text = k.str();
    size_t n = 0;
    for (size_t at = 0; (at = text.find("  barrier", at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(barriers(lowered(scan("scan_sum", "f32[64,256]", 1))), 0u);  // a warp a row
  EXPECT_EQ(lowered(scan("scan_sum", "f32[64,256]", 1)).threads, 128u);
  EXPECT_EQ(barriers(lowered(scan("scan_sum", "f32[64,8192]", 1))), 2u);
  EXPECT_EQ(barriers(lowered(scan("scan_sum", "f32[64,81920]", 1))), 2u);
  EXPECT_EQ(barriers(lowered(scan("scan_sum", "f32[64,81920]", 0))), 0u);
}

}  // namespace
}  // namespace poot::testing
