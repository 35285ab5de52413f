// The structural check of a program (program-C2): what the executor relies on and does not test
// again. Ids in range, launch numbers inside live ranges, owned memory defined once and before use,
// call shapes that the kernel and library tables promise, symbols that the arguments bind.
#include "program/program.h"
#include "support/errors.h"

namespace poot::program {

namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& detail) {
  throw InvalidGraph("program-C2", where, detail);
}

class Checker {
 public:
  explicit Checker(const Program& p) : p_(p) {}

  void run() {
    for (const Segment& s : p_.segments) launches_ += static_cast<uint32_t>(s.launches.size());
    bind_symbols();
    for (size_t i = 0; i < p_.buffers.size(); ++i) buffer(i);
    for (size_t i = 0; i < p_.views.size(); ++i) view(i);
    defined_.assign(p_.buffers.size(), false);
    for (const Segment& s : p_.segments) segment(s);
    for (size_t i = 0; i < p_.results.size(); ++i) result(i);
  }

 private:
  void bind_symbols() {
    bound_.assign(p_.symbols.size(), false);
    auto bind = [&](const Dim& d, const std::string& where) {
      in_table(d, where);
      if (const auto linear = d.linear()) bound_[linear->symbol] = true;
    };
    for (size_t i = 0; i < p_.args.size(); ++i) {
      const std::string where = "argument " + std::to_string(i);
      if (const auto* t = std::get_if<ArgTensor>(&p_.args[i])) {
        if (t->shape.size() != t->strides.size()) refuse(where, "shape and strides differ in rank");
        for (const Dim& d : t->shape) bind(d, where);
        for (const Dim& d : t->strides) bind(d, where);
      } else if (const auto* n = std::get_if<ArgInt>(&p_.args[i])) {
        bind(n->value, where);
      }
    }
  }

  void in_table(const Dim& d, const std::string& where) const {
    std::vector<uint32_t> used;
    d.collect_symbols(used);
    for (const uint32_t s : used) {
      if (s >= p_.symbols.size()) refuse(where, "symbol s" + std::to_string(s) + " is unknown");
    }
  }
  void known(const Dim& d, const std::string& where) const {
    in_table(d, where);
    std::vector<uint32_t> used;
    d.collect_symbols(used);
    for (const uint32_t s : used) {
      if (!bound_[s]) refuse(where, "no argument binds symbol s" + std::to_string(s));
    }
  }

  void buffer(size_t i) const {
    const Buffer& b = p_.buffers[i];
    const std::string where = "b" + std::to_string(i);
    known(b.bytes, where);
    switch (b.cls) {
      case BufferClass::Input:
        if (b.index >= p_.args.size() || !std::holds_alternative<ArgTensor>(p_.args[b.index]))
          refuse(where, "argument " + std::to_string(b.index) + " is no tensor");
        break;
      case BufferClass::Const:
        if (!b.bytes.is_const(static_cast<int64_t>(b.data.size())))
          refuse(where,
                 "holds " + std::to_string(b.data.size()) + " bytes, declares " + b.bytes.str());
        break;
      case BufferClass::Arena:
      case BufferClass::Owned:
        if (b.first > b.last || b.last >= launches_) refuse(where, "live range out of order");
        break;
      case BufferClass::Output:
        break;
    }
    if (b.cls != BufferClass::Const && !b.data.empty()) refuse(where, "only constants hold data");
  }

  void view(size_t i) const {
    const View& v = p_.views[i];
    const std::string where = "v" + std::to_string(i);
    if (v.buffer.index >= p_.buffers.size()) refuse(where, "buffer out of range");
    if (v.shape.size() != v.strides.size()) refuse(where, "shape and strides differ in rank");
    for (const Dim& d : v.shape) known(d, where);
    for (const Dim& d : v.strides) known(d, where);
    known(v.offset, where);
  }

  void use(BufferId id, const std::string& where) {
    if (id.index >= p_.buffers.size()) refuse(where, "buffer out of range");
    const Buffer& b = p_.buffers[id.index];
    const bool transient = b.cls == BufferClass::Arena || b.cls == BufferClass::Owned;
    if (transient && (now_ < b.first || now_ > b.last)) {
      refuse(where, "b" + std::to_string(id.index) + " lives " + std::to_string(b.first) + ".." +
                        std::to_string(b.last));
    }
    if (b.cls == BufferClass::Owned && !defined_[id.index])
      refuse(where, "b" + std::to_string(id.index) + " has no memory yet");
  }
  BufferId of(ViewId v, const std::string& where) const {
    if (v.index >= p_.views.size()) refuse(where, "view out of range");
    return p_.views[v.index].buffer;
  }
  void define(ViewId v, bool owned, const std::string& where) {
    const BufferId id = of(v, where);
    const Buffer& b = p_.buffers[id.index];
    if ((b.cls == BufferClass::Owned) != owned)
      refuse(where, "result b" + std::to_string(id.index) + " is of the wrong class");
    if (b.cls == BufferClass::Const) refuse(where, "writes a constant");
    if (!owned) return use(id, where);
    if (defined_[id.index]) refuse(where, "b" + std::to_string(id.index) + " is defined twice");
    if (b.first != now_) refuse(where, "b" + std::to_string(id.index) + " starts elsewhere");
    defined_[id.index] = true;
  }

  void segment(const Segment& s) {
    for (const Launch& l : s.launches) {
      const std::string where = "launch " + std::to_string(now_);
      for (const uint32_t o : l.origins) {
        if (o >= p_.origins.size()) refuse(where, "origin out of range");
      }
      const bool live = std::visit([&](const auto& body) { return launch(body, where); }, l.body);
      if (live && s.kind == SegmentKind::Replayable)
        refuse(where, "is live in a replayable segment");
      ++now_;
    }
  }

  // Each returns whether the launch may stand in live segments only.
  bool launch(const KernelLaunch& l, const std::string& where) {
    if (l.kernel.index >= p_.kernels.size()) refuse(where, "kernel out of range");
    const Kernel& k = p_.kernels[l.kernel.index];
    if (l.buffers.size() != k.buffers) refuse(where, "buffer count differs from the kernel's");
    if (l.meta.size() != k.meta) refuse(where, "metadata count differs from the kernel's");
    for (const KernelLaunch::Slot& s : l.buffers) {
      use(s.buffer, where);
      known(s.byte_offset, where);
    }
    for (const Dim& d : l.meta) known(d, where);
    for (const Dim& d : l.grid) known(d, where);
    known(l.traffic, where);
    return false;
  }
  bool launch(const LibraryLaunch& l, const std::string& where) {
    const LibraryInfo& info = library_info(l.op);
    for (const ViewId v : l.inputs) {
      if (v) use(of(v, where), where);
    }
    if (l.outs.empty()) refuse(where, "a library call without results");
    for (const ViewId v : l.outs) define(v, !info.out_variant, where);
    return !info.out_variant;
  }
  bool launch(const OpaqueLaunch& l, const std::string& where) {
    for (const ViewId v : l.inputs) {
      if (v) use(of(v, where), where);
    }
    for (const ViewId v : l.outs) define(v, true, where);
    return true;
  }

  void result(size_t i) const {
    const std::string where = "result " + std::to_string(i);
    if (const auto* v = std::get_if<ResultView>(&p_.results[i])) {
      const BufferId id = of(v->view, where);
      const BufferClass c = p_.buffers[id.index].cls;
      if (c == BufferClass::Arena) refuse(where, "a transient is no result");
      if (c == BufferClass::Owned && !defined_[id.index]) refuse(where, "was never computed");
    } else if (const auto* a = std::get_if<ResultArg>(&p_.results[i])) {
      if (a->arg >= p_.args.size()) refuse(where, "argument out of range");
    } else if (const auto* n = std::get_if<ResultInt>(&p_.results[i])) {
      known(n->value, where);
    }
  }

  const Program& p_;
  uint32_t launches_ = 0, now_ = 0;
  std::vector<bool> bound_, defined_;
};

}  // namespace

void check(const Program& p) {
  Checker(p).run();
}

}  // namespace poot::program
