// A CPU kernel's image, version 1: machine code and constants in one position-independent block.
//
//   ImageHeader | code | padding to 64 | read-only data
//
// The block is mapped as it is, at a page boundary, read and execute; it holds no relocation, no
// symbol and no writable byte. `hash` is the low word of content_hash over everything behind the
// header, so a damaged image is refused before it runs.
#pragma once

#include <cstdint>

namespace poot::program {

inline constexpr char kImageMagic[8] = {'P', 'O', 'O', 'T', 'I', 'M', 'G', '1'};
inline constexpr uint32_t kImageVersion = 1;
inline constexpr uint32_t kImageAlignment = 64;  // of code and of data, within the image

struct ImageHeader {
  char magic[8];
  uint32_t version;
  uint32_t abi;         // kKernelAbiVersion
  uint64_t size;        // of the image, header included
  uint64_t hash;        // of the bytes behind the header
  uint32_t entry;       // offset of the entry
  uint32_t code_begin;  // code is [code_begin, code_end)
  uint32_t code_end;
  uint32_t reserved;
};
static_assert(sizeof(ImageHeader) == 48);

}  // namespace poot::program
