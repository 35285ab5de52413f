// Pieces of the text form that messages use too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace poot::ir {

// How the text names each value, by ValueId: "%x" for inputs with a name of their own, "%a0" for
// others, "%0", "%1", … for results in order; "%?" for values that nothing defines.
std::vector<std::string> value_names(const Graph& graph);
std::string eqn_text(const Graph& graph, size_t eqn);  // one equation, without its body

bool is_identifier(std::string_view s);           // [A-Za-z_][A-Za-z0-9_.]*
bool is_reserved_input_name(std::string_view s);  // a0, a1, …
std::string_view storage_name(Storage s);         // "const"
std::string quoted(std::string_view s);

}  // namespace poot::ir
