// Generation is quick and runs here; compiles run in the workers, so each is started as soon as its
// text is there and all are awaited at the end. A failure stays with its kernel: the driver decides
// what to do about it.
#include "compiler/compile_kernels.h"

#include "codegen/codegen.h"
#include "support/errors.h"

namespace poot::compiler {

namespace {

void build(BuiltKernel& kernel, const passes::KernelRequest& request, const Target& target) {
  const tile::Program tiles = codegen::generate(request, target);
  tile::verify_or_throw(tiles);
  const kir::Kernel lanes = codegen::lower(tiles, target);
  kir::verify_or_throw(lanes);
  kernel.kir = lanes.str();
  kernel.meta = tiles.meta;
  for (int i = 0; i < 3; ++i) kernel.grid[i] = tiles.grid[i];
  if (lanes.cluster > 1) kernel.grid[0] *= static_cast<int64_t>(lanes.cluster);
  kernel.block_elems = tiles.block_elems;
  kernel.buffers = tiles.buffers.size();
}

}  // namespace

std::vector<BuiltKernel> start_kernels(const std::vector<passes::KernelRequest>& requests,
                                       const Target& target) {
  std::vector<BuiltKernel> kernels(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    try {
      build(kernels[i], requests[i], target);
      kernels[i].pending = runtime::KernelStore::instance().get(kernels[i].kir, target);
    } catch (const Error&) {
      kernels[i].failure = std::current_exception();
    }
  }
  return kernels;
}

void await_kernels(std::vector<BuiltKernel>& kernels) {
  for (BuiltKernel& k : kernels) {
    if (k.failure) continue;
    try {
      k.artifact = k.pending.get();
    } catch (const Error&) {
      k.failure = std::current_exception();
    }
  }
}

void fill_program(program::Program& p, const std::vector<BuiltKernel>& kernels) {
  for (size_t i = 0; i < kernels.size(); ++i) {
    program::Kernel& k = p.kernels[i];
    k.kir = kernels[i].kir;
    k.hash = content_hash(k.kir);
    k.meta = static_cast<uint32_t>(kernels[i].meta.size());
    if (k.buffers != kernels[i].buffers)
      throw InternalError("kernel " + k.name + " has " + std::to_string(kernels[i].buffers) +
                          " buffers, its launches give " + std::to_string(k.buffers));
  }
  for (program::Segment& s : p.segments) {
    for (program::Launch& launch : s.launches) {
      auto* l = std::get_if<program::KernelLaunch>(&launch.body);
      if (!l) continue;
      const BuiltKernel& k = kernels[l->kernel.index];
      l->meta = k.meta;
      for (int i = 0; i < 3; ++i) l->grid[i] = k.grid[i];
      l->block_cost = k.block_elems;
    }
  }
}

}  // namespace poot::compiler
