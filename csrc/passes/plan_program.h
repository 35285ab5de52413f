// The program under construction: buffers, interned views and kernels, launches in order. What the
// planner appends here is final but for live ranges, segments and buffer classes, which finish()
// derives from the launches.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "passes/request.h"
#include "program/program.h"

namespace poot::passes {

class ProgramWriter {
 public:
  program::Program& program() { return program_; }
  program::Buffer& buffer(program::BufferId b) { return program_.buffers[b.index]; }
  const program::Buffer& buffer(program::BufferId b) const { return program_.buffers[b.index]; }

  program::BufferId add_buffer(program::Buffer b);
  // A constant with these bytes; equal constants share one buffer.
  program::BufferId constant(DType dtype, std::string bytes);
  program::ViewId view(program::View v);            // interned
  program::KernelId kernel(KernelRequest request);  // interned by its text
  const std::string& kernel_name(program::KernelId k) const {
    return program_.kernels[k.index].name;
  }
  void launch(program::LaunchBody body, std::vector<uint32_t> origins);

  // Segments, live ranges; an Output that no result shows becomes a transient.
  void finish();
  std::vector<KernelRequest> take_requests() { return std::move(requests_); }
  // Sum of the transients that live at the worst launch, by hint sizes.
  Dim peak_transient_bytes() const;

 private:
  void set_classes();
  void set_live_ranges();
  void set_segments();

  program::Program program_;
  std::vector<program::Launch> launches_;
  std::vector<KernelRequest> requests_;
  std::unordered_map<std::string, uint32_t> kernels_, views_, constants_;
};

}  // namespace poot::passes
