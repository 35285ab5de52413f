// The matrix unit of one thread, as the interpreter sees it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "codegen/kir/kir.h"

namespace poot::kir {

class TileUnit {
 public:
  static constexpr size_t kRows = 16, kWords = 16;  // of a tile; words of 32 bits

  // Throw InvalidGraph kir-run-C8: rows out of range, tiles used before tile_rows, operands of
  // tile_dot whose rows differ.
  void configure(int64_t rows);
  void release() { rows_ = {}; }
  void zero(size_t tile);
  // `element(row, byte)` is called for the first byte of each element of `bytes` bytes.
  void load(size_t tile, size_t bytes, const std::function<uint64_t(size_t, size_t)>& element);
  void store(size_t tile, const std::function<void(size_t, size_t, uint32_t)>& element);
  void dot(size_t c, size_t a, size_t b);

 private:
  using Tile = std::array<std::array<uint32_t, kWords>, kRows>;
  size_t rows(size_t tile) const;
  std::array<size_t, 8> rows_ = {};  // 0: no tiles
  std::array<Tile, 8> tiles_ = {};
};

}  // namespace poot::kir
