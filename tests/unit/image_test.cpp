// Images: a hand-made one runs, a damaged one is refused before it can.
#include <gtest/gtest.h>

#include <cstring>

#include "program/image_format.h"
#include "runtime/kernel_store.h"
#include "support/errors.h"

namespace poot::runtime {
namespace {

// *args->status |= 5; ret
constexpr unsigned char kCode[] = {0x48, 0x8b, 0x47, 0x10, 0x83, 0x08, 0x05, 0xc3};

std::string small_image() {
  std::string bytes(64 + sizeof kCode, '\0');
  std::memcpy(bytes.data() + 64, kCode, sizeof kCode);
  program::ImageHeader h{};
  std::memcpy(h.magic, program::kImageMagic, sizeof h.magic);
  h.version = program::kImageVersion;
  h.abi = program::kKernelAbiVersion;
  h.size = bytes.size();
  h.entry = h.code_begin = 64;
  h.code_end = static_cast<uint32_t>(bytes.size());
  h.hash = content_hash(std::string_view(bytes).substr(sizeof h)).lo;
  std::memcpy(bytes.data(), &h, sizeof h);
  return bytes;
}

std::string constraint_of(const std::string& bytes) {
  try {
    Image::map(bytes);
  } catch (const InvalidGraph& e) {
    return e.constraint();
  }
  return "accepted";
}

program::ImageHeader header(const std::string& bytes) {
  program::ImageHeader h;
  std::memcpy(&h, bytes.data(), sizeof h);
  return h;
}

template <class F>
std::string edited(F&& f) {
  std::string bytes = small_image();
  program::ImageHeader h = header(bytes);
  f(h);
  std::memcpy(bytes.data(), &h, sizeof h);
  return bytes;
}

TEST(Image, RunsItsEntry) {
  const auto image = Image::map(small_image());
  uint32_t status = 2;
  const program::Args args{nullptr, nullptr, &status, {1, 1, 1}};
  image->entry()(&args, 0, 1);
  EXPECT_EQ(status, 7u);
  EXPECT_GE(image->size(), small_image().size());
}

TEST(Image, C1HeaderAndSize) {
  EXPECT_EQ(constraint_of(""), "image-C1");
  EXPECT_EQ(constraint_of(small_image().substr(0, 40)), "image-C1");
  EXPECT_EQ(constraint_of(small_image().substr(0, 70)), "image-C1");
  EXPECT_EQ(constraint_of(small_image() + "x"), "image-C1");
  EXPECT_EQ(constraint_of(edited([](auto& h) { h.magic[3] = 'X'; })), "image-C1");
  EXPECT_EQ(constraint_of(edited([](auto& h) { ++h.version; })), "image-C1");
  EXPECT_EQ(constraint_of(edited([](auto& h) { ++h.abi; })), "image-C1");
}

TEST(Image, C2CodeRange) {
  EXPECT_EQ(constraint_of(edited([](auto& h) { h.entry = h.code_end; })), "image-C2");
  EXPECT_EQ(constraint_of(edited([](auto& h) { h.entry = 8; })), "image-C2");
  EXPECT_EQ(constraint_of(edited([](auto& h) { h.code_end += 1; })), "image-C2");
  EXPECT_EQ(constraint_of(edited([](auto& h) { h.code_begin = 0; })), "image-C2");
}

TEST(Image, C3EveryByteIsHashed) {
  const std::string good = small_image();
  for (size_t at = sizeof(program::ImageHeader); at < good.size(); ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    EXPECT_EQ(constraint_of(bytes), "image-C3") << at;
  }
  EXPECT_EQ(constraint_of(edited([](auto& h) { ++h.hash; })), "image-C3");
}

}  // namespace
}  // namespace poot::runtime
