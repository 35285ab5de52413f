#include "runtime/worker_protocol.h"

#include "support/bytes.h"
#include "support/errors.h"
#include "support/hash.h"

namespace poot::runtime {

namespace {

constexpr size_t kHeaderBytes = sizeof(uint32_t) + sizeof(uint64_t);

enum class Kind : uint8_t { Hello = 1, Request = 2, Reply = 3 };

[[noreturn]] void malformed(const std::string& detail) {
  throw InvalidGraph("worker-C1", "frame", detail);
}

void expect(ByteReader& r, Kind kind) {
  if (r.get<uint8_t>() != static_cast<uint8_t>(kind)) malformed("another kind of record is due");
}

template <class F>
auto decode(std::string_view payload, Kind kind, F&& fields) {
  try {
    ByteReader r(payload);
    expect(r, kind);
    auto m = fields(r);
    if (!r.done()) malformed("bytes are left over");
    return m;
  } catch (const InvalidGraph& e) {
    if (e.constraint() == "worker-C1") throw;
    malformed(e.what());
  }
}

ByteWriter start(Kind kind) {
  ByteWriter w;
  w.put(static_cast<uint8_t>(kind));
  return w;
}

}  // namespace

std::string encode(const WorkerHello& m) {
  ByteWriter w = start(Kind::Hello);
  w.put(m.protocol);
  w.put_string(m.build_id);
  return w.take();
}

std::string encode(const WorkerRequest& m) {
  ByteWriter w = start(Kind::Request);
  w.put(m.id);
  w.put(static_cast<uint8_t>(m.target.isa));
  w.put_string(m.target.cpu);
  w.put_string(m.target.features);
  w.put(m.target.vector_bytes);
  w.put(m.opt_level);
  w.put_string(m.kir);
  return w.take();
}

std::string encode(const WorkerReply& m) {
  ByteWriter w = start(Kind::Reply);
  w.put(m.id);
  w.put(static_cast<uint8_t>(m.outcome));
  w.put_string(m.bytes);
  return w.take();
}

WorkerHello decode_hello(std::string_view payload) {
  return decode(payload, Kind::Hello, [](ByteReader& r) {
    WorkerHello m;
    m.protocol = r.get<uint32_t>();
    m.build_id = r.get_string();
    return m;
  });
}

WorkerRequest decode_request(std::string_view payload) {
  return decode(payload, Kind::Request, [](ByteReader& r) {
    WorkerRequest m;
    m.id = r.get<uint64_t>();
    m.target.isa = r.get<uint8_t>() == 0 ? Isa::X86 : Isa::Ptx;
    m.target.cpu = r.get_string();
    m.target.features = r.get_string();
    m.target.vector_bytes = r.get<uint32_t>();
    m.opt_level = r.get<uint32_t>();
    m.kir = r.get_string();
    return m;
  });
}

WorkerReply decode_reply(std::string_view payload) {
  return decode(payload, Kind::Reply, [](ByteReader& r) {
    WorkerReply m;
    m.id = r.get<uint64_t>();
    const auto outcome = r.get<uint8_t>();
    if (outcome > static_cast<uint8_t>(WorkerOutcome::Failed)) malformed("unknown outcome");
    m.outcome = static_cast<WorkerOutcome>(outcome);
    m.bytes = r.get_string();
    return m;
  });
}

std::string frame(std::string_view payload) {
  if (payload.size() > kMaxFrameBytes) malformed("the record is too large");
  ByteWriter w;
  w.put(static_cast<uint32_t>(payload.size()));
  w.put(content_hash(payload).lo);
  std::string out = w.take();
  out += payload;
  return out;
}

std::optional<std::string> FrameReader::next() {
  if (buffer_.size() < kHeaderBytes) return std::nullopt;
  ByteReader r(buffer_);
  const auto length = r.get<uint32_t>();
  const auto checksum = r.get<uint64_t>();
  if (length > kMaxFrameBytes) malformed("the length is out of range");
  if (buffer_.size() - kHeaderBytes < length) return std::nullopt;
  std::string payload = buffer_.substr(kHeaderBytes, length);
  if (content_hash(payload).lo != checksum) malformed("the checksum does not match");
  buffer_.erase(0, kHeaderBytes + length);
  return payload;
}

}  // namespace poot::runtime
