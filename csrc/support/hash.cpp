// MurmurHash3's 128-bit x64 function with seed 0, over little-endian words, so that the value does
// not depend on the platform. Not cryptographic: the cache refuses directories that others can
// write.
#include "support/hash.h"

namespace poot {
namespace {

constexpr uint64_t kC1 = 0x87C37B91114253D5ull, kC2 = 0x4CF5AD432745937Full;

uint64_t rotl(uint64_t x, int r) {
  return (x << r) | (x >> (64 - r));
}

uint64_t word(const char* p, size_t n) {
  uint64_t v = 0;
  for (size_t i = 0; i < n; ++i)
    v |= static_cast<uint64_t>(static_cast<unsigned char>(p[i])) << 8 * i;
  return v;
}

uint64_t finalise(uint64_t k) {
  k = (k ^ (k >> 33)) * 0xFF51AFD7ED558CCDull;
  k = (k ^ (k >> 33)) * 0xC4CEB9FE1A85EC53ull;
  return k ^ (k >> 33);
}

}  // namespace

Hash128 content_hash(std::string_view bytes) {
  uint64_t h1 = 0, h2 = 0;
  const size_t blocks = bytes.size() / 16;
  for (size_t i = 0; i < blocks; ++i) {
    const char* p = bytes.data() + 16 * i;
    h1 ^= rotl(word(p, 8) * kC1, 31) * kC2;
    h1 = (rotl(h1, 27) + h2) * 5 + 0x52DCE729;
    h2 ^= rotl(word(p + 8, 8) * kC2, 33) * kC1;
    h2 = (rotl(h2, 31) + h1) * 5 + 0x38495AB5;
  }
  const char* tail = bytes.data() + 16 * blocks;
  const size_t rest = bytes.size() - 16 * blocks;
  if (rest > 8) h2 ^= rotl(word(tail + 8, rest - 8) * kC2, 33) * kC1;
  if (rest > 0) h1 ^= rotl(word(tail, rest < 8 ? rest : 8) * kC1, 31) * kC2;
  h1 ^= bytes.size();
  h2 ^= bytes.size();
  h1 += h2;
  h2 += h1;
  h1 = finalise(h1);
  h2 = finalise(h2);
  h1 += h2;
  h2 += h1;
  return {h1, h2};
}

std::string Hash128::hex() const {
  std::string s(32, '0');
  for (int i = 0; i < 16; ++i) {
    s[15 - i] = "0123456789abcdef"[(hi >> 4 * i) & 15];
    s[31 - i] = "0123456789abcdef"[(lo >> 4 * i) & 15];
  }
  return s;
}

}  // namespace poot
