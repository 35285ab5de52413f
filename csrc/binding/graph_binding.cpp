// Python's view of the graph IR: Dim, Builder, Graph and Signature, as the importer uses them.
//
// Conversions are decided by tables, not by op names: `emit` reads the op's row for the attributes
// and their types, so a new op needs no change here. A constant Dim is a Python int on the way
// out, and an int is accepted wherever a Dim is.
#include <pybind11/operators.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <limits>

#include "ir/graph.h"
#include "passes/plan.h"

namespace py = pybind11;

namespace poot::binding {
namespace {

using ir::AttrType;
using ir::Builder;
using ir::ValueId;

// A value of the graph under construction; distinct from int so that a literal is never mistaken
// for one.
struct Value {
  uint32_t index;
};

py::object dim_out(const Dim& d) {
  return d.is_const() ? py::cast(d.value()) : py::cast(d);
}

Dim dim_in(py::handle h) {
  if (py::isinstance<Dim>(h)) return h.cast<Dim>();
  return Dim(h.cast<int64_t>());
}

Shape shape_in(py::handle h) {
  Shape shape;
  for (py::handle d : h) shape.push_back(dim_in(d));
  return shape;
}

py::tuple shape_out(const Shape& shape) {
  py::tuple t(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) t[i] = dim_out(shape[i]);
  return t;
}

DType dtype_in(py::handle h) {
  auto text = h.cast<std::string>();
  auto d = dtype_from_name(text);
  if (!d) throw py::value_error("unknown dtype '" + text + "'");
  return *d;
}

ir::Attr attr_in(const ir::AttrInfo& info, py::handle h) {
  switch (info.type) {
    case AttrType::Int:
      return h.cast<int64_t>();
    case AttrType::Float:
      return h.cast<double>();
    case AttrType::Bool:
      return h.cast<bool>();
    case AttrType::DType:
      return dtype_in(h);
    case AttrType::Str:
      return h.cast<std::string>();
    case AttrType::Ints:
      return h.cast<std::vector<int64_t>>();
    case AttrType::Floats:
      return h.cast<std::vector<double>>();
    case AttrType::Dim:
      return dim_in(h);
    case AttrType::Dims:
      return shape_in(h);
  }
  throw InternalError("attribute type out of range");
}

// Attributes in the order of the op's row; every given name must be in the row.
std::vector<ir::Attr> attrs_in(const ir::OpInfo& info, const py::dict& given) {
  std::vector<ir::Attr> attrs;
  size_t used = 0;
  for (const ir::AttrInfo& a : info.attrs) {
    py::str key(std::string(a.name));
    if (given.contains(key)) {
      attrs.push_back(attr_in(a, given[key]));
      ++used;
    } else if (a.optional) {
      attrs.emplace_back();
    } else {
      throw py::type_error(std::string(info.name) + ": attribute '" + std::string(a.name) +
                           "' is missing");
    }
  }
  if (used != given.size())
    throw py::type_error(std::string(info.name) + ": unknown attribute among " +
                         py::str(given.attr("keys")()).cast<std::string>());
  return attrs;
}

ir::Operand operand_in(py::handle h) {
  if (py::isinstance<Value>(h)) return ValueId(h.cast<Value>().index);
  return h.cast<ir::Scalar>();
}

std::vector<ir::Operand> operands_in(const py::iterable& list) {
  std::vector<ir::Operand> operands;
  for (py::handle h : list) operands.push_back(operand_in(h));
  return operands;
}

ir::OpCode op_in(const std::string& name) {
  auto op = ir::op_from_name(name);
  if (!op) throw py::value_error("unknown op '" + name + "'");
  return *op;
}

ir::Scalar literal(const std::string& dtype, const py::object& number) {
  DType d = dtype_in(py::str(dtype));
  if (is_float(d)) return ir::Scalar::of(d, number.cast<double>());
  if (py::isinstance<py::float_>(number)) return ir::Scalar::of(d, number.cast<double>());
  return ir::Scalar::of(d, static_cast<int64_t>(number.cast<int64_t>()));
}

ir::Identity identity_in(const py::object& o) {
  if (o.is_none()) return ir::Anonymous{};
  auto [kind, text] = o.cast<std::pair<std::string, std::string>>();
  if (kind == "weight") return ir::WeightRef{text};
  if (kind == "named") return ir::Named{text};
  if (kind == "slot") return ir::SlotKey{text};
  throw py::value_error("unknown identity '" + kind + "'");
}

ir::Storage storage_in(const std::string& s) {
  if (s == "device") return ir::Storage::Device;
  if (s == "const") return ir::Storage::Const;
  if (s == "slot") return ir::Storage::Slot;
  if (s == "state") return ir::Storage::State;
  throw py::value_error("unknown storage '" + s + "'");
}

ir::OutputKind output_kind_in(const std::string& s) {
  if (s == "result") return ir::OutputKind::Result;
  if (s == "state") return ir::OutputKind::StateNext;
  if (s == "witness") return ir::OutputKind::Witness;
  if (s == "export") return ir::OutputKind::Export;
  throw py::value_error("unknown output kind '" + s + "'");
}

Value builder_input(Builder& b, const std::string& dtype, const py::iterable& shape,
                    const py::object& strides, const std::string& storage,
                    const py::object& identity, const py::object& offset) {
  ir::TensorType type{dtype_in(py::str(dtype)), shape_in(shape)};
  std::optional<ir::Layout> layout;
  if (!strides.is_none()) {
    layout = ir::Layout{shape_in(strides), dim_in(offset), 1};
    layout->align = static_cast<uint32_t>(byte_size(type.dtype));
  }
  return {b.input(std::move(type), storage_in(storage), identity_in(identity), layout).index};
}

// One result is a Value, several are a tuple.
py::object builder_emit(Builder& b, const std::string& name, const py::iterable& operands,
                        const py::kwargs& attrs) {
  ir::OpCode op = op_in(name);
  auto outs = b.emit_multi(op, operands_in(operands), attrs_in(ir::op_info(op), attrs));
  if (outs.size() == 1) return py::cast(Value{outs[0].index});
  py::tuple t(outs.size());
  for (size_t i = 0; i < outs.size(); ++i) t[i] = py::cast(Value{outs[i].index});
  return t;
}

void builder_output(Builder& b, Value v, const std::string& kind, const std::optional<Value>& state,
                    const py::object& strides) {
  std::optional<ir::Layout> layout;
  if (!strides.is_none()) layout = ir::Layout{shape_in(strides), 0, 1};
  b.output(ValueId(v.index), output_kind_in(kind), state ? ValueId(state->index) : ValueId(),
           layout);
}

void bind_dim(py::module_& m) {
  auto other = [](auto fn, bool swapped) {
    return [fn, swapped](const Dim& a, const py::object& o) {
      Dim b = dim_in(o);
      return dim_out(swapped ? fn(b, a) : fn(a, b));
    };
  };
  auto add = [](const Dim& a, const Dim& b) { return a + b; };
  auto sub = [](const Dim& a, const Dim& b) { return a - b; };
  auto mul = [](const Dim& a, const Dim& b) { return a * b; };
  py::class_<Dim>(m, "Dim", "A size: a constant or an expression over the graph's symbols.")
      .def(py::init<int64_t>())
      .def_static("symbol", &Dim::symbol, py::arg("index"))
      .def_static("parse", [](const std::string& text) { return Dim::parse(text); })
      .def("__add__", other(add, false))
      .def("__radd__", other(add, true))
      .def("__sub__", other(sub, false))
      .def("__rsub__", other(sub, true))
      .def("__mul__", other(mul, false))
      .def("__rmul__", other(mul, true))
      .def("__floordiv__", other(&Dim::floordiv, false))
      .def("__rfloordiv__", other(&Dim::floordiv, true))
      .def("__mod__", other(&Dim::mod, false))
      .def("__rmod__", other(&Dim::mod, true))
      .def("__neg__", [](const Dim& a) { return dim_out(Dim(0) - a); })
      .def("__eq__",
           [](const Dim& a, const py::object& o) {
             if (!py::isinstance<Dim>(o) && !py::isinstance<py::int_>(o)) return false;
             return a == dim_in(o);
           })
      .def("__hash__", &Dim::hash)
      .def("__str__", &Dim::str)
      .def("__repr__", [](const Dim& a) { return "Dim(" + a.str() + ")"; })
      .def("divisible_by", &Dim::divisible_by)
      .def("eval",
           [](const Dim& a, const std::vector<int64_t>& symbols) { return a.eval(symbols); });
  m.def("dim_max", [](const py::object& a, const py::object& b) {
    return dim_out(Dim::max(dim_in(a), dim_in(b)));
  });
  m.def("dim_min", [](const py::object& a, const py::object& b) {
    return dim_out(Dim::min(dim_in(a), dim_in(b)));
  });
}

void bind_values(py::module_& m) {
  py::class_<Value>(m, "Value", "A value of the graph under construction.")
      .def_readonly("index", &Value::index)
      .def("__eq__",
           [](const Value& a, const py::object& o) {
             return py::isinstance<Value>(o) && o.cast<Value>().index == a.index;
           })
      .def("__hash__", [](const Value& a) { return a.index; })
      .def("__repr__", [](const Value& a) { return "%" + std::to_string(a.index); });
  py::class_<ir::Scalar>(m, "Literal", "A typed scalar, rounded to its dtype.")
      .def(py::init(&literal), py::arg("dtype"), py::arg("number"))
      .def_property_readonly("dtype",
                             [](const ir::Scalar& s) { return std::string(name(s.dtype)); })
      .def_property_readonly("number",
                             [](const ir::Scalar& s) -> py::object {
                               if (is_float(s.dtype)) return py::cast(s.as_double());
                               return py::cast(s.as_int());
                             })
      .def("__repr__", [](const ir::Scalar& s) { return "Literal(" + s.str() + ")"; });
}

void bind_builder(py::module_& m) {
  py::class_<ir::Graph, std::shared_ptr<ir::Graph>>(m, "Graph", "A verified graph.")
      .def_property_readonly("text", &ir::Graph::str)
      .def_property_readonly("name", &ir::Graph::name)
      .def("__len__", [](const ir::Graph& g) { return g.eqns().size(); })
      .def("__str__", &ir::Graph::str);
  py::class_<Builder>(m, "Builder")
      .def(py::init([](const std::string& name) { return Builder(name); }),
           py::arg("name") = "graph")
      .def(
          "add_symbol",
          [](Builder& b, int64_t lo, std::optional<int64_t> hi, int64_t hint) {
            Range range{lo, hi.value_or(std::numeric_limits<int64_t>::max())};
            return Dim::symbol(b.add_symbol(Symbol{range, hint}));
          },
          py::arg("lo"), py::arg("hi"), py::arg("hint"))
      .def("input", &builder_input, py::arg("dtype"), py::arg("shape"),
           py::arg("strides") = py::none(), py::arg("storage") = "device",
           py::arg("identity") = py::none(), py::arg("offset") = 0)
      .def("origin",
           [](Builder& b, std::string node, std::string source) {
             return b.origin({std::move(node), std::move(source)});
           })
      .def("set_origins", &Builder::set_origins)
      .def("begin_group",
           [](Builder& b, const std::string& kind, const py::iterable& operands,
              const py::kwargs& attrs) {
             b.begin_group(kind, operands_in(operands), attrs_in(ir::op_info(op_in(kind)), attrs));
           })
      .def("end_group",
           [](Builder& b, const std::vector<Value>& results) {
             std::vector<ValueId> ids;
             for (Value v : results) ids.push_back(ValueId(v.index));
             b.end_group(std::move(ids));
           })
      .def("emit", &builder_emit)
      .def("type",
           [](const Builder& b, Value v) {
             const ir::TensorType& t = b.type(ValueId(v.index));
             return py::make_tuple(std::string(name(t.dtype)), shape_out(t.shape));
           })
      .def("range",
           [](const Builder& b, const py::object& d) {
             Range r = dim_in(d).range(b.peek().symbols());
             return py::make_tuple(r.lo, r.hi);
           })
      .def("output", &builder_output, py::arg("value"), py::arg("kind") = "result",
           py::arg("state") = py::none(), py::arg("strides") = py::none())
      .def("finish", [](Builder& b) { return std::make_shared<ir::Graph>(b.finish()); });
}

void bind_signature(py::module_& m) {
  using passes::Signature;
  using passes::SignatureArg;
  using passes::SignatureResult;
  py::class_<Signature>(m, "Signature",
                        "How the callable's arguments and results map to the graph.")
      .def(py::init<>())
      .def("tensor_arg",
           [](Signature& s, Value v) {
             s.args.push_back({SignatureArg::Kind::Tensor, ValueId(v.index), Dim()});
           })
      .def("int_arg",
           [](Signature& s, const py::object& d) {
             s.args.push_back({SignatureArg::Kind::Int, ValueId(), dim_in(d)});
           })
      .def("none_arg", [](Signature& s) { s.args.emplace_back(); })
      .def(
          "tensor_result",
          [](Signature& s, uint32_t output, uint32_t base, bool of_argument) {
            s.results.push_back(
                {SignatureResult::Kind::Tensor, output, Dim(), 0, base, of_argument});
          },
          py::arg("output"), py::arg("base"), py::arg("of_argument"),
          "Results of one base may share memory; of_argument: the base is an argument.")
      .def("arg_result",
           [](Signature& s, uint32_t arg) {
             s.results.push_back({SignatureResult::Kind::Arg, 0, Dim(), arg});
           })
      .def("constant",
           [](Signature& s, Value v, const py::bytes& data) {
             s.constants.push_back({ValueId(v.index), std::string(data)});
           })
      .def("int_result",
           [](Signature& s, const py::object& d) {
             s.results.push_back({SignatureResult::Kind::Int, 0, dim_in(d)});
           })
      .def("none_result", [](Signature& s) { s.results.emplace_back(); })
      .def_readwrite("donated", &Signature::donated)
      .def("__len__", [](const Signature& s) { return s.args.size(); });
}

}  // namespace

void bind_graph(py::module_& m) {
  bind_dim(m);
  bind_values(m);
  bind_builder(m);
  bind_signature(m);
}

}  // namespace poot::binding
