# ORTHOBATCH_BUILD_PYTHON: ON, OFF, or AUTO: where a Python has the torch that we build against. Sets with_python.
# ORTHOBATCH_PYTHON: that interpreter. The system's comes first: its torch is the one that goes with LibTorch's package.

set(ORTHOBATCH_BUILD_PYTHON AUTO CACHE STRING "Build the operators and the Python package: ON, OFF, AUTO")
find_program(ORTHOBATCH_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH DOC "The Python whose torch is used")
find_program(ORTHOBATCH_PYTHON NAMES python3)
set(with_python OFF)
if(TARGET orthobatch::torch AND ORTHOBATCH_TORCH_FROM_PYTHON)
  set(ORTHOBATCH_PYTHON ${ORTHOBATCH_TORCH_FROM_PYTHON} CACHE FILEPATH "The Python whose torch is used" FORCE)
  if(ORTHOBATCH_BUILD_PYTHON)
    set(with_python ON)
  endif()
elseif(SKBUILD)
elseif(ORTHOBATCH_BUILD_PYTHON AND (NOT ORTHOBATCH_BUILD_PYTHON STREQUAL AUTO OR PROJECT_IS_TOP_LEVEL))
  if(ORTHOBATCH_PYTHON AND NOT ORTHOBATCH_PYTHON_TORCH)  # asked again where there was none
    execute_process(COMMAND ${ORTHOBATCH_PYTHON} -c "import torch; print(torch.__version__)"
      OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    set(ORTHOBATCH_PYTHON_TORCH "${version}" CACHE INTERNAL "Version of Python's torch; empty: none")
  endif()
  string(REGEX MATCH "^[0-9]+[.][0-9]+" python_torch "${ORTHOBATCH_PYTHON_TORCH}")
  string(REGEX MATCH "^[0-9]+[.][0-9]+" built_with "${Torch_VERSION}")
  if(python_torch AND (NOT built_with OR python_torch STREQUAL built_with))
    set(with_python ON)
  elseif(NOT ORTHOBATCH_BUILD_PYTHON STREQUAL AUTO)
    message(FATAL_ERROR "ORTHOBATCH_BUILD_PYTHON: expected a Python with torch ${built_with}, as LibTorch is; "
      "${ORTHOBATCH_PYTHON} has '${ORTHOBATCH_PYTHON_TORCH}'")
  endif()
endif()
