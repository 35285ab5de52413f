// One run of an entry: the addresses of its buffers, and its steps.
#pragma once

#include <atomic>
#include <span>
#include <utility>
#include <vector>

#include "program/program.h"
#include "runtime/arena_pool.h"
#include "runtime/entry.h"
#include "runtime/executor.h"

namespace poot::runtime {

class Run {
 public:
  // `constants`: addresses by buffer; empty where the device reads the program's own. `caller`, if
  // any, gives arguments up. `watched`: steps are announced. `lends`: library calls may use free
  // memory of the run; becomes false where a library kept some of it.
  Run(const program::Program& program, const Entry& entry, HostServices& host, Device& device,
      std::span<const Address> constants, Caller* caller, bool watched, std::atomic<bool>& lends)
      : program_(program),
        entry_(entry),
        host_(host),
        device_(device),
        constants_(constants),
        caller_(caller),
        watched_(watched),
        lends_(lends) {}

  // `arenas` outlive the run; `keep`: the early one is not given back.
  void place_buffers(std::span<const CallArg> args, CallArenas& arenas, bool keep = false);
  void run_all() { run_steps(0, entry_.steps.size()); }
  void run_steps(size_t first, size_t last);
  HostTensor result(uint32_t view) const;

  // What captures are made of. Throws StatusError. reach() comes before step `i` is run otherwise
  // than by run_steps().
  void reach(size_t i);
  // Tells that steps [first, last) run until what is returned goes.
  std::shared_ptr<void> announce(size_t first, size_t last) const;
  void replay(const Recording& recording, Fault& fault, std::span<const uint32_t> kernels);
  void run_call(const BoundCall& call);
  void release(const BoundStep& step);
  std::span<const Address> slots() const { return base_; }
  void set_address(uint32_t buffer, Address a) { base_[buffer] = a; }
  // Gives up the memory but keeps its address.
  void disown(uint32_t buffer) { owned_[buffer] = {}; }
  HostTensor surrender(uint32_t buffer) { return std::exchange(owned_[buffer], {}); }

 private:
  void run_step(const BoundStep& step);
  void allocate(uint32_t buffer);
  TensorRef ref(uint32_t view) const;
  // A call of the host: its operands, the call itself, what it returned.
  void set_operands(const BoundCall& call);
  void call_host(const BoundCall& call);
  void take_result(const BoundCall& call, size_t i);
  // The same with memory of the run for the library (run_lending.cpp).
  bool lending(const BoundCall& call) const;
  void run_lending(const BoundCall& call);
  Address lent_address(uint32_t lender, uint64_t offset) const;
  void offer(const BoundCall& call);
  void take_results(const BoundCall& call);
  void leave_lent();
  void move_from_lent();

  const program::Program& program_;
  const Entry& entry_;
  HostServices& host_;
  Device& device_;
  std::span<const Address> constants_;
  Caller* const caller_;
  const bool watched_;
  std::vector<Address> base_;  // by buffer: the slots of replays
  std::vector<HostTensor> owned_;
  ArenaPool::Lease* early_ = nullptr;  // to be given back
  bool late_ = false;                  // the late step was reached
  ArenaPool::Lease* arena_ = nullptr;
  std::atomic<bool>& lends_;
  std::shared_ptr<CallMemory> lent_;
  std::vector<TensorRef> inputs_, outs_;
  std::vector<HostTensor> results_;
};

}  // namespace poot::runtime
