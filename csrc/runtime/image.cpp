// Maps an image (program/image_format.h): anonymous memory, copied, then made executable, so that
// no page is ever writable and executable, and so that profilers see anonymous code, which they can
// be given names for.
//
//   image-C1  the header is whole, of this format and ABI version, and the size is that of the
//   bytes image-C2  the code range lies inside the image and holds the entry image-C3  the hash
//   matches
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "program/image_format.h"
#include "runtime/kernel_store.h"
#include "support/errors.h"

namespace poot::runtime {

namespace {

program::ImageHeader check(std::string_view bytes) {
  program::ImageHeader h;
  if (bytes.size() < sizeof h) throw InvalidGraph("image-C1", "header", "the image is truncated");
  std::memcpy(&h, bytes.data(), sizeof h);
  if (std::memcmp(h.magic, program::kImageMagic, sizeof h.magic) != 0 ||
      h.version != program::kImageVersion || h.abi != program::kKernelAbiVersion)
    throw InvalidGraph("image-C1", "header", "not an image of this version");
  if (h.size != bytes.size())
    throw InvalidGraph(
        "image-C1", "header",
        "it says " + std::to_string(h.size) + " bytes, there are " + std::to_string(bytes.size()));
  if (h.code_begin < sizeof h || h.code_begin > h.code_end || h.code_end > h.size ||
      h.entry < h.code_begin || h.entry >= h.code_end)
    throw InvalidGraph("image-C2", "header", "the entry or the code lies outside the image");
  if (content_hash(bytes.substr(sizeof h)).lo != h.hash)
    throw InvalidGraph("image-C3", "body", "the hash does not match");
  return h;
}

}  // namespace

std::shared_ptr<const Image> Image::map(std::string_view bytes) {
  const program::ImageHeader header = check(bytes);
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t size = (bytes.size() + page - 1) / page * page;
  auto image = std::make_shared<Image>();
  void* base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED)
    throw DeviceError("mapping a kernel of " + std::to_string(size) +
                      " bytes: " + std::strerror(errno));
  image->base_ = base;
  image->size_ = size;
  std::memcpy(base, bytes.data(), bytes.size());
  if (::mprotect(base, size, PROT_READ | PROT_EXEC) != 0)
    throw DeviceError(std::string("making a kernel executable: ") + std::strerror(errno));
  image->entry_ = reinterpret_cast<program::CpuEntry>(static_cast<std::byte*>(base) + header.entry);
  return image;
}

Image::~Image() {
  if (base_) ::munmap(base_, size_);
}

}  // namespace poot::runtime
