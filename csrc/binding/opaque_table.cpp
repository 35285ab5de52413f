#include "binding/opaque_table.h"

#include <ATen/ScalarOps.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <torch/csrc/jit/python/pybind_utils.h>

namespace poot::binding {
namespace py = pybind11;
using c10::IValue;
namespace {

at::Tensor as_operand(const at::Tensor& t, bool complex) {
  return complex ? at::view_as_complex(t) : t;
}

at::Tensor as_result(const at::Tensor& t) {
  const at::Tensor plain = t.resolve_conj().resolve_neg();
  return plain.is_complex() ? at::view_as_real(plain) : plain;
}

}  // namespace

OpaqueTable::Element OpaqueTable::element(const py::handle& o) {
  Element e;
  if (o.is_none()) return e;
  if (py::isinstance<OperandSlot>(o)) {
    e.kind = Element::Operand;
    e.operand = o.cast<OperandSlot>().index;
    e.complex = o.cast<OperandSlot>().complex;
  } else {
    e.kind = Element::Size;
    e.size = py::isinstance<Dim>(o) ? o.cast<Dim>() : Dim(o.cast<int64_t>());
  }
  return e;
}

OpaqueTable::Argument OpaqueTable::argument(const py::handle& o, const c10::Argument& formal) {
  Argument a;
  c10::TypePtr type = formal.type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  auto symbolic = [](const py::handle& x) {
    return py::isinstance<OperandSlot>(x) || py::isinstance<Dim>(x);
  };
  if (symbolic(o)) {
    a.kind = Argument::One;
    a.wants_tensor = type->kind() == c10::TypeKind::TensorType;
    TORCH_CHECK(a.wants_tensor || !py::isinstance<OperandSlot>(o),
                "a number that depends on a size in the place of '", formal.name(), "'");
    a.elements = {element(o)};
    return a;
  }
  bool any = false;
  if (py::isinstance<py::list>(o) || py::isinstance<py::tuple>(o))
    for (const py::handle& x : py::reinterpret_borrow<py::sequence>(o)) any |= symbolic(x);
  if (any) {
    const c10::TypePtr of = type->expectRef<c10::ListType>().getElementType();
    a.kind = of->kind() == c10::TypeKind::TensorType     ? Argument::TensorList
             : of->kind() == c10::TypeKind::OptionalType ? Argument::OptionalTensorList
                                                         : Argument::IntList;
    for (const py::handle& x : py::reinterpret_borrow<py::sequence>(o))
      a.elements.push_back(element(x));
    return a;
  }
  // ATen graphs hold mul.Tensor(x, 2): a number where the schema says Tensor.
  torch::jit::ToIValueAllowNumbersAsTensors numbers(true);
  a.constant = torch::jit::toIValue(o, formal.type(), formal.N());
  return a;
}

uint32_t OpaqueTable::add(const std::string& name, const std::string& overload,
                          const py::tuple& args, const py::dict& kwargs, bool writes_new) {
  Call call{c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str()),
            name,
            {},
            {},
            writes_new};
  const auto& formals = call.op->schema().arguments();
  for (size_t i = 0; i < formals.size(); ++i) {
    const c10::Argument& f = formals[i];
    if (i < args.size()) {
      call.args.push_back(argument(args[i], f));
    } else if (kwargs.contains(f.name().c_str())) {
      call.args.push_back(argument(kwargs[f.name().c_str()], f));
    } else {
      TORCH_CHECK(f.default_value().has_value(), name, ": no value for '", f.name(), "'");
      Argument a;
      a.constant = *f.default_value();
      call.args.push_back(std::move(a));
    }
  }
  calls_.push_back(std::move(call));
  return static_cast<uint32_t>(calls_.size() - 1);
}

uint32_t OpaqueTable::add_function(const std::string& name, py::object function,
                                   const py::list& arguments) {
  Argument all;
  for (const py::handle& o : arguments) all.elements.push_back(element(o));
  calls_.push_back({std::nullopt, name, {std::move(all)}, std::move(function), false});
  return static_cast<uint32_t>(calls_.size() - 1);
}

std::vector<at::Tensor> OpaqueTable::call_function(const Call& call,
                                                   std::span<const at::Tensor> operands,
                                                   std::span<const int64_t> symbols) {
  py::gil_scoped_acquire gil;
  py::list arguments;
  for (const Element& e : call.args[0].elements) {
    if (e.kind == Element::Operand)
      arguments.append(as_operand(operands[e.operand], e.complex));
    else
      arguments.append(e.size.eval(symbols));
  }
  std::vector<at::Tensor> out;
  for (const at::Tensor& t : call.function(arguments).cast<std::vector<at::Tensor>>())
    out.push_back(as_result(t));
  return out;
}

IValue OpaqueTable::load(const Argument& a, std::span<const at::Tensor> operands,
                         std::span<const int64_t> symbols) {
  auto tensor = [&](const Element& e) { return as_operand(operands[e.operand], e.complex); };
  switch (a.kind) {
    case Argument::Constant:
      return a.constant;
    case Argument::One: {
      const Element& e = a.elements[0];
      if (e.kind == Element::Operand) return tensor(e);
      const int64_t size = e.size.eval(symbols);
      if (!a.wants_tensor) return size;
      at::Tensor t = at::scalar_to_tensor(at::Scalar(size));
      t.unsafeGetTensorImpl()->set_wrapped_number(true);  // a number does not promote dtypes
      return t;
    }
    case Argument::TensorList: {
      c10::List<at::Tensor> list;
      for (const Element& e : a.elements) list.push_back(tensor(e));
      return list;
    }
    case Argument::OptionalTensorList: {
      c10::List<std::optional<at::Tensor>> list;
      for (const Element& e : a.elements)
        list.push_back(e.kind == Element::None ? std::nullopt : std::make_optional(tensor(e)));
      return list;
    }
    case Argument::IntList: {
      c10::List<int64_t> list;
      for (const Element& e : a.elements) list.push_back(e.size.eval(symbols));
      return list;
    }
  }
  TORCH_INTERNAL_ASSERT(false);
}

std::vector<at::Tensor> OpaqueTable::call(uint32_t index, std::span<const at::Tensor> operands,
                                          std::span<const int64_t> symbols) const {
  const Call& call = calls_.at(index);
  if (!call.op) return call_function(call, operands, symbols);
  torch::jit::Stack stack;
  for (const Argument& a : call.args) stack.push_back(load(a, operands, symbols));
  if (call.writes_new) {
    const at::Tensor& like = stack.at(0).toTensor();
    stack[0] = at::empty_strided(like.sizes(), like.strides(), like.options());
  }
  call.op->callBoxed(stack);
  std::vector<at::Tensor> out;
  for (const IValue& v : stack) {
    if (v.isTensor()) {
      if (v.toTensor().defined()) out.push_back(as_result(v.toTensor()));  // a masked-out one: None
    } else if (v.isTensorList()) {
      for (const at::Tensor& t : v.toTensorVector()) out.push_back(as_result(t));
    }
  }
  return out;
}

}  // namespace poot::binding
