// The text of a request, by which equal kernels are found, and the names of kernels.
#include "passes/request.h"

#include <algorithm>
#include <bit>

namespace poot::passes {

namespace {

std::string_view kind_name(RequestKind kind) {
  switch (kind) {
    case RequestKind::Elementwise:
      return "elementwise";
    case RequestKind::Row:
      return "row";
    case RequestKind::Reduce:
      return "reduce";
    case RequestKind::Scan:
      return "scan";
    case RequestKind::ScanParts:
      return "scan_parts";
    case RequestKind::Contraction:
      return "contraction";
    case RequestKind::Scatter:
      return "scatter";
  }
  return "?";
}

void append_layouts(std::string& text, std::string_view what,
                    const std::vector<ir::Layout>& layouts) {
  for (const ir::Layout& l : layouts) {
    text += std::string(what) + " strides " + poot::str(l.strides) + " offset " + l.offset.str() +
            " align " + std::to_string(l.align) + "\n";
  }
}

}  // namespace

int64_t cascade_steps(const Dim& positions) {
  constexpr int kLeastPower = 4, kLevels = 4;
  const auto size = static_cast<uint64_t>(positions.is_const() ? positions.value() : 0);
  const int power = size > 1 ? static_cast<int>(std::bit_width(size - 1)) : 0;  // of two, from size
  return int64_t{1} << std::max(kLeastPower, power / kLevels);
}

std::string KernelRequest::str() const {
  std::string text = "request " + std::string(kind_name(kind)) + "\n";
  append_layouts(text, "input", inputs);
  append_layouts(text, "output", outputs);
  for (size_t i = 0; i < in_place.size(); ++i) {
    if (in_place[i] >= 0)
      text +=
          "output " + std::to_string(i) + " overwrites input " + std::to_string(in_place[i]) + "\n";
  }
  if (!parts.is_const(1)) text += "parts " + parts.str() + "\n";
  if (any_order) text += "in any order\n";
  return text + body->str();
}

}  // namespace poot::passes
