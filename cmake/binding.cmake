# _C: the only target that sees torch. Built against the torch of the interpreter in use.
file(GLOB POOT_BINDING_SOURCES CONFIGURE_DEPENDS csrc/binding/*.cpp)
if(POOT_BINDING_SOURCES)
  execute_process(COMMAND ${Python_EXECUTABLE} -c "import torch; print(torch.utils.cmake_prefix_path)"
    OUTPUT_VARIABLE TORCH_PREFIX OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE TORCH_MISSING)
  execute_process(COMMAND ${Python_EXECUTABLE} -m pybind11 --cmakedir
    OUTPUT_VARIABLE PYBIND11_DIR OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE PYBIND11_MISSING)
  if(TORCH_MISSING OR PYBIND11_MISSING)
    message(FATAL_ERROR "the binding needs torch and pybind11 in ${Python_EXECUTABLE}, or -DPOOT_BINDING=OFF")
  endif()
  get_filename_component(TORCH_ROOT "${TORCH_PREFIX}/../.." ABSOLUTE)
  set(PYBIND11_FINDPYTHON ON)
  find_package(pybind11 CONFIG REQUIRED PATHS ${PYBIND11_DIR})
  Python_add_library(_C MODULE WITH_SOABI ${POOT_BINDING_SOURCES})
  # torch's headers bring their own pybind11, which must be the one used: it shares internals with torch.
  target_include_directories(_C SYSTEM PRIVATE
    ${TORCH_ROOT}/include ${TORCH_ROOT}/include/torch/csrc/api/include)
  target_compile_options(_C PRIVATE ${POOT_WARNINGS} -Wno-unused-parameter -Wno-deprecated-declarations)
  target_link_directories(_C PRIVATE ${TORCH_ROOT}/lib)
  target_link_libraries(_C PRIVATE poot_core torch_python torch torch_cpu c10)
  set_target_properties(_C PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${POOT_OUTPUT_DIR}
    BUILD_RPATH "" SKIP_BUILD_RPATH ON)
endif()
