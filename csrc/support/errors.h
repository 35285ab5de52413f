// Typed errors of poot. Every failure that a user can meet is one of these kinds; each is mirrored
// in Python under `poot_torch.PootError`. The message names what to change.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace poot {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A graph, tile program or KIR function breaks a rule. `constraint` is the rule's id
// ("transpose-C2"); `where` is the equation, value, or line:column of the text.
class InvalidGraph : public Error {
 public:
  InvalidGraph(std::string constraint, std::string where, const std::string& detail)
      : Error("InvalidGraph " + constraint + " at " + where + ": " + detail),
        constraint_(std::move(constraint)),
        where_(std::move(where)),
        detail_(detail) {}
  const std::string& constraint() const { return constraint_; }
  const std::string& where() const { return where_; }
  const std::string& detail() const { return detail_; }

 private:
  std::string constraint_, where_, detail_;
};

// The program is valid, but this build or target cannot do it: names the equation and the
// missing capability.
class Unsupported : public Error {
 public:
  Unsupported(const std::string& what, const std::string& missing)
      : Error("Unsupported: " + what + ": " + missing) {}
};

// The kernel compiler refused, crashed or timed out; `reproducer` is the KIR text it was given.
class CompileError : public Error {
 public:
  CompileError(const std::string& detail, std::string reproducer)
      : Error("CompileError: " + detail), reproducer_(std::move(reproducer)) {}
  const std::string& reproducer() const { return reproducer_; }

 private:
  std::string reproducer_;
};

// A device or its driver failed.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& detail) : Error("DeviceError: " + detail) {}
};

// A bug in poot.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& detail) : Error("InternalError: " + detail) {}
};

}  // namespace poot
