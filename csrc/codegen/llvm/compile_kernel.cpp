// The pass pipeline and code generation.
//
// KIR arrives in SSA form, vectorised and with its loops in place, so a short scalar pipeline does
// what O2 does at a quarter of the cost. Kept out on purpose: LLVM's vectorisers and unrollers
// (lowering chose the shape), loop idioms (they make memset and memcpy calls), anything that needs
// library functions (the image may call nothing).
#include "codegen/llvm/compile_kernel.h"

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/flatten.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

namespace poot::codegen {

namespace {

using TargetMachinePtr = std::unique_ptr<llvm::TargetMachine>;

// Kernels of a CPU have one form; the processor decides which instructions it becomes.
llvm::Triple triple(const Target& target) {
  if (target.isa == Isa::Ptx) return llvm::Triple("nvptx64-nvidia-cuda");
  const bool arm = llvm::StringRef(target.cpu).starts_with("neoverse");
  return llvm::Triple(arm ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu");
}

TargetMachinePtr make_machine(const Target& target, int opt_level) {
  const llvm::Triple t = triple(target);
  std::string error;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(t, error);
  if (!backend) throw Unsupported("target " + target.cpu, "this worker was built without it");
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  options.ExceptionModel = llvm::ExceptionHandling::None;
  options.UniqueSectionNames = false;
  const llvm::CodeGenOptLevel level = opt_level >= 2   ? llvm::CodeGenOptLevel::Default
                                      : opt_level == 1 ? llvm::CodeGenOptLevel::Less
                                                       : llvm::CodeGenOptLevel::None;
  TargetMachinePtr machine(backend->createTargetMachine(
      t, target.cpu, target.features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small, level));
  if (!machine || !machine->getMCSubtargetInfo().isCPUStringValid(target.cpu))
    throw Unsupported("target " + target.cpu, "LLVM does not know this processor");
  return machine;
}

TargetFeatures features_of(const Target& target, const llvm::TargetMachine& machine) {
  TargetFeatures f;
  f.isa = target.isa;
  if (f.isa != Isa::X86) return f;
  f.vector_bits = target.vector_bytes * 8;
  f.x86 = machine.getTargetTriple().isX86();
  if (!f.x86) return f;
  const llvm::MCSubtargetInfo& info = machine.getMCSubtargetInfo();
  f.avx2 = info.checkFeatures("+avx2");
  f.avx512 = info.checkFeatures("+avx512f,+avx512bw,+avx512dq,+avx512vl");
  f.avx512_bf16 = f.avx512 && info.checkFeatures("+avx512bf16");
  f.avx512_vnni = f.avx512 && info.checkFeatures("+avx512vnni");
  f.amx_bf16 = info.checkFeatures("+amx-tile,+amx-bf16");
  return f;
}

// Library functions do not exist for LLVM here: neither known, nor made.
llvm::TargetLibraryInfoImpl no_library(const llvm::Triple& t) {
  llvm::TargetLibraryInfoImpl library(t);
  library.disableAllFunctions();
  return library;
}

void optimize(llvm::Module& module, llvm::TargetMachine& machine, int opt_level) {
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::TargetLibraryInfoImpl library = no_library(machine.getTargetTriple());
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);
  const char* pipeline =
      opt_level == 0
          ? "function(sroa,early-cse)"
          : "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"
            "loop-mssa(licm),gvn,instcombine<no-verify-fixpoint>,dce)";
  llvm::ModulePassManager passes;
  if (llvm::Error e = builder.parsePassPipeline(passes, pipeline))
    throw InternalError("pass pipeline: " + llvm::toString(std::move(e)));
  passes.run(module, modules);
}

std::string generate(llvm::Module& module, llvm::TargetMachine& machine, bool assembly) {
  llvm::SmallString<0> out;
  llvm::raw_svector_ostream stream(out);
  llvm::legacy::PassManager passes;
  passes.add(new llvm::TargetLibraryInfoWrapperPass(no_library(machine.getTargetTriple())));
  const auto type =
      assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type))
    throw InternalError("LLVM cannot write this kind of file");
  passes.run(module);
  return std::string(out.data(), out.size());
}

std::string print(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

}  // namespace

std::string compile_kernel(const kir::Kernel& kernel, const Target& target, int opt_level,
                           Product product) {
  if (kernel.isa != target.isa)
    throw Unsupported("kernel " + kernel.name, "it was written for another instruction set");
  TargetMachinePtr machine = make_machine(target, opt_level);
  llvm::LLVMContext context;
  llvm::Module module(kernel.name, context);
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  Emitter(module, kernel, features_of(target, *machine)).emit();
  std::string broken;
  llvm::raw_string_ostream broken_stream(broken);
  if (llvm::verifyModule(module, &broken_stream))
    throw InternalError("kernel " + kernel.name + " became ill-formed LLVM IR: " + broken);
  if (product == Product::LlvmIr) return print(module);
  optimize(module, *machine, opt_level);
  if (product == Product::OptimizedLlvmIr) return print(module);
  const bool assembly = product == Product::Assembly || target.isa == Isa::Ptx;
  std::string out = generate(module, *machine, assembly);
  if (assembly || product == Product::Object) return out;
  return flatten(out, kEntryName);
}

extern "C" {
#define POOT_LLVM_TARGET(name)             \
  void LLVMInitialize##name##TargetInfo(); \
  void LLVMInitialize##name##Target();     \
  void LLVMInitialize##name##TargetMC();   \
  void LLVMInitialize##name##AsmPrinter();
#include "codegen/llvm/targets.def"
#undef POOT_LLVM_TARGET
}

void initialize_llvm() {
#define POOT_LLVM_TARGET(name)        \
  LLVMInitialize##name##TargetInfo(); \
  LLVMInitialize##name##Target();     \
  LLVMInitialize##name##TargetMC();   \
  LLVMInitialize##name##AsmPrinter();
#include "codegen/llvm/targets.def"
#undef POOT_LLVM_TARGET
}

void set_llvm_fatal_handler(void (*handler)(const char* message)) {
  static void (*installed)(const char*) = nullptr;
  installed = handler;
  llvm::install_fatal_error_handler([](void*, const char* message, bool) { installed(message); });
}

}  // namespace poot::codegen
