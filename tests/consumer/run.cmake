# Installs the build into a fresh prefix, builds the consumer against it alone, and runs it.
set(prefix ${BUILD}/consumer-prefix)
set(tree ${BUILD}/consumer-build)
file(REMOVE_RECURSE ${prefix} ${tree})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed (${result}): ${ARGN}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${tree} -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_FLAGS=${FLAGS})
run(${CMAKE_COMMAND} --build ${tree})
run(${tree}/consumer)
if(EXISTS ${prefix}/bin/orthobatch)
  run(${prefix}/bin/orthobatch --version)
endif()
