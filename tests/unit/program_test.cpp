// Program records: bytes there and back, damage refused (program-C1), the structural check
// (program-C2), and the two pinned interfaces with their golden files.
#include "program/program.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <sstream>

#include "golden.h"
#include "program/kernel_abi.h"
#include "support/bytes.h"
#include "support/errors.h"

namespace poot::program {
namespace {

// One of every record: a generated kernel over [s0, 8], a product, an opaque call, a constant.
Program sample() {
  const Dim s0 = Dim::symbol(0);
  Program p;
  p.name = "sample";
  p.symbols = {Symbol{{2, INT64_MAX}, 16}};
  p.args = {ArgInt{s0}, ArgTensor{DType::F32, {s0, 8}, {8, 1}, false},
            ArgTensor{DType::F32, {8, 8}, {1, 8}, true}, ArgNone{}};
  p.buffers = {Buffer{BufferClass::Input, 1, DType::F32, 32 * s0, 0, 0, {}},
               Buffer{BufferClass::Input, 2, DType::F32, 256, 0, 0, {}},
               Buffer{BufferClass::Arena, 0, DType::F32, 32 * s0, 0, 1, {}},
               Buffer{BufferClass::Output, 0, DType::F32, 32 * s0, 1, 2, {}},
               Buffer{BufferClass::Owned, 0, DType::I64, 8 * s0, 2, 2, {}},
               Buffer{BufferClass::Const, 0, DType::F32, 4, 0, 0, std::string("\0\0\x80\x3f", 4)}};
  p.views = {View{BufferId(2), DType::F32, {s0, 8}, {8, 1}, 0},
             View{BufferId(1), DType::F32, {8, 8}, {1, 8}, 0},
             View{BufferId(3), DType::F32, {s0, 8}, {8, 1}, 0},
             View{BufferId(4), DType::I64, {s0}, {1}, 0}, View{BufferId(5), DType::F32, {}, {}, 0}};
  p.kernels = {Kernel{"fused_add_relu", "kernel text", content_hash("kernel text"), 2, 1}};
  KernelLaunch k{KernelId(0), {{BufferId(0), 0}, {BufferId(2), 0}}, {s0}};
  k.grid[0] = Dim::ceildiv(s0, 4);
  k.block_cost = 32;
  k.traffic = 64 * s0;
  const LibraryLaunch mm{LibraryOp::mm, {ViewId(0), ViewId(1)}, {ViewId(2)}, {}, {}};
  const OpaqueLaunch opaque{0, "aten::nonzero", {ViewId(2), ViewId(4), ViewId()}, {ViewId(3)}};
  p.segments = {Segment{SegmentKind::Replayable, {Launch{k, {0, 1}}, Launch{mm, {2}}}},
                Segment{SegmentKind::Live, {Launch{opaque, {}}}}};
  std::get<OpaqueLaunch>(p.segments[1].launches[0].body).inputs[1] = ViewId(0);
  p.buffers[2].last = 2;
  p.origins = {Origin{"add", "model.py:3, in forward: x + 1"}, Origin{"relu", ""},
               Origin{"mm", "model.py:4"}};
  p.results = {ResultView{ViewId(2)}, ResultArg{1}, ResultInt{s0 * s0}, ResultNone{},
               ResultView{ViewId(3)}};
  return p;
}

std::string constraint_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const InvalidGraph& e) {
    return e.constraint();
  }
  return "none";
}

TEST(Program, BytesThereAndBack) {
  const std::string bytes = serialize(sample());
  const Program back = deserialize(bytes);
  EXPECT_EQ(dump(back), dump(sample()));
  EXPECT_EQ(serialize(back), bytes);
  EXPECT_EQ(back.kernels[0].kir, "kernel text");
}

TEST(Program, DamageIsRefused) {
  const std::string bytes = serialize(sample());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x41);
    ASSERT_EQ(constraint_of([&] { deserialize(damaged); }), "program-C1") << "byte " << i;
    ASSERT_EQ(constraint_of([&] { deserialize(bytes.substr(0, i)); }), "program-C1");
  }
}

// A record with a right checksum but foreign contents must not be read past its end either.
TEST(Program, ForeignContentsAreRefused) {
  const std::string bytes = serialize(sample());
  const std::string body = bytes.substr(0, bytes.size() - 16);
  auto sealed = [](std::string b) {
    const Hash128 h = content_hash(b);
    ByteWriter w;
    w.put(h.lo);
    w.put(h.hi);
    return b + w.bytes();
  };
  EXPECT_EQ(constraint_of([&] { deserialize(sealed(body)); }), "none");
  EXPECT_EQ(constraint_of([&] { deserialize(sealed(body + "x")); }), "program-C1");
  std::string version = body;
  version[4] = 99;
  EXPECT_EQ(constraint_of([&] { deserialize(sealed(version)); }), "program-C1");
  for (size_t i = 8; i < body.size(); ++i) {
    std::string foreign = body;
    foreign[i] = static_cast<char>(0xff);
    const std::string c = constraint_of([&] { deserialize(sealed(foreign)); });
    ASSERT_TRUE(c == "program-C1" || c == "none") << c << " at byte " << i;
    ASSERT_EQ(constraint_of([&] { deserialize(sealed(body.substr(0, i))); }), "program-C1");
  }
}

TEST(Program, CheckAcceptsTheSample) {
  EXPECT_EQ(constraint_of([] { check(sample()); }), "none");
}

TEST(Program, CheckRefuses) {
  auto kernel = [](Program& p) -> KernelLaunch& {
    return std::get<KernelLaunch>(p.segments[0].launches[0].body);
  };
  const std::pair<const char*, std::function<void(Program&)>> faults[] = {
      {"buffer of a view", [](Program& p) { p.views[0].buffer = BufferId(99); }},
      {"rank of a view", [](Program& p) { p.views[0].strides.pop_back(); }},
      {"kernel id", [&](Program& p) { kernel(p).kernel = KernelId(1); }},
      {"buffer count", [&](Program& p) { kernel(p).buffers.pop_back(); }},
      {"metadata count", [&](Program& p) { kernel(p).meta.clear(); }},
      {"slot", [&](Program& p) { kernel(p).buffers[0].buffer = BufferId(6); }},
      {"live range", [](Program& p) { p.buffers[2].last = 0; }},
      {"live range end", [](Program& p) { p.buffers[2].last = 3; }},
      {"owned before its launch", [&](Program& p) { kernel(p).buffers[0].buffer = BufferId(4); }},
      {"input is no tensor", [](Program& p) { p.buffers[0].index = 0; }},
      {"constant's size", [](Program& p) { p.buffers[5].data.pop_back(); }},
      {"unbound symbol",
       [](Program& p) {
         p.args[0] = ArgNone{};
         p.args[1] = ArgTensor{DType::F32, {Dim::symbol(0) * Dim::symbol(0), 8}, {8, 1}, false};
       }},
      {"unknown symbol", [](Program& p) { p.buffers[0].bytes = Dim::symbol(7); }},
      {"transient result", [](Program& p) { p.results[0] = ResultView{ViewId(0)}; }},
      {"result argument", [](Program& p) { p.results[1] = ResultArg{4}; }},
      {"origin", [](Program& p) { p.segments[0].launches[0].origins = {3}; }},
      {"live launch", [](Program& p) { p.segments[1].kind = SegmentKind::Replayable; }},
      {"opaque result class", [](Program& p) { p.buffers[4].cls = BufferClass::Output; }},
  };
  for (const auto& [what, fault] : faults) {
    Program p = sample();
    fault(p);
    EXPECT_EQ(constraint_of([&] { check(p); }), "program-C2") << what;
  }
}

TEST(Program, LibraryTable) {
  EXPECT_EQ(library_info(LibraryOp::mm).name, "mm");
  EXPECT_TRUE(library_info(LibraryOp::mm).out_variant);
  EXPECT_FALSE(library_info(LibraryOp::sdpa).out_variant);
  for (int i = 0; i < kLibraryOpCount; ++i)
    EXPECT_FALSE(library_info(static_cast<LibraryOp>(i)).reason.empty());
  EXPECT_THROW(library_info(static_cast<LibraryOp>(kLibraryOpCount)), InternalError);
}

// Pinned: the bytes of a program. A change here is a new kProgramVersion.
TEST(Golden, Program) {
  std::ostringstream text;
  text << dump(sample());
  const std::string bytes = serialize(sample());
  for (size_t i = 0; i < bytes.size(); ++i) {
    constexpr char digits[] = "0123456789abcdef";
    const auto b = static_cast<unsigned char>(bytes[i]);
    text << digits[b >> 4] << digits[b & 15] << (i % 32 == 31 || i + 1 == bytes.size() ? "\n" : "");
  }
  testing::expect_golden("program/program.golden", text.str());
}

// Pinned: what a kernel receives. A change here is a new kKernelAbiVersion.
TEST(Golden, KernelAbi) {
  std::ostringstream text;
  text << "kernel abi version " << kKernelAbiVersion << '\n'
       << "Args size " << sizeof(Args) << " align " << alignof(Args) << '\n'
       << "buffers offset " << offsetof(Args, buffers) << " size " << sizeof(Args::buffers) << '\n'
       << "meta offset " << offsetof(Args, meta) << " size " << sizeof(Args::meta) << '\n'
       << "status offset " << offsetof(Args, status) << " size " << sizeof(Args::status) << '\n'
       << "grid offset " << offsetof(Args, grid) << " size " << sizeof(Args::grid) << '\n'
       << "status bit index_out_of_range " << kIndexOutOfRange << '\n'
       << "status bit divide_by_zero " << kDivideByZero << '\n'
       << "status bit place_out_of_range " << kPlaceOutOfRange << '\n';
  testing::expect_golden("program/kernel_abi.golden", text.str());
}

}  // namespace
}  // namespace poot::program
