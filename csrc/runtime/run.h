// One run of an entry: the addresses of its buffers, and its steps.
#pragma once

#include <span>
#include <vector>

#include "program/program.h"
#include "runtime/entry.h"
#include "runtime/executor.h"

namespace poot::runtime {

class Run {
 public:
  // `constants`: addresses by buffer; empty where the device reads the program's own.
  Run(const program::Program& program, const Entry& entry, HostServices& host, Device& device,
      std::span<const Address> constants)
      : program_(program), entry_(entry), host_(host), device_(device), constants_(constants) {}

  void place_buffers(std::span<const CallArg> args, Address arena);
  void run_all() {
    for (const BoundStep& step : entry_.steps) run_step(step);
  }
  void run_step(const BoundStep& step);
  HostTensor result(uint32_t view) const;

  // What captures are made of. Throws StatusError.
  void replay(const Recording& recording, Fault& fault, std::span<const uint32_t> kernels);
  void run_call(const BoundCall& call);
  void release(const BoundStep& step);
  std::span<const Address> slots() const { return base_; }
  void set_address(uint32_t buffer, Address a) { base_[buffer] = a; }
  // Gives up the memory but keeps its address.
  void disown(uint32_t buffer) { owned_[buffer] = {}; }

 private:
  TensorRef ref(uint32_t view) const;

  const program::Program& program_;
  const Entry& entry_;
  HostServices& host_;
  Device& device_;
  std::span<const Address> constants_;
  std::vector<Address> base_;  // by buffer: the slots of replays
  std::vector<HostTensor> owned_;
  std::vector<TensorRef> inputs_, outs_;
  std::vector<HostTensor> results_;
};

}  // namespace poot::runtime
