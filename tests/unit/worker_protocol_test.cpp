// Frames and records: whole ones come back, damaged ones are refused.
#include <gtest/gtest.h>

#include "runtime/worker_protocol.h"
#include "support/errors.h"

namespace poot::runtime {
namespace {

WorkerRequest request() {
  WorkerRequest r;
  r.id = 42;
  r.target = Target::parse("x86-64-v4");
  r.opt_level = 1;
  r.kir = "kernel @k";
  return r;
}

TEST(WorkerProtocol, RecordsComeBack) {
  const WorkerRequest a = decode_request(encode(request()));
  EXPECT_EQ(a.id, 42u);
  EXPECT_EQ(a.target.cpu, "x86-64-v4");
  EXPECT_EQ(a.target.features, request().target.features);
  EXPECT_EQ(a.target.vector_bytes, 64u);
  EXPECT_EQ(a.opt_level, 1u);
  EXPECT_EQ(a.kir, "kernel @k");
  const WorkerReply b = decode_reply(encode(WorkerReply{7, WorkerOutcome::Failed, "why"}));
  EXPECT_EQ(b.id, 7u);
  EXPECT_EQ(b.outcome, WorkerOutcome::Failed);
  EXPECT_EQ(b.bytes, "why");
  EXPECT_EQ(decode_hello(encode(WorkerHello{1, "id"})).build_id, "id");
}

TEST(WorkerProtocol, FramesSurviveAnySplit) {
  const std::string stream = frame("first") + frame("") + frame(std::string(1000, 'x'));
  for (size_t step : {1, 3, 11, 13, 500}) {
    FrameReader reader;
    std::vector<std::string> got;
    for (size_t at = 0; at < stream.size(); at += step) {
      reader.append(std::string_view(stream).substr(at, step));
      while (auto p = reader.next()) got.push_back(*p);
    }
    ASSERT_EQ(got.size(), 3u) << step;
    EXPECT_EQ(got[0], "first");
    EXPECT_EQ(got[1], "");
    EXPECT_EQ(got[2], std::string(1000, 'x'));
  }
}

template <class F>
void expect_refused(F&& f, const char* what) {
  try {
    f();
    ADD_FAILURE() << what << " was accepted";
  } catch (const InvalidGraph& e) {
    EXPECT_EQ(e.constraint(), "worker-C1");
  }
}

TEST(WorkerProtocol, C1DamageIsRefused) {
  const std::string payload = encode(request());
  for (size_t size = 0; size < payload.size(); ++size)
    expect_refused([&] { decode_request(payload.substr(0, size)); }, "a truncated record");
  expect_refused([&] { decode_request(payload + "x"); }, "a long record");
  expect_refused([&] { decode_reply(payload); }, "a record of another kind");
  std::string reply = encode(WorkerReply{7, WorkerOutcome::Failed, "why"});
  reply[9] = 9;
  expect_refused([&] { decode_reply(reply); }, "an unknown outcome");
  const std::string good = frame("payload");
  for (size_t at = 4; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    FrameReader reader;
    reader.append(bad);
    expect_refused([&] { reader.next(); }, "a damaged frame");
  }
  FrameReader reader;
  reader.append(std::string(20, '\xff'));
  expect_refused([&] { reader.next(); }, "an endless frame");
}

}  // namespace
}  // namespace poot::runtime
