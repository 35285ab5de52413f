// Weights in the layouts that the library computes in, kept between calls (option freeze).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "program/program.h"
#include "runtime/host_services.h"

namespace poot::binding {

// One a program. A weight is packed when a call first needs it, multiplied by the call's scale if
// it has one; all are forgotten when one of them is another tensor or was written since (its
// version counter tells; writes that go past autograd, as through `.data`, do not count), and one
// whose scale or shift has other values is packed anew. Calls from several threads are fine.
class PackedWeights {
 public:
  // Positions of the arguments that packed calls read as weights.
  explicit PackedWeights(const program::Program& program);
  bool empty() const { return positions_.empty(); }
  // At the start of each call.
  void follow(const std::vector<at::Tensor>& arguments);
  // library.def's convolution_packed.
  at::Tensor convolution(std::span<const runtime::TensorRef> inputs, std::span<const int64_t> ints);
  // library.def's linear_packed.
  at::Tensor linear(std::span<const runtime::TensorRef> inputs, std::span<const int64_t> ints);

 private:
  struct Seen {
    const void* data;
    uint32_t version;
    bool operator==(const Seen&) const = default;
  };
  struct Packed {
    at::Tensor weight, bias;
    at::Tensor scale, shift;  // copies of what they were packed with
  };
  Packed packed(const int64_t* call, std::span<const at::Tensor> inputs,
                const std::function<at::Tensor(const at::Tensor&)>& pack);
  std::vector<uint32_t> positions_;
  std::mutex mutex_;
  std::vector<Seen> seen_;
  std::map<const int64_t*, Packed> packed_;  // by the call's attributes, which are its own
};

}  // namespace poot::binding
