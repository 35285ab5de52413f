// The record is a version, the serialised program, then the report's lists field by field. Its
// checksum is the artifact cache's; what that lets through is still read with every count checked.
#include "compiler/program_cache.h"

#include "compiler_id.h"
#include "runtime/kernel_store.h"
#include "support/bytes.h"
#include "support/errors.h"

namespace poot::compiler {

namespace {

constexpr uint32_t kRecordVersion = 1;
constexpr size_t kLargestRecord = size_t{16} << 20;

// One list of fields serves both directions.
struct Writer {
  static constexpr bool reading = false;
  ByteWriter bytes;
  void operator()(std::string& s) { bytes.put_string(s); }
  void operator()(Dim& d) { bytes.put_string(d.str()); }
  template <class T>
    requires std::is_arithmetic_v<T>
  void operator()(T& v) {
    bytes.put(v);
  }
};

struct Reader {
  static constexpr bool reading = true;
  ByteReader bytes;
  void operator()(std::string& s) { s = std::string(bytes.get_string()); }
  void operator()(Dim& d) { d = Dim::parse(bytes.get_string()); }
  void operator()(bool& v) { v = bytes.get<uint8_t>() != 0; }
  template <class T>
    requires std::is_arithmetic_v<T>
  void operator()(T& v) {
    v = bytes.get<T>();
  }
};

template <class A, class T>
  requires requires(A& a, T& v) { a(v); }
void field(A& a, T& v) {
  a(v);
}
template <class A>
void field(A& a, passes::FusionMade& f) {
  a(f.pass), a(f.kernel), a(f.eqns);
}
template <class A>
void field(A& a, passes::Decline& d) {
  a(d.pass), a(d.value), a(d.reason);
}
template <class A>
void field(A& a, passes::ContractionPlan& c) {
  a(c.value), a(c.generated), a(c.reason);
}
template <class A>
void field(A& a, passes::LayoutCopy& c) {
  a(c.value), a(c.reason), a(c.bytes);
}
template <class A>
void field(A& a, passes::PassRecord& p) {
  a(p.name), a(p.changed), a(p.eqns_after);
}
template <class A, class T>
void list(A& a, std::vector<T>& items) {
  auto n = static_cast<uint32_t>(items.size());
  a(n);
  for (uint32_t i = 0; i < n; ++i) {
    if constexpr (A::reading) items.emplace_back();  // grows with the input
    field(a, items[i]);
  }
}
template <class A>
void field(A& a, passes::EqnPlan& p) {
  auto kind = static_cast<uint8_t>(p.kind);
  a(kind);
  if (kind > static_cast<uint8_t>(passes::PlanKind::None))
    throw InvalidGraph("program-C1", "plan", std::to_string(kind) + " is unknown");
  p.kind = static_cast<passes::PlanKind>(kind);
  a(p.op), a(p.kernel), list(a, p.origins);
}
template <class A>
void report(A& a, CompileReport& r) {
  list(a, r.passes), list(a, r.fusions), list(a, r.declines), list(a, r.numerical_declines),
      list(a, r.plans);
  list(a, r.contractions), list(a, r.layout_copies);
  a(r.dispatches_before), a(r.peak_transient_bytes);
}

void put_signature(ByteWriter& w, const passes::Signature& s) {
  w.put(static_cast<uint32_t>(s.args.size()));
  for (const passes::SignatureArg& a : s.args) {
    w.put(static_cast<uint8_t>(a.kind));
    w.put(a.value.index);
    w.put_string(a.expr.str());
  }
  w.put(static_cast<uint32_t>(s.results.size()));
  for (const passes::SignatureResult& r : s.results) {
    w.put(static_cast<uint8_t>(r.kind));
    w.put(r.output);
    w.put_string(r.expr.str());
    w.put(r.arg);
    w.put(r.base);
    w.put(static_cast<uint8_t>(r.of_argument));
  }
  w.put(static_cast<uint32_t>(s.constants.size()));
  for (const passes::SignatureConst& c : s.constants) {
    w.put(c.value.index);
    w.put_string(c.data);
  }
  w.put(static_cast<uint32_t>(s.donated.size()));
  for (const uint32_t d : s.donated) w.put(d);
}

}  // namespace

Hash128 program_key(const ir::Graph& graph, const passes::Signature& signature,
                    const Target& target, const passes::Options& options) {
  ByteWriter w;
  w.put_string("program");  // apart from the keys of kernels
  w.put(kRecordVersion);
  w.put_string(kCompilerId);
  w.put_string(target.key());
  w.put(static_cast<uint8_t>(options.fuse));
  w.put(static_cast<uint8_t>(options.freeze));
  w.put(static_cast<uint8_t>(options.deterministic));
  w.put(static_cast<uint8_t>(options.training));
  w.put(options.memory_limit_bytes);
  w.put_string(graph.str());
  put_signature(w, signature);
  return content_hash(w.bytes());
}

std::string pack(const Compiled& compiled) {
  Writer w;
  w.bytes.put(kRecordVersion);
  w.bytes.put_string(program::serialize(compiled.program));
  CompileReport told = compiled.report;
  report(w, told);
  return w.bytes.take();
}

Compiled unpack(std::string_view bytes) {
  Reader r{ByteReader(bytes)};
  if (r.bytes.get<uint32_t>() != kRecordVersion)
    throw InvalidGraph("program-C1", "record", "of another version");
  Compiled out;
  out.program = program::deserialize(r.bytes.get_string());
  report(r, out.report);
  if (!r.bytes.done()) throw InvalidGraph("program-C1", "record", "longer than its fields");
  return out;
}

std::optional<Compiled> find_program(const Hash128& key, const Target& target) {
  runtime::KernelStore& store = runtime::KernelStore::instance();
  const std::optional<std::string> bytes = store.find_record(key);
  if (!bytes) return std::nullopt;
  try {
    Compiled out = unpack(*bytes);
    program::check(out.program);
    std::vector<std::shared_future<runtime::KernelArtifact>> pending;
    for (const program::Kernel& k : out.program.kernels)
      pending.push_back(store.get(k.kir, target));
    std::vector<runtime::KernelArtifact> artifacts;
    for (auto& p : pending) artifacts.push_back(p.get());
    add_kernels(out, target, std::move(artifacts));
    return out;
  } catch (const Error&) {
    return std::nullopt;  // compiled anew, which reports what is wrong
  }
}

void keep_program(const Hash128& key, const Compiled& compiled) {
  for (const KernelReport& k : compiled.report.kernels)
    if (k.origin == "failed") return;
  const std::string bytes = pack(compiled);
  if (bytes.size() <= kLargestRecord) runtime::KernelStore::instance().keep_record(key, bytes);
}

}  // namespace poot::compiler
