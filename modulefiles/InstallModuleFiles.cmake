# SPDX-License-Identifier: BSD-3-Clause
# Generates the module files during installation, because the prefix is not known earlier. Lmod
# reads VERSION.lua, and Environment Modules reads VERSION; both files are in the same folder.
# CMakeLists.txt sets the variables. The environment variable LOCKSTEP_MODULES lists the modules
# that the program needs, separated by blanks, for example "openmpi/4.1.4 hdf5"; they are loaded as
# well.

# In strings of Tcl, the characters $ and [ start substitutions.
string(REGEX REPLACE "([\\\"$[])" "\\\\\\1" PREFIX_TCL "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "([\\\"])" "\\\\\\1" PREFIX_LUA "${CMAKE_INSTALL_PREFIX}")
string(REGEX MATCHALL "[^ ]+" modules "$ENV{LOCKSTEP_MODULES}")
set(DEPENDENCIES_TCL "")
set(DEPENDENCIES_LUA "")
foreach(module IN LISTS modules)
  if(NOT module MATCHES "^[A-Za-z0-9_.+/@=~-]+$")
    message(
      FATAL_ERROR
        "LOCKSTEP_MODULES: '${module}' is not the name of a module; separate names by blanks")
  endif()
  string(APPEND DEPENDENCIES_TCL "depends-on ${module}\n")
  string(APPEND DEPENDENCIES_LUA "depends_on(\"${module}\")\n")
endforeach()
foreach(language IN ITEMS tcl lua)
  set(file "${GENERATED}/${PROJECT_VERSION}")
  if(language STREQUAL "lua")
    string(APPEND file ".lua")
  endif()
  configure_file("${CMAKE_CURRENT_LIST_DIR}/lockstep.${language}.in" "${file}" @ONLY)
  file(INSTALL "${file}"
       DESTINATION "${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/modulefiles/lockstep")
endforeach()
