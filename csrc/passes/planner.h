// The planner at work: one pass over the equations, each placing its results. Internal to
// passes/plan*.cpp; plan.h is the front door.
#pragma once

#include <functional>
#include <map>

#include "passes/layout.h"
#include "passes/plan.h"
#include "passes/plan_facts.h"
#include "passes/plan_program.h"
#include "passes/split_reduce.h"

namespace poot::passes {

// Where a value lies: a window, in elements of its dtype, on a buffer.
struct Place {
  program::BufferId buffer;
  Window window;
};

// A buffer of `rows` of `columns`, `pitch` elements apart: what lies between is a margin.
struct PaddedBuffer {
  Dim rows, columns, pitch;
  bool right_is_zero = false, below_is_zero = false;  // the margins there
};
// The copy, with margins up to `wide`, of rows of a matrix that views value `of`.
struct PaddedCopy {
  ir::ValueId of;
  Place from;
  Shape wide;
  Place to;
};

inline constexpr std::string_view kNegative = "the host has no negative strides";

class Planner {
 public:
  Planner(const ir::Graph& graph, const Signature& signature, PassContext& context);
  PlanResult run();

 private:
  using Accept = std::function<bool(const Window&)>;

  // plan.cpp
  void bind_arguments();
  void equation();
  void view();
  void opaque();
  void check_memory_limit();
  EqnPlan& record(PlanKind kind, std::string_view op, std::string kernel);

  // plan_places.cpp
  bool dead_after_now(program::BufferId b) const;
  bool read_now(program::BufferId b) const;
  void set_place(ir::ValueId v, Place p);
  Place place_of(const ir::Operand& o);  // a literal becomes a constant
  Place fresh(const ir::TensorType& type, const Shape& strides, program::BufferClass cls);
  // Memory for a result of the current equation: the state buffer it should end in if nothing needs
  // the old contents (not even this equation), else fresh, in `preferred` strides if nobody asks
  // for others. `accept` may refuse strides.
  Place destination(ir::ValueId v, const std::optional<Shape>& preferred = {},
                    const Accept& accept = {});
  program::ViewId view_of(const Place& p, DType dtype);
  // The operand itself, or a contiguous copy if `accept` refuses its strides.
  Place operand(const ir::Operand& o, std::string_view reason, const Accept& accept);
  Place copied(const Place& from, DType dtype, const Shape& strides, program::BufferClass cls,
               const std::string& value, std::string_view reason);
  // A copy in these strides; axes of stride 0 are stored once.
  Place restrided(const Place& from, const ir::TensorType& type, const Shape& strides,
                  program::BufferClass cls, const std::string& value, std::string_view reason);
  std::string value_name(const ir::Operand& o) const;

  // plan_generated.cpp
  void region();
  // A reduction in two launches: parts into transient memory, then their totals.
  void split_region(const SplitReduction& split, const std::string& name,
                    const std::vector<Place>& inputs);
  void single_equation();
  void copy(const Place& from, const Place& to, DType dtype);
  void fill_mask(const Place& from, const Place& to, const ir::TensorType& mask, DType dtype);
  // `totals`: of a scan in parts.
  program::KernelId generate(KernelRequest request, const std::vector<Place>& inputs,
                             const std::vector<Place>& outputs,
                             const std::vector<Place>& totals = {});
  std::vector<Place> place_results(KernelRequest& request, const std::vector<Place>& inputs);
  std::optional<Shape> row_strides(ir::ValueId v, const KernelRequest& request,
                                   const std::vector<Place>& inputs) const;
  bool place_in_state(KernelRequest& request, const std::vector<Place>& inputs, size_t output,
                      Place& to);
  bool reuse_operand(KernelRequest& request, const std::vector<Place>& inputs,
                     std::vector<bool>& taken, size_t output, Place& to);

  // plan_scan.cpp
  program::KernelId scan(KernelRequest request, const std::vector<Place>& inputs,
                         const std::vector<Place>& outputs);

  // plan_update.cpp
  void update();
  void scatter(const Place& base);
  void add_in_parts(int64_t parts, KernelRequest request, std::vector<Place> inputs);
  bool may_update(const Place& base, ir::ValueId result) const;

  // plan_library.cpp, plan_structured.cpp, plan_windows.cpp
  void contraction();
  void structured();
  // Operand 0 of the current convolution or pooling, in the layout that it prefers.
  Place image(const ir::Operand& o, const Accept& accept);
  void convolution();
  void convolution_call();
  void convolution_as_product();
  Place padded(const Place& image, const ir::TensorType& type, const Shape& low);
  void max_pool();
  bool pools_in_kernel(const Window& image) const;
  ir::ValueId later_maximum(ir::Builder& body, ir::ValueId later, ir::ValueId earlier) const;
  void max_pool_kernel(const Place& in, const Place& out);
  void attention();
  void library(program::LibraryOp op, std::vector<program::ViewId> inputs,
               std::vector<program::ViewId> outs, std::vector<int64_t> ints,
               std::vector<double> floats);
  Place owned(ir::ValueId v, Shape strides);

  // plan_padding.cpp
  // Grows a fresh buffer of rows that lie apart, so that the last one has its margin too.
  void pad_buffer(const Place& p, const ir::TensorType& type);
  void clear(const Place& margin, DType dtype);
  Place padded_copy(const Place& rows, const ir::Operand& o, const Shape& wide);
  // A matrix of a product at sizes `to`, copied if it has no margins; those of the axes that are
  // summed over hold zeros.
  Place widened(const Place& matrix, const ir::Operand& o, const Shape& to, bool sums_rows,
                bool sums_columns);
  // The current addmm's bias, if the library can add it as a vector as it writes the result.
  std::optional<Place> bias_vector();
  Place product_place(const Accept& accept);
  // Replaces the matrices of a product by wider ones of sizes that the library's kernels like.
  void pad_product(Place& a, Place& b, Place& out, std::optional<Place>& bias, bool may_widen);

  // plan_results.cpp
  void results();
  void states();
  Place result_place(const ir::GraphOutput& out, const SignatureResult& result);
  bool may_show(program::BufferId buffer, const SignatureResult& result);
  bool is_mutated(program::BufferId b) const;

  const ir::Graph& graph_;
  const Signature& signature_;
  PassContext& context_;
  const std::vector<std::string> names_;  // of values, as the graph prints
  std::vector<ValueFacts> facts_;
  std::vector<Place> places_;                // by ValueId
  std::vector<uint32_t> buffer_last_;        // by BufferId: last use of anything it holds
  std::map<uint32_t, uint32_t> input_args_;  // graph input value -> argument position
  std::vector<bool> donated_;                // by argument position
  std::map<uint32_t, uint32_t> shown_;       // buffer -> base of the results that show it
  std::map<uint32_t, Place> copies_;         // value -> its contiguous copy
  std::map<uint32_t, PaddedBuffer> padded_;  // by buffer
  std::vector<PaddedCopy> padded_copies_;
  ProgramWriter writer_;
  PlanResult out_;
  uint32_t now_ = 0;              // index of the current equation; kEnd after the last
  const ir::Eqn* eqn_ = nullptr;  // the current equation
};

}  // namespace poot::passes
