# C++ unit tests (googletest). One executable; sources in tests/unit and tests/devices.
file(GLOB POOT_UNIT CONFIGURE_DEPENDS tests/unit/*.cpp tests/devices/*.cpp)
if(POOT_UNIT)
  find_package(GTest REQUIRED)
  add_executable(poot_unit ${POOT_UNIT})
  target_compile_options(poot_unit PRIVATE ${POOT_WARNINGS} -O1)
  target_precompile_headers(poot_unit PRIVATE csrc/support/standard_library.h <gtest/gtest.h>)
  set_source_files_properties(tests/unit/source_dir.cpp PROPERTIES
    COMPILE_DEFINITIONS POOT_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_link_libraries(poot_unit PRIVATE poot_core GTest::gtest_main)
endif()
