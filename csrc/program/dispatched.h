// Operators that are library calls although no plan names them: those of library_dispatched.def,
// and custom ones.
#pragma once

#include <string_view>

namespace poot::program {

// Why an operator ("aten.sort.stable", or without its overload; "higher_order.cond") is a library
// call although it goes through the dispatcher; empty for one that is a fallback.
std::string_view dispatched_reason(std::string_view target);

}  // namespace poot::program
