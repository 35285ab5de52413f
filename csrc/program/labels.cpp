// A kernel is named by what it fuses; its FX nodes and source lines come from the origins of the
// equations that became it.
#include "program/labels.h"

#include <algorithm>

#include "program/dispatched.h"

namespace poot::program {
namespace {

constexpr size_t kMostNodes = 6;

int64_t bytes_of(const Program& p, const std::vector<ViewId>& views,
                 std::span<const int64_t> symbols) {
  int64_t bytes = 0;
  for (const ViewId v : views) {
    if (!v) continue;
    const View& view = p.views[v.index];
    int64_t elems = byte_size(view.dtype);
    for (size_t i = 0; i < view.shape.size(); ++i)
      elems *= view.strides[i].is_const(0) ? 1 : view.shape[i].eval(symbols);
    bytes += elems;
  }
  return bytes;
}

}  // namespace

std::string LaunchLabel::text() const {
  std::string nodes, source;
  for (size_t i = 0; i < std::min(origins.size(), kMostNodes); ++i)
    nodes += (i ? ", " : "") + origins[i]->node;
  if (origins.size() > kMostNodes) nodes += ", ...";
  for (const Origin* o : origins)
    if (!o->source.empty()) source = " " + o->source;  // the last: what the kernel's result is
  return name + (nodes.empty() ? "" : " [" + nodes + "]") + source;
}

std::vector<LaunchLabel> launch_labels(const Program& p) {
  std::vector<LaunchLabel> labels;
  for (const Segment& s : p.segments) {
    for (const Launch& launch : s.launches) {
      LaunchLabel l;
      if (const auto* k = std::get_if<KernelLaunch>(&launch.body)) {
        l.name = p.kernels[k->kernel.index].name;
      } else if (const auto* call = std::get_if<LibraryLaunch>(&launch.body)) {
        l.kind = LaunchKind::Library;
        l.name = library_info(call->op).name;
      } else {
        l.name = std::get<OpaqueLaunch>(launch.body).target;
        const bool listed = !std::string_view(dispatched_reason(l.name)).empty();
        l.kind = listed ? LaunchKind::Library : LaunchKind::Opaque;
      }
      for (const uint32_t o : launch.origins) l.origins.push_back(&p.origins[o]);
      labels.push_back(std::move(l));
    }
  }
  return labels;
}

std::vector<int64_t> launch_traffic(const Program& p, std::span<const int64_t> symbols) {
  std::vector<int64_t> bytes;
  for (const Segment& s : p.segments) {
    for (const Launch& launch : s.launches) {
      if (const auto* k = std::get_if<KernelLaunch>(&launch.body))
        bytes.push_back(k->traffic.eval(symbols));
      else if (const auto* l = std::get_if<LibraryLaunch>(&launch.body))
        bytes.push_back(bytes_of(p, l->inputs, symbols) + bytes_of(p, l->outs, symbols));
      else if (const auto* o = std::get_if<OpaqueLaunch>(&launch.body))
        bytes.push_back(bytes_of(p, o->inputs, symbols) + bytes_of(p, o->outs, symbols));
    }
  }
  return bytes;
}

}  // namespace poot::program
