# poot-kernelc: the only target that sees LLVM. Links it statically; knows no torch and no Python.
execute_process(COMMAND ${Python_EXECUTABLE} -m mlc_llvm_static.config --cmake-dir
  OUTPUT_VARIABLE SDK_CMAKE_DIR OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE SDK_MISSING)
execute_process(COMMAND ${Python_EXECUTABLE} -m mlc_llvm_static.config --prefix
  OUTPUT_VARIABLE SDK_PREFIX OUTPUT_STRIP_TRAILING_WHITESPACE)
if(SDK_MISSING)
  message(FATAL_ERROR "the LLVM SDK is missing: pip install 'mlc-llvm-static[all]', or -DPOOT_WORKER=OFF")
endif()
set(LLVM_DIR ${SDK_CMAKE_DIR})
list(PREPEND CMAKE_PREFIX_PATH ${SDK_PREFIX})
set(ZLIB_USE_STATIC_LIBS ON)
find_package(LLVM REQUIRED CONFIG)
if(NOT LLVM_VERSION_MAJOR EQUAL POOT_LLVM_MAJOR)
  message(FATAL_ERROR "the worker is written for LLVM ${POOT_LLVM_MAJOR}, the SDK is ${LLVM_VERSION}")
endif()

# The backends that csrc/codegen/llvm/targets.def names.
set(POOT_LLVM_TARGETS X86 AArch64 NVPTX)
set(COMPONENTS Core Passes Support Target MC)
foreach(T ${POOT_LLVM_TARGETS})
  list(APPEND COMPONENTS ${T}CodeGen ${T}Desc ${T}Info)
endforeach()
llvm_map_components_to_libnames(POOT_LLVM_LIBS ${COMPONENTS})

file(GLOB POOT_WORKER_SOURCES CONFIGURE_DEPENDS csrc/codegen/llvm/*.cpp)
add_executable(poot-kernelc csrc/tools/kernelc.cpp ${POOT_WORKER_SOURCES} ${POOT_BUILD_ID_HEADER})
target_include_directories(poot-kernelc SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
separate_arguments(LLVM_DEFS NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_options(poot-kernelc PRIVATE ${POOT_WARNINGS} ${LLVM_DEFS} -fno-rtti)
target_link_libraries(poot-kernelc PRIVATE poot_base ${POOT_LLVM_LIBS})
target_link_options(poot-kernelc PRIVATE -Wl,--gc-sections -s)
set_target_properties(poot-kernelc PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${POOT_OUTPUT_DIR}/bin)
