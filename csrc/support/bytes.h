// Little-endian byte streams for records that cross a process or a disk. A reader never reads past
// its end: a short or damaged record throws InvalidGraph bytes-C1, never undefined behaviour.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "support/errors.h"

namespace poot {

class ByteWriter {
 public:
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void put(const T& v) {
    const auto* p = reinterpret_cast<const char*>(&v);
    bytes_.append(p, sizeof(T));
  }
  void put_string(std::string_view s) {
    put<uint32_t>(static_cast<uint32_t>(s.size()));
    bytes_.append(s);
  }
  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
    requires std::is_trivially_copyable_v<T>
  T get() {
    need(sizeof(T));
    T v;
    std::memcpy(&v, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return v;
  }
  std::string_view get_string() {
    const auto n = get<uint32_t>();
    need(n);
    std::string_view s = bytes_.substr(at_, n);
    at_ += n;
    return s;
  }
  bool done() const { return at_ == bytes_.size(); }

 private:
  void need(size_t n) const {
    if (bytes_.size() - at_ < n)
      throw InvalidGraph("bytes-C1", "byte " + std::to_string(at_), "the record is truncated");
  }
  std::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace poot
