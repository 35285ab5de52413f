// The cost rule of fusion: what an evaluation costs, what a materialised value costs, and whether
// computing a value inside its reader beats storing it. One place, so that it can be measured.
#pragma once

#include <string>

#include "codegen/target.h"
#include "ir/graph.h"

namespace poot::passes {

// Picoseconds to evaluate one element on one core with full vectors, memory traffic apart.
double evaluation_cost(const ir::Graph& graph, const ir::Eqn& eqn);
// An evaluation that costs no more is hidden behind the load that it saves.
inline constexpr double kCheapPs = 10;

// What it costs to store a value and load it again, and to launch the kernel that makes it.
double materialisation_cost(const ir::TensorType& type, const SymbolTable& symbols,
                            const Target& target);

// True if evaluating `eqn` for `evaluations` elements in all (it has numel elements) costs no more
// than making it once and loading it.
bool pays_to_recompute(const ir::Graph& graph, const ir::Eqn& eqn, double evaluations,
                       const Target& target);

// Evaluation is free: a view, a source made of literals, or a cast that widens exactly.
bool is_free(const ir::Graph& graph, const ir::Eqn& eqn);

// A product of `rows` vectors with a matrix that has `columns` of them, all of length `depth`.
struct Product {
  DType dtype;
  Dim rows, columns, depth;
  bool one_matrix = false;        // the same right operand for every batch
  bool checkpoint_order = false;  // each vector of the matrix is one stretch of memory
  bool across = false;            // the vectors lie side by side: each element of all is one
  bool packed = false;            // the library may keep the matrix in its own layout
  bool followed = false;          // only what is computed element by element reads the result
  bool swapped = false;           // the matrix is the left operand
  bool left_in_rows = false;      // the left operand's rows are stretches of memory
  // The right operand's columns and the left's rows are stretches of memory, the rows of all
  // batches at one distance.
  bool in_stretches = false;
};
// Whether a generated kernel is planned for a product rather than the library, and why (or not).
struct ProductChoice {
  bool generated = false;
  std::string reason;
  // Whether its kernel may compute operands as it packs them, and how often each element then is.
  bool computes_operands = false;
  double left_evaluations = 1, right_evaluations = 1;
};
// Rows times products of one generated kernel: their accumulators fit in registers.
inline constexpr int64_t kMostDots = 8;
// Rows of one generated kernel that reads a matrix across its vectors.
inline constexpr int64_t kMostAcross = 16;
// Products of one generated kernel whose sums are an array: they fit in the second-level cache.
inline constexpr int64_t kMostTiled = 2;
ProductChoice choose_product(const Product& product, const SymbolTable& symbols,
                             const Target& target);

// Whether a convolution with this result [N, O, h, w] is planned as a product of its weight, as it
// lies, with the columns of its windows.
bool pays_as_product(const Shape& result, const SymbolTable& symbols);

// Whether an attention equation is computed by generated kernels rather than the library.
bool pays_as_kernels(const ir::Graph& graph, const ir::Eqn& attention, const Target& target);

// Number of elements at the hint sizes.
double hinted_numel(const Shape& shape, const SymbolTable& symbols);

// How many evaluations a value of shape `value` costs when it is broadcast into a space that is
// evaluated `evaluations` times and has shape `space`: a value constant along the trailing axes is
// computed once for each vector loop over them.
double broadcast_evaluations(const Shape& value, const Shape& space, double evaluations,
                             const SymbolTable& symbols);

}  // namespace poot::passes
