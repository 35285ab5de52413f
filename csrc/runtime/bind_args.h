// What a call must look like, and what it binds.
#pragma once

#include <span>
#include <vector>

#include "program/program.h"
#include "runtime/executor.h"

namespace poot::runtime {

// How the program's symbols are found in a call's arguments; built once per program.
class ArgBinder {
 public:
  // Throws InvalidGraph program-C3 if a symbol occurs that no argument binds.
  explicit ArgBinder(const program::Program& program);
  // Values of the symbols for this call. Throws ArgumentMismatch.
  std::vector<int64_t> symbols(std::span<const CallArg> args) const;
  // Checks every argument against the program: dtype, sizes, strides, overlap of mutated arguments.
  void check(std::span<const CallArg> args, std::span<const int64_t> symbols) const;

 private:
  void check_tensor(const program::ArgTensor& want, const TensorRef& got, uint32_t arg,
                    std::span<const int64_t> symbols) const;
  void check_overlap(std::span<const CallArg> args) const;
  const program::Program& program_;
  struct Source {
    uint32_t arg = 0;
    int32_t dim = -1;                // of a tensor; -1: an int argument; -2 - d: stride d
    int64_t factor = 1, offset = 0;  // what is found there is factor * symbol + offset
  };
  std::vector<Source> sources_;  // by symbol
  std::vector<uint32_t> mutated_;
};

}  // namespace poot::runtime
