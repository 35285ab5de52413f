// A tile holds words of 32 bits: f32 elements, or pairs of bf16 with the even one in the low half.
#include "codegen/kir/tile_unit.h"

#include <bit>
#include <cmath>

namespace poot::kir {
namespace {

float flushed(float v) {
  return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(0.0f, v) : v;
}

float half_of(uint32_t word, bool odd) {
  return flushed(std::bit_cast<float>(odd ? word & 0xffff0000u : word << 16));
}

[[noreturn]] void broken(const std::string& detail) {
  throw InvalidGraph("kir-run-C8", "tiles", detail);
}

}  // namespace

size_t TileUnit::rows(size_t tile) const {
  if (rows_[tile] == 0) broken("used before tile_rows");
  return rows_[tile];
}

void TileUnit::configure(int64_t rows) {
  if (rows < 1 || rows > static_cast<int64_t>(kRows))
    broken(std::to_string(rows) + " rows, not 1 to 16");
  for (size_t t = 0; t < rows_.size(); ++t) rows_[t] = t <= 4 ? static_cast<size_t>(rows) : kRows;
  tiles_ = {};
}

void TileUnit::zero(size_t tile) {
  rows(tile);
  tiles_[tile] = {};
}

void TileUnit::load(size_t tile, size_t bytes,
                    const std::function<uint64_t(size_t, size_t)>& element) {
  zero(tile);
  for (size_t r = 0; r < rows(tile); ++r)
    for (size_t at = 0; at < 4 * kWords; at += bytes)
      tiles_[tile][r][at / 4] |= static_cast<uint32_t>(element(r, at)) << (8 * (at % 4));
}

void TileUnit::store(size_t tile, const std::function<void(size_t, size_t, uint32_t)>& element) {
  for (size_t r = 0; r < rows(tile); ++r)
    for (size_t w = 0; w < kWords; ++w) element(r, 4 * w, tiles_[tile][r][w]);
}

void TileUnit::dot(size_t c, size_t a, size_t b) {
  if (rows(c) != rows(a) || rows(b) != kRows) broken("operands of tile_dot differ in rows");
  for (size_t i = 0; i < rows(c); ++i)
    for (size_t j = 0; j < kWords; ++j) {
      float sums[2] = {0, 0};
      for (size_t p = 0; p < kWords; ++p)
        for (const bool odd : {false, true})
          sums[odd] = flushed(
              std::fma(half_of(tiles_[a][i][p], odd), half_of(tiles_[b][p][j], odd), sums[odd]));
      const float old = flushed(std::bit_cast<float>(tiles_[c][i][j]));
      tiles_[c][i][j] = std::bit_cast<uint32_t>(flushed(old + flushed(sums[0] + sums[1])));
    }
}

}  // namespace poot::kir
