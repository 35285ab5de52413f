// KernelRequest: what the planner asks codegen for. The only thing that passes and codegen share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace poot::passes {

// Each kind has one generator (codegen/generate/<kind>.cpp), for all targets.
enum class RequestKind : uint8_t {
  Elementwise,  // body: pointwise, views, gathers, concat, pad; one iteration space (body of
                // `fused`)
  Row,          // body of `fused_row`: rows x trailing axes, reductions over exactly those
  Reduce,       // body of `fused_reduce`: reductions over any axes of one pointwise region
  Scatter,      // scatter_update / update_slice into an existing buffer; body: one Update equation
            // whose operand 0 is the output buffer itself (in place), other operands may be views
};

struct KernelRequest {
  RequestKind kind = RequestKind::Elementwise;
  std::string name;  // "fused_add_relu"
  std::shared_ptr<const ir::Graph> body;
  std::vector<ir::Layout> inputs;   // of body inputs, in order
  std::vector<ir::Layout> outputs;  // of body outputs, in order
  std::string str() const;          // text: the body with layouts; equal text, equal kernel
};

}  // namespace poot::passes
