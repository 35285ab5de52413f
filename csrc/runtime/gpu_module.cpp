// The worker's PTX has one entry; its directives tell the block's size and its parameter list the
// number of words:
//
//   .visible .entry poot_fused_add(
//     .param .u64 .ptr .global .align 1 poot_fused_add_param_0,
//     .param .u64 poot_fused_add_param_1
//   )
//   .reqntid 128
#include "runtime/gpu_module.h"

#include <cstdlib>
#include <cstring>

#include "program/kernel_abi.h"
#include "support/errors.h"
#include "support/hash.h"

namespace poot::runtime {
namespace {

size_t count(std::string_view text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

std::string pack_gpu_module(const std::string& ptx, std::string_view cubin) {
  GpuModuleHeader h{};
  constexpr std::string_view kEntry = ".entry ";
  const size_t begin = ptx.find(kEntry), end = ptx.find(')', begin);
  const size_t open = ptx.find('(', begin);
  const size_t threads = ptx.find(".reqntid ", begin);
  if (begin == std::string::npos || end == std::string::npos || threads == std::string::npos)
    throw CompileError("the compiler's PTX has no entry with a block size", ptx);
  std::memcpy(h.magic, kGpuModuleMagic, sizeof h.magic);
  h.version = kGpuModuleVersion;
  h.abi = program::kKernelAbiVersion;
  h.threads = static_cast<uint32_t>(std::strtoul(ptx.c_str() + threads + 9, nullptr, 10));
  h.words = static_cast<uint32_t>(count(ptx.substr(begin, end - begin), ".param "));
  h.dependent = ptx.find("griddepcontrol.wait") != std::string::npos;
  h.code = cubin.empty() ? GpuCode::Ptx : GpuCode::Cubin;
  std::string body = ptx.substr(begin + kEntry.size(), open - begin - kEntry.size());
  body.push_back('\0');
  h.name_bytes = static_cast<uint32_t>(body.size());
  body.append(cubin.empty() ? std::string_view(ptx.c_str(), ptx.size() + 1) : cubin);
  h.size = sizeof h + body.size();
  h.hash = content_hash(body).lo;
  return std::string(reinterpret_cast<const char*>(&h), sizeof h) + body;
}

GpuModule parse_gpu_module(std::string_view bytes) {
  GpuModuleHeader h;
  if (bytes.size() < sizeof h) throw InvalidGraph("module-C1", "header", "the module is truncated");
  std::memcpy(&h, bytes.data(), sizeof h);
  if (std::memcmp(h.magic, kGpuModuleMagic, sizeof h.magic) != 0 ||
      h.version != kGpuModuleVersion || h.abi != program::kKernelAbiVersion ||
      (h.code != GpuCode::Ptx && h.code != GpuCode::Cubin) || h.threads == 0 || h.words == 0)
    throw InvalidGraph("module-C1", "header", "not a module of this version");
  if (h.size != bytes.size())
    throw InvalidGraph(
        "module-C1", "header",
        "it says " + std::to_string(h.size) + " bytes, there are " + std::to_string(bytes.size()));
  const std::string_view body = bytes.substr(sizeof h);
  if (content_hash(body).lo != h.hash)
    throw InvalidGraph("module-C2", "body", "the hash does not match");
  if (h.name_bytes == 0 || h.name_bytes > body.size() || body[h.name_bytes - 1] != '\0')
    throw InvalidGraph("module-C1", "header", "it names no entry");
  return {h.threads, h.words, h.dependent != 0, h.code, body.data(), body.substr(h.name_bytes)};
}

}  // namespace poot::runtime
