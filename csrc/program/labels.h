// What the launches of a program are, for people: what profilers show beside times.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "program/program.h"

namespace poot::program {

enum class LaunchKind : uint8_t { Generated, Library, Opaque };

struct LaunchLabel {
  LaunchKind kind = LaunchKind::Generated;
  std::string name;                    // "fused_add_relu", "mm", "aten::nonzero"
  std::vector<const Origin*> origins;  // of the program
  // "fused_add_relu [add_3, relu_1] model.py:12, in forward: x + 1"; long lists are cut.
  std::string text() const;
};

// By launch number, over all segments in order. The program outlives them.
std::vector<LaunchLabel> launch_labels(const Program& p);

// Bytes that each launch must read and write, each once, with sizes bound: of library and opaque
// calls, their operands and results.
std::vector<int64_t> launch_traffic(const Program& p, std::span<const int64_t> symbols);

}  // namespace poot::program
