// PTX to machine code through nvJitLink, the library that CUDA builds of torch bring. Unlike the
// driver's own compiler, which holds one lock for the process, it may run in many threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace poot::runtime {

class NvJitLink {
 public:
  // Opens what the process has loaded already, else the first of `paths` (files) that opens; null
  // if there is none.
  static std::unique_ptr<const NvJitLink> open(const std::vector<std::string>& paths);
  // Machine code for `arch` ("sm_90a"). Throws CompileError with the library's log.
  std::string link(const std::string& ptx, const std::string& arch) const;
  const std::string& version() const { return version_; }  // "13.0"

 private:
  struct Functions;
  explicit NvJitLink(const Functions& functions);
  std::shared_ptr<const Functions> functions_;
  std::string version_;
};

}  // namespace poot::runtime
