// Golden files: a test compares text with a file under tests/; POOT_BLESS=1 rewrites the file.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "source_dir.h"
#include "support/env.h"

namespace poot::testing {

inline void expect_golden(const std::string& path, const std::string& actual) {
  const std::string file = source_dir() + "/tests/" + path;
  if (env::flag(env::Var::POOT_BLESS)) {
    std::ofstream(file, std::ios::binary) << actual;
    return;
  }
  std::ifstream in(file, std::ios::binary);
  ASSERT_TRUE(in) << file << " is missing; POOT_BLESS=1 writes it";
  std::stringstream expected;
  expected << in.rdbuf();
  EXPECT_EQ(actual, expected.str()) << "POOT_BLESS=1 rewrites " << file;
}

}  // namespace poot::testing
