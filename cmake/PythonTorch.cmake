# ORTHOBATCH_BUILD_PYTHON: on by itself where a Python has the torch that we build against.
# ORTHOBATCH_PYTHON: that interpreter. The system's comes first: its torch is the one that goes with LibTorch's package.

find_program(ORTHOBATCH_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH DOC "The Python whose torch is used")
find_program(ORTHOBATCH_PYTHON NAMES python3)
if(NOT DEFINED ORTHOBATCH_PYTHON_TORCH)
  set(version "")
  if(ORTHOBATCH_PYTHON)
    execute_process(COMMAND ${ORTHOBATCH_PYTHON} -c "import torch; print(torch.__version__)"
      OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  set(ORTHOBATCH_PYTHON_TORCH "${version}" CACHE INTERNAL "Version of Python's torch; empty: none")
endif()
string(REGEX MATCH "^[0-9]+[.][0-9]+" python_torch "${ORTHOBATCH_PYTHON_TORCH}")
string(REGEX MATCH "^[0-9]+[.][0-9]+" built_with "${Torch_VERSION}")
set(fits OFF)
if(python_torch AND (NOT built_with OR python_torch STREQUAL built_with))
  set(fits ${PROJECT_IS_TOP_LEVEL})
endif()
option(ORTHOBATCH_BUILD_PYTHON "Build the operators and the Python package" ${fits})
if(ORTHOBATCH_BUILD_PYTHON AND NOT python_torch)
  message(FATAL_ERROR "ORTHOBATCH_BUILD_PYTHON: expected a Python with torch, but ${ORTHOBATCH_PYTHON} has none")
elseif(ORTHOBATCH_BUILD_PYTHON AND built_with AND NOT python_torch STREQUAL built_with)
  message(FATAL_ERROR "ORTHOBATCH_BUILD_PYTHON: expected Python's torch to be ${built_with} as LibTorch is, "
    "${ORTHOBATCH_PYTHON} has ${ORTHOBATCH_PYTHON_TORCH}")
endif()
