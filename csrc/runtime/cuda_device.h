// An NVIDIA GPU as a Device. Its memory and its stream are the host's (torch's caching allocator
// and current stream), so that replays order themselves with the host's own work; where there is no
// such host, memory comes from the driver and work goes to the default stream.
//
// A kernel's fault arrives after the launch returned: see Device::replay.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "runtime/capture.h"
#include "runtime/cuda_driver.h"
#include "runtime/cuda_status.h"
#include "runtime/device_tables.h"
#include "support/hash.h"

namespace poot::runtime::cuda {

// While it lives, the owner's work of the calling thread goes to `stream()`, which may be captured,
// and takes its memory from what the scope was made with.
class CaptureScope {
 public:
  virtual ~CaptureScope() = default;
  virtual Stream stream() = 0;
};

// What the device asks of whoever owns the GPU. Called with the device's context current.
class Owner {
 public:
  virtual ~Owner() = default;
  virtual Address allocate(uint64_t bytes) = 0;  // at least 256-byte aligned; throws
  virtual void free(Address address) = 0;
  virtual Stream stream() = 0;  // the calling thread's current one
  // See Capturer::memory. Null where the owner has no work to capture; throws DeviceError.
  virtual std::shared_ptr<QueueMemory> capture_memory() { return nullptr; }
  // Of memory that capture_memory() gave. Throws DeviceError.
  virtual std::unique_ptr<CaptureScope> begin_capture(QueueMemory& memory) = 0;
};

// Memory of the driver, default stream.
class DriverOwner final : public Owner {
 public:
  explicit DriverOwner(const Driver& driver) : driver_(driver) {}
  Address allocate(uint64_t bytes) override;
  void free(Address address) override;
  Stream stream() override { return nullptr; }
  std::unique_ptr<CaptureScope> begin_capture(QueueMemory& memory) override;

 private:
  const Driver& driver_;
};

struct LoadedModule;
struct CudaLaunch;
struct CudaRecording;
struct ReplayGraph;

class CudaDevice final : public Device, public Capturer {
 public:
  // Throws DeviceError. The driver outlives the device.
  CudaDevice(const Driver& driver, int ordinal, std::unique_ptr<Owner> owner);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const Properties& properties() const { return properties_; }

  const DeviceFacts& facts() const override { return facts_; }
  Address allocate(uint64_t bytes) override;
  void free(Address address) override;
  void copy(CopyKind kind, void* to, const void* from, uint64_t bytes) override;
  // Equal modules are loaded once and kept as long as the device.
  ModuleId load(std::string_view bytes) override;
  void unload(ModuleId module) override;
  void bind(uint32_t slot, Address address) override;
  void launch(const DeviceLaunch& launch, Fault& fault) override;
  std::unique_ptr<const Recording> record(std::span<const DeviceLaunch> launches) override;
  void replay(const Recording& recording, std::span<const Address> slots, Fault& fault) override;
  Event event() override;
  void wait(Event event) override;

  QueueState queue() override;
  std::shared_ptr<QueueMemory> memory() override;
  std::unique_ptr<const Recording> capture(std::span<const CaptureStep> steps,
                                           std::span<const Address> slots,
                                           QueueMemory& memory) override;

 private:
  friend struct CudaRecording;
  std::unique_ptr<CudaRecording> make(std::span<const DeviceLaunch> launches);
  void run(const CudaRecording& recording, std::span<const Address> slots);
  void run_launches(const CudaRecording& r, std::vector<uint64_t>& words, Stream stream);
  void run_graph(const CudaRecording& r, std::vector<uint64_t>& words, Stream stream);
  void build_graph(const CudaRecording& r, std::vector<uint64_t>& words);
  void add_kernels(ReplayGraph& g, const CudaRecording& r, std::vector<uint64_t>& words);
  void instantiate(ReplayGraph& g);
  void take_status(CudaRecording& r);
  GraphNode queue_captured(const CudaLaunch& launch, std::vector<uint64_t>& words, Stream stream,
                           const CudaLaunch* before);
  bool take_fault(const CudaRecording& recording, Fault& fault);
  void forget(const CudaRecording& recording);

  const Driver& driver_;
  const std::unique_ptr<Owner> owner_;
  const Properties properties_;
  const DeviceFacts facts_;
  Context context_ = nullptr;
  DeviceTables tables_;
  StatusPool status_;
  std::mutex mutex_;  // what follows
  std::map<Hash128, std::shared_ptr<const LoadedModule>> loaded_;
  // Replays that nobody has waited for, and where their faults go.
  struct Pending {
    std::vector<Fault*> faults;
    std::shared_ptr<const CudaRecording> kept;  // of single launches
  };
  std::map<const CudaRecording*, Pending> pending_;
  std::map<Event, EventHandle> events_;
};

}  // namespace poot::runtime::cuda
