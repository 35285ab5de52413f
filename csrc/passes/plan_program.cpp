// Buffers live from the first to the last launch that touches them, launches being numbered in
// order over all segments; results read at the end, so what they show lives to the last launch.
// Neighbouring launches that replay without the host share a segment.
#include "passes/plan_program.h"

#include <algorithm>

namespace poot::passes {

using namespace program;

BufferId ProgramWriter::add_buffer(Buffer b) {
  program_.buffers.push_back(std::move(b));
  return BufferId(static_cast<uint32_t>(program_.buffers.size() - 1));
}

BufferId ProgramWriter::constant(DType dtype, std::string bytes) {
  const std::string key = std::string(name(dtype)) + ":" + bytes;
  const auto [it, fresh] =
      constants_.try_emplace(key, static_cast<uint32_t>(program_.buffers.size()));
  if (fresh) {
    Buffer b{BufferClass::Const, 0, dtype, Dim(static_cast<int64_t>(bytes.size()))};
    b.data = std::move(bytes);
    add_buffer(std::move(b));
  }
  return BufferId(it->second);
}

ViewId ProgramWriter::view(View v) {
  const std::string key = std::to_string(v.buffer.index) + std::string(name(v.dtype)) +
                          str(v.shape) + str(v.strides) + v.offset.str();
  const auto [it, fresh] = views_.try_emplace(key, static_cast<uint32_t>(program_.views.size()));
  if (fresh) program_.views.push_back(std::move(v));
  return ViewId(it->second);
}

KernelId ProgramWriter::kernel(KernelRequest request) {
  const auto [it, fresh] =
      kernels_.try_emplace(request.str(), static_cast<uint32_t>(requests_.size()));
  if (fresh) {
    program_.kernels.push_back(Kernel{request.name, {}, {}, 0, 0});
    requests_.push_back(std::move(request));
  }
  return KernelId(it->second);
}

void ProgramWriter::launch(LaunchBody body, std::vector<uint32_t> origins) {
  launches_.push_back({std::move(body), std::move(origins)});
}

void ProgramWriter::finish() {
  for (const Launch& l : launches_) {
    const auto* k = std::get_if<KernelLaunch>(&l.body);
    if (k) program_.kernels[k->kernel.index].buffers = static_cast<uint32_t>(k->buffers.size());
  }
  set_classes();
  set_live_ranges();
  set_segments();
}

void ProgramWriter::set_classes() {
  std::vector<bool> shown(program_.buffers.size(), false);
  for (const Result& r : program_.results) {
    if (const auto* v = std::get_if<ResultView>(&r))
      shown[program_.views[v->view.index].buffer.index] = true;
  }
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    Buffer& b = program_.buffers[i];
    if (b.cls == BufferClass::Output && !shown[i]) b.cls = BufferClass::Arena;
    if (b.cls == BufferClass::Arena && shown[i]) b.cls = BufferClass::Output;
  }
}

void ProgramWriter::set_live_ranges() {
  std::vector<bool> touched(program_.buffers.size(), false);
  uint32_t now = 0;
  auto touch = [&](BufferId id) {
    Buffer& b = program_.buffers[id.index];
    if (!touched[id.index]) b.first = now;
    touched[id.index] = true;
    b.last = now;
  };
  auto touch_view = [&](ViewId v) {
    if (v) touch(program_.views[v.index].buffer);
  };
  for (const Launch& launch : launches_) {
    if (const auto* k = std::get_if<KernelLaunch>(&launch.body)) {
      for (const KernelLaunch::Slot& s : k->buffers) touch(s.buffer);
    } else if (const auto* l = std::get_if<LibraryLaunch>(&launch.body)) {
      for (const ViewId v : l->inputs) touch_view(v);
      for (const ViewId v : l->outs) touch_view(v);
    } else if (const auto* o = std::get_if<OpaqueLaunch>(&launch.body)) {
      for (const ViewId v : o->inputs) touch_view(v);
      for (const ViewId v : o->outs) touch_view(v);
    }
    ++now;
  }
  if (now > 0) --now;  // results are read after the last launch
  for (const Result& r : program_.results) {
    if (const auto* v = std::get_if<ResultView>(&r))
      program_.buffers[program_.views[v->view.index].buffer.index].last = now;
  }
}

void ProgramWriter::set_segments() {
  auto is_live = [](const Launch& l) {
    if (const auto* lib = std::get_if<LibraryLaunch>(&l.body))
      return !library_info(lib->op).out_variant;
    return std::holds_alternative<OpaqueLaunch>(l.body);
  };
  for (Launch& l : launches_) {
    const SegmentKind kind = is_live(l) ? SegmentKind::Live : SegmentKind::Replayable;
    if (program_.segments.empty() || program_.segments.back().kind != kind)
      program_.segments.push_back({kind, {}});
    program_.segments.back().launches.push_back(std::move(l));
  }
  launches_.clear();
}

Dim ProgramWriter::peak_transient_bytes() const {
  std::vector<bool> shown(program_.buffers.size(), false);
  for (const Result& r : program_.results) {
    if (const auto* v = std::get_if<ResultView>(&r))
      shown[program_.views[v->view.index].buffer.index] = true;
  }
  uint32_t launches = 0;
  for (const Segment& s : program_.segments) launches += static_cast<uint32_t>(s.launches.size());
  std::vector<int64_t> change(launches + 1, 0);  // bytes that begin or end before a launch
  auto transient = [&](size_t i) {
    const BufferClass c = program_.buffers[i].cls;
    return c == BufferClass::Arena || (c == BufferClass::Owned && !shown[i]);
  };
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const Buffer& b = program_.buffers[i];
    if (!transient(i) || b.last >= launches) continue;
    const int64_t bytes = b.bytes.hint(program_.symbols);
    change[b.first] += bytes;
    change[b.last + 1] -= bytes;
  }
  int64_t live = 0, worst = 0;
  uint32_t at = 0;
  for (uint32_t l = 0; l < launches; ++l) {
    live += change[l];
    if (live > worst) {
      worst = live;
      at = l;
    }
  }
  Dim sum = 0;
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const Buffer& b = program_.buffers[i];
    if (transient(i) && b.first <= at && at <= b.last && launches > 0) sum += b.bytes;
  }
  return sum;
}

}  // namespace poot::passes
