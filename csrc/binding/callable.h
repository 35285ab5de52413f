// The boxed callable that AOTAutograd keeps: a vectorcall object with no Python on its path.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>

#include "binding/torch_host.h"
#include "runtime/executor.h"

namespace poot::binding {

struct LoadedProgram {
  c10::Device device{c10::kCPU};  // of all tensors
  std::vector<bool> donated;      // by argument: nobody reads it after the call
  std::vector<bool> shown;        // by argument: a result is it, or views it
  // Complex tensors enter and leave the program as real ones whose last axis holds real and
  // imaginary part.
  std::vector<bool> complex_args, complex_results;
  std::shared_ptr<OpaqueTable> calls;
  std::unique_ptr<TorchHost> host;
  std::unique_ptr<runtime::Executor> executor;
};

// Takes one list of arguments, empties it, returns a list of results. `_boxed_call` is set in its
// __dict__: AOTAutograd wraps the backward by functools.wraps, which copies only that.
pybind11::object make_callable(std::shared_ptr<LoadedProgram> program);
void register_callable_type();

}  // namespace poot::binding
