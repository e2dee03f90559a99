# Generates the module files during installation, because the prefix is not known earlier. Lmod reads VERSION.lua, and
# Environment Modules reads VERSION; both files are in the same folder. CMakeLists.txt sets the variables.

# In strings of Tcl, the characters $ and [ start substitutions.
string(REGEX REPLACE "([\\\"$[])" "\\\\\\1" PREFIX_TCL "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "([\\\"])" "\\\\\\1" PREFIX_LUA "${CMAKE_INSTALL_PREFIX}")
foreach(language IN ITEMS tcl lua)
  set(file "${GENERATED}/${PROJECT_VERSION}")
  if(language STREQUAL "lua")
    string(APPEND file ".lua")
  endif()
  configure_file("${CMAKE_CURRENT_LIST_DIR}/lockstep.${language}.in" "${file}" @ONLY)
  file(INSTALL "${file}" DESTINATION "${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/modulefiles/lockstep")
endforeach()
