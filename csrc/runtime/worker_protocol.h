// What the runtime and poot-kernelc say to each other over a socket pair.
//
// A frame is u32 payload length, u64 checksum of the payload, payload. The worker speaks first: one
// hello. After that it answers requests one by one, in order. Every record is a ByteWriter stream;
// anything malformed throws InvalidGraph worker-C1, and the side that meets it ends the connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "codegen/target.h"

namespace poot::runtime {

inline constexpr uint32_t kWorkerProtocolVersion = 1;
inline constexpr uint32_t kMaxFrameBytes = 256u << 20;

struct WorkerHello {
  uint32_t protocol = kWorkerProtocolVersion;
  std::string build_id;
};

struct WorkerRequest {
  uint64_t id = 0;
  Target target;  // isa, cpu, features, vector_bytes travel
  uint32_t opt_level = 2;
  std::string kir;
};

enum class WorkerOutcome : uint8_t {
  Compiled,
  Refused,  // the kernel is at fault: it fails the same way at every level
  Failed,   // the compiler is at fault: another level may succeed
};

struct WorkerReply {
  uint64_t id = 0;
  WorkerOutcome outcome = WorkerOutcome::Compiled;
  std::string bytes;  // artifact, or the error's text
};

std::string encode(const WorkerHello& m);
std::string encode(const WorkerRequest& m);
std::string encode(const WorkerReply& m);
WorkerHello decode_hello(std::string_view payload);
WorkerRequest decode_request(std::string_view payload);
WorkerReply decode_reply(std::string_view payload);

std::string frame(std::string_view payload);

// Collects bytes as they arrive and gives out whole frames.
class FrameReader {
 public:
  void append(std::string_view bytes) { buffer_.append(bytes); }
  std::optional<std::string> next();  // a payload; throws InvalidGraph worker-C1

 private:
  std::string buffer_;
};

}  // namespace poot::runtime
