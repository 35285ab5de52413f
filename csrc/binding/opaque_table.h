// Prepared calls of one program: an operator of the dispatcher with its constants, or a Python
// function (a higher-order operator with its graphs), and where operands go.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/utils/pybind.h>

#include <span>
#include <string>
#include <vector>

#include "support/dim.h"

namespace poot::binding {

// Marks an operand in the arguments handed in from Python: number `index` of the equation's inputs.
struct OperandSlot {
  uint32_t index;
  bool complex;  // it is there as a real tensor whose last axis holds real and imaginary part
};

class OpaqueTable {
 public:
  // `args` and `kwargs` hold constants, OperandSlots, Dims, and lists of these, as the schema
  // orders them. Returns the call's number. Throws if the operator is unknown or an argument does
  // not convert. With `writes_new` the operator writes its first operand, for which it gets new
  // memory, laid out alike.
  uint32_t add(const std::string& name, const std::string& overload, const pybind11::tuple& args,
               const pybind11::dict& kwargs, bool writes_new);
  // A Python function over `arguments`: OperandSlots, Dims and ints, which it gets as tensors and
  // ints. It returns a sequence of tensors.
  uint32_t add_function(const std::string& name, pybind11::object function,
                        const pybind11::list& arguments);
  // Runs a call; all tensors among its results, lists flattened, complex ones as real pairs. What a
  // function raises comes out as pybind11::error_already_set.
  std::vector<at::Tensor> call(uint32_t call, std::span<const at::Tensor> operands,
                               std::span<const int64_t> symbols) const;
  const std::string& name(uint32_t call) const { return calls_.at(call).name; }

 private:
  struct Element {
    enum Kind : uint8_t { None, Operand, Size } kind = None;
    uint32_t operand = 0;
    bool complex = false;
    Dim size;
  };
  struct Argument {
    enum Kind : uint8_t { Constant, One, TensorList, OptionalTensorList, IntList } kind = Constant;
    c10::IValue constant;
    bool wants_tensor = false;  // a size stands where the schema says Tensor
    std::vector<Element> elements;
  };
  struct Call {
    std::optional<c10::OperatorHandle> op;
    std::string name;
    std::vector<Argument> args;
    pybind11::object function;  // set: called instead of op, with the elements of args[0]
    bool writes_new = false;
  };
  static Element element(const pybind11::handle& o);
  static Argument argument(const pybind11::handle& o, const c10::Argument& formal);
  static std::vector<at::Tensor> call_function(const Call& call,
                                               std::span<const at::Tensor> operands,
                                               std::span<const int64_t> symbols);
  static c10::IValue load(const Argument& a, std::span<const at::Tensor> operands,
                          std::span<const int64_t> symbols);
  std::vector<Call> calls_;
};

}  // namespace poot::binding
