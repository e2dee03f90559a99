# SPDX-License-Identifier: BSD-3-Clause
# Installs the libraries of the modules, their public headers and the files for
# find_package(Lockstep), as component `libraries`. The targets are named Lockstep::core,
# Lockstep::graph and so on.

include(CMakePackageConfigHelpers)
set(_package "${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep")

# core/cuda.hpp and core/hdf5.hpp are only for the code of the modules.
install(
  DIRECTORY "${PROJECT_SOURCE_DIR}/include/lockstep"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  COMPONENT libraries
  PATTERN "core/cuda.hpp" EXCLUDE
  PATTERN "core/hdf5.hpp" EXCLUDE)
install(
  EXPORT Lockstep
  NAMESPACE Lockstep::
  FILE LockstepTargets.cmake
  DESTINATION "${_package}"
  COMPONENT libraries)

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/LockstepConfig.cmake.in" "${PROJECT_BINARY_DIR}/LockstepConfig.cmake"
  INSTALL_DESTINATION "${_package}")
# Before version 1.0, every minor version may change the libraries.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/LockstepConfig.cmake"
        "${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/FindSerialHDF5.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/FindoneDNN.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/FindxxHash.cmake"
  DESTINATION "${_package}"
  COMPONENT libraries)
