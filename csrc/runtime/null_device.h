// A device that checks and records every call and runs no kernel: what a runtime asks of its device
// can be tested without one. Memory is real (of the C heap), so copies work.
#pragma once

#include <string>

#include "runtime/device_tables.h"

namespace poot::runtime {

class NullDevice final : public Device {
 public:
  NullDevice();
  ~NullDevice() override;
  NullDevice(const NullDevice&) = delete;
  NullDevice& operator=(const NullDevice&) = delete;

  // Calls that were accepted, in order, one line each: "launch module 0 grid 4x1x1 slots 0 2".
  std::vector<std::string> calls() const;

  const DeviceFacts& facts() const override { return facts_; }
  Address allocate(uint64_t bytes) override;
  void free(Address address) override;
  void copy(CopyKind kind, void* to, const void* from, uint64_t bytes) override;
  ModuleId load(std::string_view bytes) override;  // any image of this version, run or not
  void unload(ModuleId module) override;
  void bind(uint32_t slot, Address address) override;
  void launch(const DeviceLaunch& launch, Fault& fault) override;
  std::unique_ptr<const Recording> record(std::span<const DeviceLaunch> launches) override;
  void replay(const Recording& recording, std::span<const Address> slots, Fault& fault) override;
  Event event() override;
  void wait(Event event) override;

 private:
  void log(std::string call);

  const DeviceFacts facts_;
  DeviceTables tables_;
  mutable std::mutex log_mutex_;
  std::vector<std::string> calls_;
};

}  // namespace poot::runtime
