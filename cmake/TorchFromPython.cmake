# The torch that pip installs, as a target: its own CMake package stops without a CUDA toolkit, though its libraries
# need none. Part of the installed package, too.
#
#   orthobatch_torch(FOLDER)   makes orthobatch::torch of site-packages/torch, and sets what find_package(Torch) does

function(orthobatch_torch folder)
  set(found)
  if(EXISTS ${folder}/version.py)
    file(STRINGS ${folder}/version.py found REGEX "^__version__")
  endif()
  if(NOT found MATCHES "([0-9]+[.][0-9]+[.][0-9]+)" OR NOT EXISTS ${folder}/include/ATen/ATen.h)
    message(FATAL_ERROR "expected torch, as pip installs it, in ${folder}; found no version.py and include/ there")
  endif()
  set(Torch_VERSION ${CMAKE_MATCH_1} PARENT_SCOPE)
  set(TORCH_INSTALL_PREFIX ${folder} PARENT_SCOPE)
  set(TORCH_INCLUDE_DIRS ${folder}/include ${folder}/include/torch/csrc/api/include PARENT_SCOPE)
  set(TORCH_LIBRARIES orthobatch::torch PARENT_SCOPE)
  set(flags)
  file(STRINGS ${folder}/share/cmake/Torch/TorchConfig.cmake abi REGEX "_GLIBCXX_USE_CXX11_ABI=[01]")
  if(abi MATCHES "_GLIBCXX_USE_CXX11_ABI=([01])")  # of std::string: 0 in the wheels before 2.7
    set(flags -D_GLIBCXX_USE_CXX11_ABI=${CMAKE_MATCH_1})
  endif()
  set(TORCH_CXX_FLAGS ${flags} PARENT_SCOPE)
  if(NOT TARGET orthobatch::torch)
    add_library(orthobatch::torch INTERFACE IMPORTED GLOBAL)
    target_include_directories(orthobatch::torch SYSTEM INTERFACE
      ${folder}/include ${folder}/include/torch/csrc/api/include)
    target_compile_options(orthobatch::torch INTERFACE ${flags})
    target_link_libraries(orthobatch::torch INTERFACE
      ${folder}/lib/libtorch.so ${folder}/lib/libtorch_cpu.so ${folder}/lib/libc10.so)
  endif()
endfunction()
