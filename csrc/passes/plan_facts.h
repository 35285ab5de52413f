// What planning must know of a value before it places it: until when it is read, whether the caller
// sees its memory, whose buffer it should end up in, and in which strides it is wanted.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "passes/pass.h"

namespace poot::passes {

inline constexpr uint32_t kEnd = UINT32_MAX;  // read after the last equation

struct ValueFacts {
  bool used = false;
  uint32_t last_use = 0;         // index of the last equation that reads it, or kEnd
  bool escapes = false;          // a result, or what a result is a view of
  ir::ValueId state;             // the graph input whose buffer this value should be written into
  std::optional<Shape> strides;  // the strides that spare a copy later on
  bool only_keys = true;         // used only as keys or values of attention
};

// Whether the library may keep the weight of a convolution in its own layout between calls.
bool keeps_packed(const ir::Graph& graph, const ir::Eqn& eqn, const PassContext& context);

// The weight of a product that the library may keep in its own layout between calls, seen through
// views, if there is one.
std::optional<ir::ValueId> packed_weight(const ir::Graph& graph, const ir::Eqn& eqn,
                                         const PassContext& context);

// The layout in which operand 0 (the image) of a convolution or of max-pooling is best read, if one
// is. The host's narrow kernels reorder or go element by element in the other: on 64 channels of
// 56 x 56 in bf16 channels-last takes 0.6 of the time, on a 3-channel stem 0.2, in pooling 0.1; in
// f32 0.9 and 0.6 (pooling is alike). But where the weight is the larger operand, its reordering
// costs more than that saves: a contiguous image takes 0.7 in bf16, 0.5 in f32. A weight that is
// channels-last, or kept packed, needs none.
std::optional<Shape> preferred_image(const ir::Graph& graph, const ir::Eqn& eqn,
                                     const PassContext& context);

inline constexpr int64_t kRowAlignment = 16;  // bytes that tensor cores' kernels load at once

// The strides in which the library's product reads a matrix of this type best, if they are not the
// contiguous ones. Where rows of half precision do not begin at multiples of kRowAlignment, kernels
// take over that are several times slower.
std::optional<Shape> preferred_matrix(const ir::TensorType& type, const Target& target);
// Whether a product in half precision has so much arithmetic that its matrices should have sizes
// and places that are multiples of that, even if they have to be copied for it.
bool pays_to_pad(const ir::Graph& graph, const ir::Eqn& product, const Target& target);

// Indexed by ValueId.
std::vector<ValueFacts> value_facts(const ir::Graph& graph, const PassContext& context);

}  // namespace poot::passes
