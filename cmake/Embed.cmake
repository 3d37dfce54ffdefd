# Text files as constants of the program, so that it finds them wherever it is run.
#
#   orthobatch_embed(NAME FILE…)   makes include/embedded/NAME.h in the build tree: embedded_NAME, a list of
#                                  EmbeddedFile
#
# The same file is the script that writes the header, again whenever one of the files changes.

if(CMAKE_SCRIPT_MODE_FILE)
  set(text "#pragma once\n// Written by cmake/Embed.cmake.\n\n#include \"io/embedded.h\"\n\n")
  string(APPEND text "namespace orthobatch::io {\n\ninline const EmbeddedFile embedded_${NAME}[] = {\n")
  separate_arguments(FILES UNIX_COMMAND "${FILES}")
  foreach(file IN LISTS FILES)
    file(READ "${FOLDER}/${file}" content)
    get_filename_component(name "${file}" NAME)
    string(FIND "${content}" ")EMBEDDED\"" clash)
    if(NOT clash EQUAL -1)
      message(FATAL_ERROR "${file}: expected no )EMBEDDED\" in it")
    endif()
    string(APPEND text "    {\"${name}\", R\"EMBEDDED(${content})EMBEDDED\"},\n")
  endforeach()
  file(WRITE "${OUTPUT}" "${text}};\n\n}  // namespace orthobatch::io\n")
  return()
endif()

function(orthobatch_embed name)
  set(output ${PROJECT_BINARY_DIR}/include/embedded/${name}.h)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  string(REPLACE ";" " " list "${ARGN}")  # names in the tree, which have no spaces; its own path may
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DOUTPUT=${output} -DFOLDER=${PROJECT_SOURCE_DIR} "-DFILES=${list}"
            -P ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
    COMMENT "Embedding ${name}"
    VERBATIM)
endfunction()
