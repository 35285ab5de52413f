// The worker's compiler: one verified KIR kernel in, one artifact out. No LLVM type shows here.
//
// X86: a flat position-independent image (program/image_format.h). Ptx: PTX text. A kernel that the
// target cannot express throws Unsupported; LLVM's own fatal errors end the process, unless a
// handler that does not return is installed (kernelc does).
#pragma once

#include <string>

#include "codegen/kir/kir.h"
#include "codegen/target.h"

namespace poot::codegen {

enum class Product : uint8_t {
  Artifact,  // image or PTX
  Object,    // relocatable ELF (X86)
  Assembly,
  LlvmIr,           // as emitted
  OptimizedLlvmIr,  // after the pass pipeline
};

// opt_level 0..2. The kernel must have passed kir::verify.
std::string compile_kernel(const kir::Kernel& kernel, const Target& target, int opt_level,
                           Product product);

// Registers the targets this worker was built with; called once, before compile_kernel.
void initialize_llvm();
// `handler` gets LLVM's fatal error message and must not return.
void set_llvm_fatal_handler(void (*handler)(const char* message));

}  // namespace poot::codegen
