// A call: unpack the list (tensors keep their memory alive here, the list is emptied early so that
// the caller's references go), run the executor with the GIL released and below ADInplaceOrView
// (version counters then come out as eager's), wrap the results.

#include "binding/callable.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/DeviceGuard.h>
#include <structmember.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include "binding/torch_types.h"
#include "program/kernel_abi.h"

namespace poot::binding {
namespace py = pybind11;
namespace {

using runtime::ArgumentMismatch;
using runtime::CallArg;
using runtime::CallResult;

constexpr uintptr_t kDeviceAlign = 16;  // what kernels of a GPU rely on

class Call : private runtime::Caller {
 public:
  explicit Call(LoadedProgram& loaded) : loaded_(loaded), program_(loaded.executor->program()) {}

  // Fills the arguments from the list; false with a Python error set.
  bool unpack(PyObject* list) {
    const Py_ssize_t n = static_cast<Py_ssize_t>(program_.args.size());
    if (!PyList_Check(list) || PyList_GET_SIZE(list) != n) {
      PyErr_Format(PyExc_TypeError, "poot: the compiled graph takes a list of %zd arguments", n);
      return false;
    }
    tensors_.resize(n);
    args_.resize(n);
    for (Py_ssize_t i = 0; i < n; ++i)
      if (!unpack_one(i, PyList_GET_ITEM(list, i))) return false;
    return PyList_SetSlice(list, 0, n, nullptr) == 0;
  }

  void run() {
    results_.resize(program_.results.size());
    PackedWeights& packed = loaded_.host->packed_weights();
    if (!packed.empty()) packed.follow(tensors_);
    // Each pass mends one argument, in one of two ways.
    for (size_t pass = 0;; ++pass) {
      try {
        loaded_.executor->run(args_, results_, this);
        for (const auto& [original, copy] : copied_) at::Tensor(original).copy_(copy);
        return;
      } catch (const ArgumentMismatch& e) {
        if (pass >= 2 * args_.size() || !mend(e)) throw;
      }
    }
  }

  PyObject* pack() {
    PyObject* out = PyList_New(static_cast<Py_ssize_t>(results_.size()));
    if (!out) return nullptr;
    for (size_t i = 0; i < results_.size(); ++i) {
      PyObject* o = pack_one(i);
      if (!o) {
        Py_DECREF(out);
        return nullptr;
      }
      PyList_SET_ITEM(out, static_cast<Py_ssize_t>(i), o);
    }
    return out;
  }

 private:
  // Results may be the argument itself, or a view of it.
  void give_up(uint32_t arg) override {
    if (!loaded_.shown[arg]) tensors_[arg] = at::Tensor();
  }

  bool unpack_one(Py_ssize_t i, PyObject* o) {
    if (std::holds_alternative<program::ArgNone>(program_.args[i])) {
      if (THPVariable_Check(o)) tensors_[i] = THPVariable_Unpack(o);
      return true;
    }
    if (std::holds_alternative<program::ArgInt>(program_.args[i])) {
      args_[i].integer = PyLong_AsLongLong(o);
      return !(args_[i].integer == -1 && PyErr_Occurred());
    }
    if (!THPVariable_Check(o)) {
      PyErr_Format(PyExc_TypeError, "poot: argument %zd is %s, the graph was traced with a tensor",
                   i, Py_TYPE(o)->tp_name);
      return false;
    }
    tensors_[i] = THPVariable_Unpack(o);
    at::Tensor& t = tensors_[i];
    if (t.is_neg() || t.is_conj()) t = t.resolve_neg().resolve_conj();
    if (loaded_.complex_args[i]) as_pairs(i);
    if (!loaded_.device.is_cpu()) bring_over(i);
    if (t.layout() != at::kStrided || t.device() != loaded_.device) {
      PyErr_Format(PyExc_RuntimeError, "poot: argument %zd is not a strided tensor on %s", i,
                   loaded_.device.str().c_str());
      return false;
    }
    set_arg(i);
    return true;
  }

  void as_pairs(size_t i) {
    const at::AutoDispatchBelowADInplaceOrView below;
    complex_.emplace_back(i, tensors_[i]);
    if (tensors_[i].is_complex()) tensors_[i] = at::view_as_real(tensors_[i]);
  }

  // The argument as the caller gave it.
  const at::Tensor& given(uint32_t arg) const {
    for (const auto& [i, t] : complex_)
      if (i == arg) return t;
    return tensors_[arg];
  }

  void set_arg(size_t i) {
    const at::Tensor& t = tensors_[i];
    auto& ref = args_[i].tensor;
    ref.data = const_cast<void*>(t.const_data_ptr());
    ref.dtype = from_torch(t.scalar_type());
    ref.sizes = {t.sizes().data(), t.sizes().size()};
    ref.strides = {t.strides().data(), t.strides().size()};
  }

  // A number that lies on the host is copied to the device; what starts where vectors cannot be
  // read, to memory of its own.
  void bring_over(size_t i) {
    at::Tensor& t = tensors_[i];
    const at::NoGradGuard no_grad;
    if (t.device().is_cpu() && t.dim() == 0) {
      t = t.to(loaded_.device, /*non_blocking=*/true);
    } else if (reinterpret_cast<uintptr_t>(t.const_data_ptr()) % kDeviceAlign != 0) {
      int64_t elems = t.numel() == 0 ? 0 : 1;
      for (int64_t d = 0; elems != 0 && d < t.dim(); ++d) elems += (t.size(d) - 1) * t.stride(d);
      const at::Tensor copy = t.as_strided({elems}, {1}).clone().as_strided(t.sizes(), t.strides());
      if (is_updated(static_cast<uint32_t>(i))) copied_.emplace_back(t, copy);
      t = copy;
    }
  }

  // Whether the caller wants to see what the call writes to the argument.
  bool is_updated(uint32_t arg) const {
    const auto* t = std::get_if<program::ArgTensor>(&program_.args[arg]);
    return t && t->mutated && !loaded_.donated[arg];
  }

  // A copy of the argument serves where nobody wants the original written. False if it cannot.
  bool mend(const ArgumentMismatch& e) {
    if (is_updated(e.arg())) return false;
    at::Tensor& tensor = tensors_[e.arg()];
    if (e.what_kind() == ArgumentMismatch::What::Strides)
      tensor = with_strides(tensor, loaded_.executor->wanted_strides(args_, e.arg()));
    else if (e.what_kind() == ArgumentMismatch::What::Overlap)
      tensor = tensor.clone();
    else
      return false;
    set_arg(e.arg());
    return true;
  }

  PyObject* pack_one(size_t i) {
    const program::Result& r = program_.results[i];
    if (const auto* a = std::get_if<program::ResultArg>(&r)) return THPVariable_Wrap(given(a->arg));
    if (std::holds_alternative<program::ResultInt>(r))
      return PyLong_FromLongLong(results_[i].integer);
    if (std::holds_alternative<program::ResultNone>(r)) Py_RETURN_NONE;
    const program::View& v = program_.views[std::get<program::ResultView>(r).view.index];
    const program::Buffer& buffer = program_.buffers[v.buffer.index];
    runtime::HostTensor t = std::move(results_[i].tensor);
    if (buffer.cls == program::BufferClass::Input)
      t.owner = std::make_shared<c10::Storage>(tensors_[buffer.index].storage());
    if (!loaded_.complex_results[i]) return THPVariable_Wrap(wrap(t, to_torch(v.dtype)));
    t.sizes.pop_back();
    t.strides.pop_back();
    for (int64_t& s : t.strides) s /= 2;
    return THPVariable_Wrap(wrap(t, c10::toComplexType(to_torch(v.dtype))));
  }

  LoadedProgram& loaded_;
  const program::Program& program_;
  std::vector<at::Tensor> tensors_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copied_;  // mutated arguments and what stood in
  std::vector<std::pair<size_t, at::Tensor>> complex_;     // complex arguments, by position
  std::vector<CallArg> args_;
  std::vector<CallResult> results_;
};

PyObject* run_boxed(LoadedProgram& loaded, PyObject* list) {
  c10::OptionalDeviceGuard guard;
  if (!loaded.device.is_cpu()) guard.reset_device(loaded.device);
  Call call(loaded);
  if (!call.unpack(list)) return nullptr;
  try {
    py::gil_scoped_release no_gil;
    at::AutoDispatchBelowADInplaceOrView below;
    call.run();
  } catch (const runtime::StatusError& e) {
    if (e.bits() & program::kIndexOutOfRange)
      throw c10::IndexError({__func__, __FILE__, 0}, e.what());
    throw c10::Error({__func__, __FILE__, 0}, e.what());
  }
  return call.pack();
}

// ---- the Python type

struct CallableObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* dict;
  std::shared_ptr<LoadedProgram>* program;
};

PyObject* callable_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kw) {
  HANDLE_TH_ERRORS
  if (PyVectorcall_NARGS(nargsf) != 1 || (kw && PyTuple_GET_SIZE(kw))) {
    PyErr_SetString(PyExc_TypeError, "poot: the compiled graph takes one list");
    return nullptr;
  }
  return run_boxed(**reinterpret_cast<CallableObject*>(self)->program, args[0]);
  END_HANDLE_TH_ERRORS
}

void callable_dealloc(PyObject* self) {
  auto* c = reinterpret_cast<CallableObject*>(self);
  PyTypeObject* type = Py_TYPE(self);
  delete c->program;
  Py_CLEAR(c->dict);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* callable_kept_bytes(PyObject* self, void*) {
  const LoadedProgram& p = **reinterpret_cast<CallableObject*>(self)->program;
  return PyLong_FromUnsignedLongLong(p.executor->kept_bytes());
}

PyGetSetDef callable_getset[] = {
    {"kept_bytes", callable_kept_bytes, nullptr,
     "bytes of transient memory that it keeps between calls", nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMemberDef callable_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CallableObject, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(CallableObject, dict), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot callable_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(callable_dealloc)},
                                {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_getset, callable_getset},
                                {Py_tp_members, callable_members},
                                {0, nullptr}};
PyType_Spec callable_spec = {"poot_torch._C.CompiledGraph", sizeof(CallableObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, callable_slots};
PyTypeObject* callable_type = nullptr;

}  // namespace

void register_callable_type() {
  callable_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&callable_spec));
  if (!callable_type) throw py::error_already_set();
}

py::object make_callable(std::shared_ptr<LoadedProgram> program) {
  auto* c = PyObject_New(CallableObject, callable_type);
  if (!c) throw py::error_already_set();
  c->vectorcall = callable_vectorcall;
  c->dict = nullptr;
  c->program = new std::shared_ptr<LoadedProgram>(std::move(program));
  auto object = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(c));
  object.attr("_boxed_call") = true;
  return object;
}

}  // namespace poot::binding
