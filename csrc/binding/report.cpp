#include "binding/report.h"

namespace poot::binding {
namespace py = pybind11;
namespace {

const char* name(passes::PlanKind k) {
  switch (k) {
    case passes::PlanKind::Generated:
      return "generated";
    case passes::PlanKind::Library:
      return "library";
    case passes::PlanKind::Opaque:
      return "fallback";
    case passes::PlanKind::Alias:
    case passes::PlanKind::None:
      return "none";
  }
  return "none";
}

template <class T, class F>
py::list list_of(const std::vector<T>& items, F&& item) {
  py::list out;
  for (const T& i : items) out.append(item(i));
  return out;
}

py::dict decline(const passes::Decline& d) {
  py::dict out;
  out["pass"] = d.pass;
  out["value"] = d.value;
  out["reason"] = d.reason;
  return out;
}

}  // namespace

py::dict report_dict(const compiler::Compiled& compiled) {
  const compiler::CompileReport& r = compiled.report;
  const auto& origins = compiled.program.origins;
  auto sources = [&](const std::vector<uint32_t>& ids) {
    py::list out;
    for (uint32_t id : ids) {
      py::dict o;
      o["node"] = origins.at(id).node;
      o["source"] = origins.at(id).source;
      out.append(o);
    }
    return out;
  };
  py::dict out, phases;
  for (const auto& p : r.phases) phases[py::str(p.name)] = p.milliseconds;
  out["phases_ms"] = phases;
  out["passes"] = list_of(r.passes, [](const auto& p) {
    py::dict d;
    d["name"] = p.name;
    d["changed"] = p.changed;
    d["ms"] = p.milliseconds;
    d["eqns_after"] = p.eqns_after;
    return d;
  });
  out["fusions"] = list_of(r.fusions, [](const auto& f) {
    py::dict d;
    d["pass"] = f.pass;
    d["kernel"] = f.kernel;
    d["eqns"] = f.eqns;
    return d;
  });
  out["declines"] = list_of(r.declines, decline);
  out["numerical_declines"] = list_of(r.numerical_declines, decline);
  out["ops"] = list_of(r.plans, [&](const auto& p) {
    py::dict d;
    d["class"] = name(p.kind);
    d["op"] = p.op;
    d["kernel"] = p.kernel;
    d["origins"] = sources(p.origins);
    return d;
  });
  out["contractions"] = list_of(r.contractions, [](const auto& c) {
    py::dict d;
    d["value"] = c.value;
    d["class"] = c.generated ? "generated" : "library";
    d["reason"] = c.reason;
    return d;
  });
  out["layout_copies"] = list_of(r.layout_copies, [](const auto& c) {
    py::dict d;
    d["value"] = c.value;
    d["reason"] = c.reason;
    d["bytes"] = c.bytes.str();
    return d;
  });
  out["kernels"] = list_of(r.kernels, [&](const auto& k) {
    py::dict d;
    d["name"] = k.name;
    d["origin"] = k.origin;
    d["ms"] = k.milliseconds;
    d["launches"] = k.launches;
    d["origins"] = sources(k.origins);
    d["events"] = k.events;
    return d;
  });
  out["dispatches_before"] = r.dispatches_before;
  out["dispatches_after"] = r.dispatches_after;
  out["peak_transient_bytes"] = r.peak_transient_bytes;
  return out;
}

py::dict empty_report() {
  return report_dict({});
}

}  // namespace poot::binding
