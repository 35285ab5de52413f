// Which vectors of a kernel are held with their even lanes first.
#pragma once

#include <vector>

#include "codegen/kir/kir.h"

namespace poot::codegen {

class EvenOdd {
 public:
  // Vectors of at least `least` lanes are considered; 0: none.
  EvenOdd(const kir::Kernel& kernel, unsigned least);

  // Whether the value's lanes are 0, 2, 4, …, 1, 3, 5, …
  bool holds(kir::ValueId v) const { return any_ && held_[v.index]; }
  // Whether the instruction takes operands in whatever order they are held, all in the same one,
  // and gives its result in that order; the others want theirs in order and give it in order.
  bool by_lane(const kir::Inst& i) const;
  // Elements that an array takes: whole vectors, if its vectors may be held so, since the odd lanes
  // of the last one lie in its second half.
  int64_t array_size(kir::ObjectId array) const;

 private:
  using Block = kir::Block;
  using Inst = kir::Inst;
  using ValueId = kir::ValueId;
  static constexpr int kMostDepth = 5;

  bool may_hold(kir::Type t) const;
  void visit(const Block& block, int depth);
  void visit(const Inst& inst, int depth);
  void join_nested(const Inst& inst);
  void count(const Inst& inst, int depth);
  void note_factor(const Inst& inst);
  void note_access(const Inst& inst);
  bool is_access(const Inst& inst) const;
  void seek_arrays(const Block& block);
  void join(uint32_t a, uint32_t b);
  uint32_t root(uint32_t x);

  const kir::Kernel& kernel_;
  const unsigned least_;
  bool any_ = false;
  std::vector<char> held_;          // by value
  std::vector<char> uniform_;       // by value: every lane the same
  std::vector<uint8_t> factor_;     // by value: log2 of a power of two that divides it
  std::vector<uint32_t> parent_;    // values, then objects
  std::vector<int64_t> gain_;       // of a set, at its root
  std::vector<uint16_t> accessed_;  // by object: lanes of every access; 0: none yet, 1: they differ
};

}  // namespace poot::codegen
