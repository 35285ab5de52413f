// A relocatable x86-64 ELF object becomes an image (program/image_format.h).
//
// Throws InvalidGraph with the rule that the object breaks:
//   flatten-C1  it is a relocatable x86-64 object with a symbol table, and whole
//   flatten-C2  no symbol is undefined: an image calls nothing
//   flatten-C3  no section is writable, thread-local or without contents
//   flatten-C4  every relocation is PC-relative and inside the image
//   flatten-C5  the entry is a function of it
#pragma once

#include <string>
#include <string_view>

namespace poot::codegen {

std::string flatten(std::string_view object, std::string_view entry);

}  // namespace poot::codegen
