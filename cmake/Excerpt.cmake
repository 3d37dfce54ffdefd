# orthobatch_excerpt(FILE OUTPUT): the one block of C++ in a Markdown file, as a file of its own.
function(orthobatch_excerpt file output)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  string(REGEX MATCHALL "```cpp" blocks "${text}")
  list(LENGTH blocks count)
  string(FIND "${text}" "```cpp\n" begin)
  if(NOT count EQUAL 1 OR begin EQUAL -1)
    message(FATAL_ERROR "${file}: expected one block of C++, found ${count}")
  endif()
  string(SUBSTRING "${text}" ${begin} -1 text)
  string(FIND "${text}" "\n" first)
  string(SUBSTRING "${text}" ${first} -1 text)  # from the end of its first line on
  string(FIND "${text}" "```" end)
  string(SUBSTRING "${text}" 0 ${end} text)
  string(REPLACE "\n   " "\n" text "${text}")  # the block is part of a list
  file(CONFIGURE OUTPUT ${output} CONTENT "${text}" @ONLY)
endfunction()
