// The CPU as a Device: images run on the calling thread, or over the host's thread team where a
// launch touches enough. Every call has done its work when it returns, so events are only counted.
#pragma once

#include "runtime/device_tables.h"
#include "runtime/host_services.h"
#include "runtime/kernel_store.h"

namespace poot::runtime {

class CpuDevice final : public Device {
 public:
  // `host` gives memory and threads, and outlives the device.
  explicit CpuDevice(HostServices& host);
  ~CpuDevice() override;
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  // A module of an image that is mapped already.
  ModuleId adopt(std::shared_ptr<const Image> image);

  const DeviceFacts& facts() const override { return facts_; }
  Address allocate(uint64_t bytes) override;
  void free(Address address) override;
  void copy(CopyKind kind, void* to, const void* from, uint64_t bytes) override;
  ModuleId load(std::string_view bytes) override;
  void unload(ModuleId module) override;
  void bind(uint32_t slot, Address address) override;
  void launch(const DeviceLaunch& launch, Fault& fault) override;
  std::unique_ptr<const Recording> record(std::span<const DeviceLaunch> launches) override;
  void replay(const Recording& recording, std::span<const Address> slots, Fault& fault) override;
  Event event() override;
  void wait(Event event) override;

 private:
  HostServices& host_;
  const DeviceFacts facts_;
  DeviceTables tables_;
};

}  // namespace poot::runtime
