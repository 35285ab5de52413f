// The kernel that device and executor tests launch: y[block] = x[block] + meta 0 over i64, and
// index-out-of-range if meta 0 is -1. Its image and its PTX are committed, so that no test needs
// the worker.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include "../unit/source_dir.h"
#include "runtime/gpu_module.h"

namespace poot::testing {

inline std::string add_meta_file(const char* ending) {
  return source_dir() + "/tests/devices/assets/add_meta." + ending;
}

inline std::string read_asset(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string add_meta_image() {
  return read_asset(add_meta_file("x86-64-v3.image"));
}
inline std::string add_meta_ptx() {
  return read_asset(add_meta_file("sm_75.ptx"));
}
inline std::string add_meta_module() {
  return runtime::pack_gpu_module(add_meta_ptx(), {});
}
inline std::string add_meta_kir() {
  return read_asset(add_meta_file("kir"));
}

}  // namespace poot::testing
