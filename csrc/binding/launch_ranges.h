// Launches as ranges of torch's profiler, and the table of launches that poot_torch.profile reads.
#pragma once

#include <torch/csrc/utils/pybind.h>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/host_services.h"

namespace poot::binding {

// The ranges of one program. Ranges exist only while a profiler or another observer of torch's is
// on: "poot::fused_add_relu [add_3, relu_1] model.py:12, in forward: x + 1" for a launch that runs
// by itself; "poot::replay", with an empty range for each launch inside, for several at once.
class LaunchRanges {
 public:
  runtime::Watch watched() const;
  std::shared_ptr<void> announce(const program::Program& program, std::span<const int64_t> symbols,
                                 uint32_t first, uint32_t count);

 private:
  std::once_flag labels_once_;
  std::vector<std::string> labels_;  // by launch; outlive the ranges
};

// From begin to end, all programs run launch by launch, and every range's name ends in " #N": entry
// N of the table that end_launch_profile returns, a list of {class, name, nodes, sources, bytes}.
void begin_launch_profile();
pybind11::list end_launch_profile();

}  // namespace poot::binding
