# A folder of src/ is a room: a static library orthobatch_NAME that may know the rooms it links, and those they
# know. tests/rooms.cmake fails where a file includes from another.
#
#   orthobatch_room(NAME
#     KNOWS ROOM…          folders of src/ it includes from
#     LIBRARIES LIBRARY…   that its headers need
#     PRIVATE LIBRARY…     that only its sources need
#     TORCH                its sources include torch
#     COLD                 compiled with -O1 in Release: the program around the layers, where -O3 only costs time
#     SOURCES FILE…)

option(ORTHOBATCH_UNITY "Compile the files of a room together, which is faster; off: each alone" ON)

function(orthobatch_room name)
  cmake_parse_arguments(room "TORCH;COLD" "" "KNOWS;LIBRARIES;PRIVATE;SOURCES" ${ARGN})
  set(target orthobatch_${name})
  add_library(${target} STATIC ${room_SOURCES})
  target_include_directories(${target} PUBLIC
    ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../src ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../include
    ${PROJECT_BINARY_DIR}/include)
  list(TRANSFORM room_KNOWS PREPEND orthobatch_ OUTPUT_VARIABLE known)
  target_link_libraries(${target} PUBLIC ${known} ${room_LIBRARIES} PRIVATE ${room_PRIVATE})
  orthobatch_flags(${target} ${ARGN})
  string(REPLACE ";" " " known "${room_KNOWS}")
  set_property(GLOBAL APPEND PROPERTY orthobatch_rooms "${name}:${known}")
endfunction()

# FILE of the current folder in a target, compiled once for each generation of vector units; the namespace and the
# macro ORTHOBATCH_LOOPS have the name of the set.
function(orthobatch_loops target file)
  orthobatch_loop_set(${target} ${file} plain)
  if(ORTHOBATCH_X86)
    orthobatch_loop_set(${target} ${file} avx2 -mavx2 -mfma)
    orthobatch_loop_set(${target} ${file} avx512 -mavx2 -mfma -mavx512f -mavx512vl -mavx512bw -mavx512dq
                        -mprefer-vector-width=512 -DORTHOBATCH_LANES=8)
  endif()
endfunction()
function(orthobatch_loop_set target file set)
  get_filename_component(stem ${file} NAME_WE)
  add_library(orthobatch_${stem}_${set} OBJECT ${file})
  target_include_directories(orthobatch_${stem}_${set} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../src)
  target_compile_definitions(orthobatch_${stem}_${set} PRIVATE ORTHOBATCH_LOOPS=${set})
  target_compile_options(orthobatch_${stem}_${set} PRIVATE
    -Wall -Wextra -Wno-psabi -O3 -ffp-contract=fast -fno-math-errno ${ARGN})
  set_target_properties(orthobatch_${stem}_${set} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:orthobatch_${stem}_${set}>)
  set_property(GLOBAL APPEND PROPERTY orthobatch_loops ${stem}_${set})
endfunction()

# The flags of a room, for programs too; the same words, others are passed over.
function(orthobatch_flags target)
  cmake_parse_arguments(room "TORCH;COLD" "" "" ${ARGN})
  target_compile_options(${target} PRIVATE -Wall -Wextra)
  if(room_COLD)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O1>)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ORTHOBATCH_UNITY} UNITY_BUILD_BATCH_SIZE 0)
  # The library shows what its headers mark, and nothing else.
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE -fPIC)  # for programs too: one precompiled header serves the same flags alone
  if(ORTHOBATCH_UNITY)
    # What is anonymous in a file counts as a header's there, since it is included.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  elseif(target STREQUAL orthobatch_nn)  # parsing torch is most of the time that a file takes
    target_precompile_headers(${target} PRIVATE <torch/torch.h>)
  elseif(room_TORCH)
    target_precompile_headers(${target} REUSE_FROM orthobatch_nn)
  endif()
endfunction()
