// Where the checkout lies: only source_dir.cpp is compiled with the path, so that the objects of
// every other test are the same in every checkout (and a compiler cache can share them).
#pragma once

namespace poot {

std::string source_dir();

}  // namespace poot
