// From kernel requests to machine code: generate, lower, hand to the store, wait for all.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "passes/request.h"
#include "program/program.h"
#include "runtime/kernel_store.h"

namespace poot::compiler {

// What one request became. `failure` is set if any step threw a poot::Error; then only what came
// before is filled.
struct BuiltKernel {
  std::string kir;
  std::vector<Dim> meta;
  Dim grid[3] = {1, 1, 1};
  int64_t block_elems = 0;
  size_t buffers = 0;
  std::shared_future<runtime::KernelArtifact> pending;
  runtime::KernelArtifact artifact;
  std::exception_ptr failure;
};

// Writes the KIR of each request and starts its compile.
std::vector<BuiltKernel> start_kernels(const std::vector<passes::KernelRequest>& requests,
                                       const Target& target);
// Waits for all compiles.
void await_kernels(std::vector<BuiltKernel>& kernels);
// Puts text, hash, grids and metadata of the built kernels into the program's records.
void fill_program(program::Program& p, const std::vector<BuiltKernel>& kernels);

}  // namespace poot::compiler
