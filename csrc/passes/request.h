// KernelRequest: what the planner asks codegen for. The only thing that passes and codegen share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "ir/graph.h"

namespace poot::passes {

// Each kind has one generator (codegen/generate/<kind>.cpp), for all targets.
enum class RequestKind : uint8_t {
  Elementwise,  // body: pointwise, views, gathers, concat, pad; one iteration space (body of
                // `fused`)
  Row,          // body of `fused_row`: rows x trailing axes, reductions over exactly those
  Reduce,       // body of `fused_reduce`: reductions over any axes of one pointwise region
  Scan,         // body: one scan equation; with parts each starts from what those before fold to
  ScanParts,    // the same with parts; writes what each folds to, of layouts only those of Scan
  Contraction,  // products of a few rows with one matrix, over one size, with what follows them
  Scatter,      // scatter_update / update_slice into an existing buffer; body: one Update equation
                // whose operand 0 is the output buffer itself (in place): the kernel's buffers are
                // the body's other inputs, in order, then the output; inputs[0] equals outputs[0]
};

struct KernelRequest {
  RequestKind kind = RequestKind::Elementwise;
  std::string name;  // "fused_add_relu"
  std::shared_ptr<const ir::Graph> body;
  std::vector<ir::Layout> inputs;   // of body inputs, in order
  std::vector<ir::Layout> outputs;  // of body outputs, in order
  // Elementwise only: for each output the body input whose memory it overwrites, each element read
  // only for the same position, or -1. Empty: no output shares memory with an input. Both stay
  // buffers of the kernel, which must not assume that they are disjoint, and which computes all
  // outputs of a position before it stores any.
  std::vector<int32_t> in_place;
  // Reduce: every output holds `parts` results one after another, each in contiguous order and
  // each of one part of the reduced positions (some parts may be empty).
  // Scans: the axis is in this many parts, equally many positions but for the last ones. Behind
  // their other buffers the kernels have one for each of scan_accumulators, [parts, other axes], in
  // an order of theirs: ScanParts writes, Scan reads them.
  // Scatter that adds: part p of P takes every P-th place from p on, and adds to base p of P, one
  // behind the other.
  Dim parts = 1;
  // Scatter with fn add, maximum or minimum: places of the source in any order, on targets with
  // atomic accesses.
  bool any_order = false;
  std::string str() const;  // text: the body with layouts; equal text, equal kernel
};

// Sums in the order of eager's kernels on a CPU: so many vectors of so many bytes side by side, and
// the positions that one accumulator takes before it joins the next (four accumulators of at least
// 16 each reach any size).
inline constexpr int64_t kCascadeWays = 4, kCascadeVector = 32;
int64_t cascade_steps(const Dim& positions);

// Dtypes of what the one scan equation of a body folds: the values, and the places if it tells
// them.
std::vector<DType> scan_accumulators(const ir::Graph& body, Isa isa);

}  // namespace poot::passes
