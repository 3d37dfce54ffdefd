# The torch to build against: LibTorch by find_package, or with ORTHOBATCH_TORCH_FROM_PYTHON that of a Python. Its
# BLAS. And the C++ standard, which is torch's own.

set(ORTHOBATCH_TORCH_FROM_PYTHON "" CACHE FILEPATH
  "Build the library against the torch that pip installed for this Python; empty: find_package(Torch)")
set(products onednn)
set(python ${ORTHOBATCH_TORCH_FROM_PYTHON})
if(SKBUILD)  # a wheel is for the torch of the Python that makes it; Debian's is LibTorch's package
  set(python ${Python_EXECUTABLE})
endif()
if(python)
  execute_process(COMMAND ${python} ${PROJECT_SOURCE_DIR}/python/packaging/torch_of_python.py
    OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "expected a Python with torch, found none in ${python}; install torch first, and build in that "
      "environment (pip does; uv and build need --no-build-isolation)")
  endif()
endif()
if(ORTHOBATCH_TORCH_FROM_PYTHON OR EXISTS "${folder}/include/ATen/ATen.h")
  include(TorchFromPython)
  orthobatch_torch(${folder})
  message(STATUS "torch ${Torch_VERSION} in ${folder}")
  set(products torch)
else()
  find_package(Torch REQUIRED)
endif()

# C++20 from its first version that asks for it.
set(standard 17)
foreach(folder ${TORCH_INCLUDE_DIRS} /usr/include)
  if(EXISTS ${folder}/ATen/ATen.h)
    file(STRINGS ${folder}/ATen/ATen.h asked REGEX "__cplusplus < 202002L")
    if(asked)
      set(standard 20)
    endif()
    break()
  endif()
endforeach()
set(CMAKE_CXX_STANDARD ${standard})

# at::parallel_for runs on one thread in code compiled without OpenMP. A process has to have one OpenMP: torch's own,
# where it brings one.
find_package(OpenMP REQUIRED)
add_library(orthobatch_openmp INTERFACE)
file(GLOB own_openmp ${TORCH_INSTALL_PREFIX}/lib/libgomp*.so*)
if(TARGET orthobatch::torch AND own_openmp)
  list(GET own_openmp 0 own_openmp)
  target_compile_options(orthobatch_openmp INTERFACE ${OpenMP_CXX_FLAGS})
  target_link_libraries(orthobatch_openmp INTERFACE ${own_openmp})
else()
  target_link_libraries(orthobatch_openmp INTERFACE OpenMP::OpenMP_CXX)
endif()

# What src/core/linalg.cpp calls.
set(ORTHOBATCH_BLAS ${products} CACHE STRING
  "onednn: float products on oneDNN, the rest on the system's BLAS and LAPACK; system: these alone; torch: those in torch")
set_property(CACHE ORTHOBATCH_BLAS PROPERTY STRINGS onednn system torch)
if(NOT ORTHOBATCH_BLAS MATCHES "^(onednn|system|torch)$")
  message(FATAL_ERROR "ORTHOBATCH_BLAS: expected onednn, system or torch, found '${ORTHOBATCH_BLAS}'")
endif()
add_library(orthobatch_blas INTERFACE)
if(ORTHOBATCH_BLAS STREQUAL torch)
  target_link_libraries(orthobatch_blas INTERFACE ${TORCH_LIBRARIES})
else()
  find_package(BLAS REQUIRED)
  find_package(LAPACK REQUIRED)
  target_link_libraries(orthobatch_blas INTERFACE LAPACK::LAPACK BLAS::BLAS)
endif()
if(ORTHOBATCH_BLAS STREQUAL onednn)
  find_package(OneDNN REQUIRED)
  target_link_libraries(orthobatch_blas INTERFACE OneDNN::OneDNN)
endif()
