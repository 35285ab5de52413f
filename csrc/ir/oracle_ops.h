// The oracle's evaluators, one family a file. Private to the oracle.
#pragma once

#include "ir/oracle.h"

namespace poot::ir {

// One equation with its operands' values and its results' concrete types.
struct OracleCall {
  const Eqn& eqn;
  std::vector<const HostArray*> in;
  std::vector<HostArray> out;  // zeros of the results' types; filled in by the evaluator
  std::span<const int64_t> symbols;

  int64_t integer(std::string_view name) const { return eqn.attr<int64_t>(name); }
  int64_t dim(std::string_view name) const { return eqn.attr<Dim>(name).eval(symbols); }
  const std::vector<int64_t>& ints(std::string_view name) const {
    return eqn.attr<std::vector<int64_t>>(name);
  }
  std::vector<int64_t> dims(std::string_view name) const {
    std::vector<int64_t> values;
    for (const Dim& d : eqn.attr<std::vector<Dim>>(name)) values.push_back(d.eval(symbols));
    return values;
  }
  [[noreturn]] void fault(const std::string& what) const {
    throw Error(std::string(eqn.info().name) + ": " + what);
  }
};

using Coords = std::vector<int64_t>;

// Visits every position of `shape` in row-major order: f(linear index, coordinates).
template <class F>
void for_each_position(const std::vector<int64_t>& shape, F f) {
  int64_t n = 1;
  for (const int64_t s : shape) n *= s;
  Coords at(shape.size(), 0);
  for (int64_t i = 0; i < n; ++i) {
    f(i, at);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++at[axis] < shape[axis]) break;
      at[axis] = 0;
    }
  }
}

// Row-major index of coordinates.
int64_t linear(const std::vector<int64_t>& shape, const Coords& at);
// The same for an operand that broadcasts to the space of `at`: missing leading axes and axes of
// size 1 do not count.
int64_t linear_broadcast(const std::vector<int64_t>& shape, const Coords& at);

void eval_elementwise(OracleCall& call);  // pointwise ops and sources
void eval_view(OracleCall& call);         // views
void eval_movement(OracleCall& call);     // concat, pad, gather, take
void eval_update(OracleCall& call);       // scatter_update, update_slice
void eval_reduce(OracleCall& call);       // reductions
void eval_scan(OracleCall& call);         // scans
void eval_contraction(OracleCall& call);  // matmul, addmm
void eval_structured(OracleCall& call);   // convolution, max_pool, attention
void eval_convolution(OracleCall& call);

}  // namespace poot::ir
