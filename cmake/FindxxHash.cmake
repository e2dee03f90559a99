# SPDX-License-Identifier: BSD-3-Clause
# Finds xxHash by its header and library, because its package in Debian 12 has no CMake
# configuration. Defines xxHash::xxHash and xxHash_VERSION. Set xxHash_ROOT if xxHash is installed
# in another prefix.

find_path(xxHash_INCLUDE_DIR xxhash.h)
find_library(xxHash_LIBRARY NAMES xxhash)

if(xxHash_INCLUDE_DIR)
  file(STRINGS "${xxHash_INCLUDE_DIR}/xxhash.h" _version_lines
       REGEX "#define XXH_VERSION_(MAJOR|MINOR|RELEASE) ")
  string(REGEX REPLACE ".*MAJOR +([0-9]+).*MINOR +([0-9]+).*RELEASE +([0-9]+).*" "\\1.\\2.\\3"
                       xxHash_VERSION "${_version_lines}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(xxHash REQUIRED_VARS xxHash_LIBRARY xxHash_INCLUDE_DIR
                                  VERSION_VAR xxHash_VERSION)

if(xxHash_FOUND AND NOT TARGET xxHash::xxHash)
  add_library(xxHash::xxHash UNKNOWN IMPORTED)
  set_target_properties(
    xxHash::xxHash PROPERTIES IMPORTED_LOCATION "${xxHash_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES
                                                                    "${xxHash_INCLUDE_DIR}")
endif()
mark_as_advanced(xxHash_INCLUDE_DIR xxHash_LIBRARY)
