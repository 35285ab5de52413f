// The module poot_torch._C.

#include <torch/csrc/utils/pybind.h>

#include "binding/callable.h"
#include "binding/graph_binding.h"
#include "binding/launch_ranges.h"
#include "binding/output_memory.h"
#include "binding/report.h"
#include "binding/torch_cuda.h"
#include "compiler/compile.h"
#include "program/dispatched.h"
#include "runtime/kernel_store.h"

namespace poot::binding {
namespace py = pybind11;
namespace {

// The typed errors, under one base; poot_torch.errors re-exports them.
void bind_errors(py::module_& m) {
  static py::exception<Error> base(m, "PootError", PyExc_RuntimeError);
  static py::exception<InvalidGraph> invalid(m, "InvalidGraph", base.ptr());
  static py::exception<Unsupported> unsupported(m, "Unsupported", base.ptr());
  static py::exception<CompileError> compile(m, "CompileError", base.ptr());
  static py::exception<DeviceError> device(m, "DeviceError", base.ptr());
  static py::exception<InternalError> internal(m, "InternalError", base.ptr());
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const InvalidGraph& e) {
      py::set_error(invalid, e.what());
    } catch (const Unsupported& e) {
      py::set_error(unsupported, e.what());
    } catch (const CompileError& e) {
      py::set_error(compile, e.what());
    } catch (const DeviceError& e) {
      py::set_error(device, e.what());
    } catch (const InternalError& e) {
      py::set_error(internal, e.what());
    } catch (const Error& e) {
      py::set_error(base, e.what());
    }
  });
}

// (callable, report) of one graph whose tensors lie on `device`; on "meta" it is only compiled, and
// the callable is None.
py::tuple compile(const ir::Graph& graph, const passes::Signature& signature,
                  const passes::Options& options, const std::string& target_name,
                  const std::string& device_name, std::shared_ptr<OpaqueTable> calls,
                  bool output_pool, const std::vector<uint32_t>& complex_args,
                  const std::vector<uint32_t>& complex_results, bool capture_libraries,
                  bool matrix_unit) {
  compiler::Compiled compiled;
  auto loaded = std::make_shared<LoadedProgram>();
  loaded->device = c10::Device(device_name);
  loaded->donated.resize(signature.args.size());
  for (const uint32_t arg : signature.donated) loaded->donated.at(arg) = true;
  loaded->complex_args.resize(signature.args.size());
  for (const uint32_t arg : complex_args) loaded->complex_args.at(arg) = true;
  loaded->complex_results.resize(signature.results.size());
  for (const uint32_t result : complex_results) loaded->complex_results.at(result) = true;
  runtime::cuda::CudaDevice* cuda =
      loaded->device.is_cuda() ? &cuda_device(loaded->device.index()) : nullptr;
  {
    py::gil_scoped_release no_gil;
    Target target = !target_name.empty() ? Target::parse(target_name)
                    : cuda               ? target_of(cuda->properties())
                                         : Target::host();
    target.bf16_tiles = target.bf16_tiles && matrix_unit;
    compiled = compiler::compile(graph, signature, target, options);
  }
  py::dict report = report_dict(compiled);
  if (loaded->device.is_meta()) return py::make_tuple(py::none(), report);
  loaded->calls = std::move(calls);
  loaded->host =
      std::make_unique<TorchHost>(loaded->calls, compiled.program, loaded->device, output_pool);
  loaded->shown.resize(signature.args.size());
  for (const program::Result& r : compiled.program.results) {
    if (const auto* a = std::get_if<program::ResultArg>(&r)) loaded->shown.at(a->arg) = true;
    const auto* v = std::get_if<program::ResultView>(&r);
    if (!v) continue;
    const program::Program& p = compiled.program;
    const program::Buffer& b = p.buffers[p.views[v->view.index].buffer.index];
    if (b.cls == program::BufferClass::Input) loaded->shown.at(b.index) = true;
  }
  if (cuda) {
    std::vector<runtime::ModuleId> modules;
    for (const std::string& bytes : compiled.modules) modules.push_back(cuda->load(bytes));
    loaded->executor = std::make_unique<runtime::Executor>(std::move(compiled.program),
                                                           std::move(modules), *loaded->host, *cuda,
                                                           capture_libraries ? cuda : nullptr);
  } else {
    loaded->executor = std::make_unique<runtime::Executor>(
        std::move(compiled.program), std::move(compiled.images), *loaded->host, loaded->donated);
  }
  return py::make_tuple(make_callable(std::move(loaded)), report);
}

void bind_compile(py::module_& m) {
  py::class_<OperandSlot>(m, "OperandSlot")
      .def(py::init<uint32_t, bool>(), py::arg("index"), py::arg("complex") = false);
  py::class_<OpaqueTable, std::shared_ptr<OpaqueTable>>(m, "OpaqueTable")
      .def(py::init<>())
      .def("add", &OpaqueTable::add, py::arg("name"), py::arg("overload"), py::arg("args"),
           py::arg("kwargs"), py::arg("writes_new") = false)
      .def("add_function", &OpaqueTable::add_function, py::arg("name"), py::arg("function"),
           py::arg("arguments"));
  m.def(
      "compile",
      [](const ir::Graph& graph, const passes::Signature& signature,
         std::shared_ptr<OpaqueTable> calls, bool fuse, int64_t memory_limit_bytes,
         const std::string& target, const std::string& device, bool output_pool, bool freeze,
         const std::vector<uint32_t>& complex_args, const std::vector<uint32_t>& complex_results,
         bool capture_libraries, bool matrix_unit, bool deterministic, bool training) {
        passes::Options options;
        options.fuse = fuse;
        options.memory_limit_bytes = memory_limit_bytes;
        options.freeze = freeze;
        options.deterministic = deterministic;
        options.training = training;
        return compile(graph, signature, options, target, device, std::move(calls), output_pool,
                       complex_args, complex_results, capture_libraries, matrix_unit);
      },
      py::arg("graph"), py::arg("signature"), py::arg("calls"), py::arg("fuse") = true,
      py::arg("memory_limit_bytes") = 0, py::arg("target") = "", py::arg("device") = "cpu",
      py::arg("output_pool") = true, py::arg("freeze") = false,
      py::arg("complex_args") = std::vector<uint32_t>(),
      py::arg("complex_results") = std::vector<uint32_t>(), py::arg("capture_libraries") = true,
      py::arg("matrix_unit") = false, py::arg("deterministic") = true, py::arg("training") = false);
  m.def("link_with_nvjitlink", &link_with_nvjitlink, py::arg("paths"));
  m.def(
      "dispatched_reason", [](const std::string& t) { return program::dispatched_reason(t); },
      py::arg("target"), "Why a dispatched operator counts as a library call; empty: a fallback.");
  m.def("warm_up", [] { runtime::KernelStore::instance().warm_up(); });
  m.def("worker_pids", [] { return runtime::KernelStore::instance().worker_pids(); });
  m.def("store_stats", [] {
    const auto s = runtime::KernelStore::instance().stats();
    py::dict d;
    d["compiled"] = s.compiled;
    d["disk"] = s.disk;
    d["memory"] = s.memory;
    d["programs"] = s.records;
    d["worker_restarts"] = s.worker_restarts;
    d["timeouts"] = s.timeouts;
    d["cache_write_failures"] = s.cache_write_failures;
    return d;
  });
  m.def("take_store_events", [] { return runtime::KernelStore::instance().take_events(); });
  m.def("empty_report", &empty_report);
  m.def("begin_launch_profile", &begin_launch_profile);
  m.def("end_launch_profile", &end_launch_profile);
  m.def("output_pool_stats", [] {
    const auto s = binding::output_pool().stats();
    py::dict d;
    d["live_bytes"] = s.live_bytes;
    d["idle_bytes"] = s.idle_bytes;
    d["peak_bytes"] = s.peak_bytes;
    d["reused"] = s.reused;
    d["fresh"] = s.fresh;
    return d;
  });
  m.def("trim_output_pool", [] { binding::output_pool().trim(); });
}

}  // namespace
}  // namespace poot::binding

PYBIND11_MODULE(_C, m) {
  poot::binding::register_callable_type();
  poot::binding::bind_errors(m);
  poot::binding::bind_graph(m);
  poot::binding::bind_compile(m);
}
