// Programs as bytes: magic, version, the records in declaration order, a 128-bit content hash of
// all before it. One list of fields a record serves both directions, so writer and reader cannot
// drift apart. Dims travel as their text, which has one canonical form.
//
// The hash is compared first; whatever it lets through is still read with every tag and count
// checked, so that a well-hashed foreign record is refused and never read past its end.
#include <array>
#include <utility>

#include "program/program.h"
#include "support/bytes.h"
#include "support/errors.h"

namespace poot::program {

namespace {

constexpr uint32_t kMagic = 0x67727070;  // "pprg"

class Writer {
 public:
  static constexpr bool reading = false;
  template <class T>
    requires std::is_arithmetic_v<T>
  void operator()(T& v) {
    out.put(v);
  }
  template <class E>
    requires std::is_enum_v<E>
  void enumeration(E& v, uint32_t) {
    out.put(static_cast<uint8_t>(v));
  }
  void operator()(std::string& s) { out.put_string(s); }
  void operator()(Dim& d) { out.put_string(d.str()); }
  ByteWriter out;
};

class Reader {
 public:
  static constexpr bool reading = true;
  explicit Reader(std::string_view bytes) : in(bytes) {}
  template <class T>
    requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
  void operator()(T& v) {
    v = in.get<T>();
  }
  void operator()(bool& v) { v = tag(2) != 0; }
  template <class E>
    requires std::is_enum_v<E>
  void enumeration(E& v, uint32_t count) {
    v = static_cast<E>(tag(count));
  }
  void operator()(std::string& s) { s = std::string(in.get_string()); }
  void operator()(Dim& d) { d = Dim::parse(in.get_string()); }
  uint8_t tag(uint32_t count) {
    const auto t = in.get<uint8_t>();
    if (t >= count) throw InvalidGraph("program-C1", "tag", std::to_string(t) + " is unknown");
    return t;
  }
  ByteReader in;
};

template <class A, class Tag>
void io(A& a, Id<Tag>& id) {
  a(id.index);
}
template <class A, class T>
  requires(std::is_arithmetic_v<T> || std::is_same_v<T, std::string> || std::is_same_v<T, Dim>)
void io(A& a, T& v) {
  a(v);
}
template <class A>
void io(A& a, DType& d) {
  a.enumeration(d, static_cast<uint32_t>(DType::C128) + 1);
}
template <class A>
void io(A& a, Buffer& b);
template <class A>
void io(A& a, View& v);
template <class A>
void io(A& a, Kernel& k);
template <class A>
void io(A& a, KernelLaunch::Slot& s);
template <class A>
void io(A& a, KernelLaunch& l);
template <class A>
void io(A& a, LibraryLaunch& l);
template <class A>
void io(A& a, OpaqueLaunch& l);
template <class A>
void io(A& a, Launch& l);
template <class A>
void io(A& a, Segment& s);
template <class A>
void io(A& a, ArgTensor& t);
template <class A>
void io(A& a, ArgInt& i);
template <class A>
void io(A&, ArgNone&) {}
template <class A>
void io(A& a, ResultView& v);
template <class A>
void io(A& a, ResultArg& r);
template <class A>
void io(A& a, ResultInt& r);
template <class A>
void io(A&, ResultNone&) {}
template <class A>
void io(A& a, Origin& o);
template <class A>
void io(A& a, Symbol& s);

template <class A, class T>
void io(A& a, std::vector<T>& v) {
  auto n = static_cast<uint32_t>(v.size());
  a(n);
  for (uint32_t i = 0; i < n; ++i) {
    if constexpr (A::reading) v.emplace_back();  // grows with the input, so a damaged count is safe
    io(a, v[i]);
  }
}

template <class A, class... T>
void io(A& a, std::variant<T...>& v) {
  if constexpr (A::reading) {
    const uint8_t tag = a.tag(sizeof...(T));
    uint8_t i = 0;
    ((i++ == tag ? (void)(v = T{}) : void()), ...);
  } else {
    auto tag = static_cast<uint8_t>(v.index());
    a(tag);
  }
  std::visit([&](auto& alternative) { io(a, alternative); }, v);
}

template <class A, class... T>
void fields(A& a, T&... v) {
  (io(a, v), ...);
}

template <class A>
void io(A& a, Buffer& b) {
  a.enumeration(b.cls, static_cast<uint32_t>(BufferClass::Const) + 1);
  fields(a, b.index, b.dtype, b.bytes, b.first, b.last, b.data);
}
template <class A>
void io(A& a, View& v) {
  fields(a, v.buffer, v.dtype, v.shape, v.strides, v.offset);
}
template <class A>
void io(A& a, Kernel& k) {
  fields(a, k.name, k.kir, k.hash.lo, k.hash.hi, k.buffers, k.meta);
}
template <class A>
void io(A& a, KernelLaunch::Slot& s) {
  fields(a, s.buffer, s.byte_offset);
}
template <class A>
void io(A& a, KernelLaunch& l) {
  fields(a, l.kernel, l.buffers, l.meta, l.grid[0], l.grid[1], l.grid[2], l.block_cost, l.traffic);
}
template <class A>
void io(A& a, LibraryLaunch& l) {
  a.enumeration(l.op, kLibraryOpCount);
  fields(a, l.inputs, l.outs, l.ints, l.floats);
}
template <class A>
void io(A& a, OpaqueLaunch& l) {
  fields(a, l.call, l.target, l.inputs, l.outs);
}
template <class A>
void io(A& a, Launch& l) {
  fields(a, l.body, l.origins);
}
template <class A>
void io(A& a, Segment& s) {
  a.enumeration(s.kind, static_cast<uint32_t>(SegmentKind::Live) + 1);
  fields(a, s.launches);
}
template <class A>
void io(A& a, ArgTensor& t) {
  fields(a, t.dtype, t.shape, t.strides, t.mutated);
}
template <class A>
void io(A& a, ArgInt& i) {
  fields(a, i.value);
}
template <class A>
void io(A& a, ResultView& v) {
  fields(a, v.view);
}
template <class A>
void io(A& a, ResultArg& r) {
  fields(a, r.arg);
}
template <class A>
void io(A& a, ResultInt& r) {
  fields(a, r.value);
}
template <class A>
void io(A& a, Origin& o) {
  fields(a, o.node, o.source);
}
template <class A>
void io(A& a, Symbol& s) {
  fields(a, s.range.lo, s.range.hi, s.hint);
}
template <class A>
void io(A& a, Program& p) {
  fields(a, p.name, p.symbols, p.args, p.results, p.buffers, p.views, p.kernels, p.segments,
         p.origins);
}

[[noreturn]] void damaged(const std::string& detail) {
  throw InvalidGraph("program-C1", "serialised program", detail);
}

}  // namespace

std::string serialize(const Program& p) {
  Writer w;
  w.out.put(kMagic);
  w.out.put(kProgramVersion);
  Program copy = p;
  io(w, copy);
  const Hash128 hash = content_hash(w.out.bytes());
  w.out.put(hash.lo);
  w.out.put(hash.hi);
  return w.out.take();
}

Program deserialize(std::string_view bytes) {
  constexpr size_t kHashBytes = 16;
  if (bytes.size() < 8 + kHashBytes) damaged("the record is truncated");
  const std::string_view body = bytes.substr(0, bytes.size() - kHashBytes);
  ByteReader tail(bytes.substr(body.size()));
  Hash128 hash;
  hash.lo = tail.get<uint64_t>();
  hash.hi = tail.get<uint64_t>();
  if (!(content_hash(body) == hash)) damaged("the checksum does not match");
  Reader r(body);
  if (r.in.get<uint32_t>() != kMagic) damaged("not a program");
  const auto version = r.in.get<uint32_t>();
  if (version != kProgramVersion) {
    damaged("version " + std::to_string(version) + ", this build reads " +
            std::to_string(kProgramVersion));
  }
  try {
    Program p;
    io(r, p);
    if (!r.in.done()) damaged("bytes are left over");
    return p;
  } catch (const InvalidGraph& e) {
    if (e.constraint() == "program-C1") throw;
    damaged(e.what());
  }
}

}  // namespace poot::program
