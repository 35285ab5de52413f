// The readable form of a program: one line a record, launches numbered over all segments as live
// ranges count them. For reports and goldens; it is not read back.
#include <sstream>

#include "program/program.h"

namespace poot::program {

namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

template <class T, class F>
std::string join(const T& items, F&& text) {
  std::string s;
  for (const auto& item : items) s += (s.empty() ? "" : ", ") + text(item);
  return s;
}

std::string buffer_name(BufferId b) {
  return b ? "b" + std::to_string(b.index) : "none";
}
std::string view_name(ViewId v) {
  return v ? "v" + std::to_string(v.index) : "none";
}

std::string_view class_name(BufferClass c) {
  switch (c) {
    case BufferClass::Input:
      return "input";
    case BufferClass::Arena:
      return "arena";
    case BufferClass::Output:
      return "output";
    case BufferClass::Owned:
      return "owned";
    case BufferClass::Const:
      return "const";
  }
  return "?";
}

std::string hex(const std::string& bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string s;
  for (const char c : bytes) {
    const auto b = static_cast<unsigned char>(c);
    s += digits[b >> 4];
    s += digits[b & 15];
  }
  return s;
}

std::string number(double v) {
  std::ostringstream out;
  out.precision(17);
  out << v;
  return out.str();
}

void dump_arg(std::ostream& out, const Arg& arg) {
  std::visit(Overloaded{[&](const ArgTensor& t) {
                          out << name(t.dtype) << str(t.shape) << " strides " << str(t.strides)
                              << (t.mutated ? " mutated" : "");
                        },
                        [&](const ArgInt& i) { out << "int " << i.value.str(); },
                        [&](const ArgNone&) { out << "none"; }},
             arg);
}

void dump_result(std::ostream& out, const Result& result) {
  std::visit(Overloaded{[&](const ResultView& v) { out << view_name(v.view); },
                        [&](const ResultArg& a) { out << "arg " << a.arg; },
                        [&](const ResultInt& i) { out << "int " << i.value.str(); },
                        [&](const ResultNone&) { out << "none"; }},
             result);
}

void dump_launch(std::ostream& out, const Program& p, const LaunchBody& body) {
  std::visit(
      Overloaded{[&](const KernelLaunch& l) {
                   out << "kernel k" << l.kernel.index;
                   if (l.kernel.index < p.kernels.size())
                     out << ' ' << p.kernels[l.kernel.index].name;
                   out << '('
                       << join(l.buffers,
                               [](const KernelLaunch::Slot& s) {
                                 return buffer_name(s.buffer) + (s.byte_offset.is_const(0)
                                                                     ? ""
                                                                     : "+" + s.byte_offset.str());
                               })
                       << ") meta [" << join(l.meta, [](const Dim& d) { return d.str(); })
                       << "] grid [" << join(l.grid, [](const Dim& d) { return d.str(); })
                       << "] cost " << l.block_cost << " traffic " << l.traffic.str();
                 },
                 [&](const LibraryLaunch& l) {
                   out << "library " << library_info(l.op).name << '(' << join(l.inputs, view_name)
                       << ") -> (" << join(l.outs, view_name) << ") ints ["
                       << join(l.ints, [](int64_t v) { return std::to_string(v); }) << "] floats ["
                       << join(l.floats, number) << ']';
                 },
                 [&](const OpaqueLaunch& l) {
                   out << "opaque " << l.target << " call " << l.call << '('
                       << join(l.inputs, view_name) << ") -> (" << join(l.outs, view_name) << ')';
                 }},
      body);
}

void dump_tables(std::ostream& out, const Program& p) {
  for (size_t i = 0; i < p.symbols.size(); ++i) {
    const Symbol& s = p.symbols[i];
    out << "symbol s" << i << " in [" << s.range.lo << ", "
        << (s.range.hi == INT64_MAX ? "inf" : std::to_string(s.range.hi)) << "] hint " << s.hint
        << '\n';
  }
  for (size_t i = 0; i < p.args.size(); ++i) {
    out << "arg " << i << ": ";
    dump_arg(out, p.args[i]);
    out << '\n';
  }
  for (size_t i = 0; i < p.buffers.size(); ++i) {
    const Buffer& b = p.buffers[i];
    out << "buffer b" << i << ": " << class_name(b.cls);
    if (b.cls == BufferClass::Input) out << ' ' << b.index;
    out << ' ' << name(b.dtype) << ' ' << b.bytes.str() << " bytes";
    if (b.cls == BufferClass::Const) {
      out << " data " << hex(b.data);
    } else if (b.cls == BufferClass::Arena || b.cls == BufferClass::Owned) {
      out << " live " << b.first << ".." << b.last;
    }
    out << '\n';
  }
  for (size_t i = 0; i < p.views.size(); ++i) {
    const View& v = p.views[i];
    out << "view v" << i << ": " << buffer_name(v.buffer) << ' ' << name(v.dtype) << str(v.shape)
        << " strides " << str(v.strides) << " offset " << v.offset.str() << '\n';
  }
  for (size_t i = 0; i < p.kernels.size(); ++i) {
    const Kernel& k = p.kernels[i];
    out << "kernel k" << i << ": " << k.name << " buffers " << k.buffers << " meta " << k.meta
        << (k.kir.empty() ? "" : " hash " + k.hash.hex()) << '\n';
  }
}

}  // namespace

std::string dump(const Program& p) {
  std::ostringstream out;
  out << "program " << p.name << " version " << kProgramVersion << '\n';
  dump_tables(out, p);
  uint32_t number = 0;
  for (const Segment& segment : p.segments) {
    out << "segment " << (segment.kind == SegmentKind::Replayable ? "replayable" : "live") << '\n';
    for (const Launch& launch : segment.launches) {
      out << "  " << number++ << ": ";
      dump_launch(out, p, launch.body);
      const std::string from = join(launch.origins, [&](uint32_t o) {
        return o < p.origins.size() ? p.origins[o].node : "?";
      });
      if (!from.empty()) out << " from " << from;
      out << '\n';
    }
  }
  for (size_t i = 0; i < p.results.size(); ++i) {
    out << "result " << i << ": ";
    dump_result(out, p.results[i]);
    out << '\n';
  }
  for (const Origin& o : p.origins) out << "origin " << o.node << ": " << o.source << '\n';
  return out.str();
}

}  // namespace poot::program
