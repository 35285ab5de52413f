#include "source_dir.h"

namespace poot {

std::string source_dir() {
  return POOT_SOURCE_DIR;
}

}  // namespace poot
