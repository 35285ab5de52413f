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

TEST(GenerateScan, every_function_and_axis) {
  for (const char* op : {"scan_sum", "scan_prod", "scan_max", "scan_min", "scan_logaddexp"})
    for (int axis = 0; axis < 3; axis++)
      run_tile_case({.kind = passes::RequestKind::Scan, .graph = scan(op, "f32[3,5,70]", axis)});
}

TEST(GenerateScan, dtypes) {
  for (const char* d : {"f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8"})
    for (const char* op : {"scan_sum", "scan_max"})
      run_tile_case(
          {.kind = passes::RequestKind::Scan, .graph = scan(op, std::string(d) + "[37,20]", 1)});
}

TEST(GenerateScan, one_row_and_strided_memory) {
  run_tile_case({.kind = passes::RequestKind::Scan, .graph = scan("scan_sum", "f32[300]", 0)});
  run_tile_case({.kind = passes::RequestKind::Scan,
                 .graph = scan("scan_sum", "f32[40,60]", 1),
                 .inputs = {{0, {{1, 40}, 0, 4}}},
                 .outputs = {{0, {{1, 40}, 0, 4}}}});
}

TEST(GenerateScan, symbolic_sizes) {
  run_tile_case({.kind = passes::RequestKind::Scan,
                 .graph = R"(graph @s(s0 in [0, inf] hint 64, %x: f32[s0,7]) -> (f32[s0,7]) {
    %0 = scan_sum %x {axis=1} : f32[s0,7]
    return %0
  })",
                 .symbols = {6}});
  for (const int64_t n : {0, 1, 33})
    for (const int64_t m : {0, 1, 20})
      run_tile_case({.kind = passes::RequestKind::Scan,
                     .graph = R"(graph @s(s0 in [0, inf] hint 64, s1 in [0, inf] hint 64,
                                          %x: f32[s0,s1]) -> (f32[s0,s1]) {
        %0 = scan_sum %x {axis=0} : f32[s0,s1]
        return %0
      })",
                     .symbols = {n, m}});
}

}  // namespace
}  // namespace poot::testing
