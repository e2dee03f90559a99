# SPDX-License-Identifier: BSD-3-Clause
# Finds the serial HDF5 with CMake's FindHDF5 and its variables (HDF5_ROOT, HDF5_VERSION). The
# targets hdf5::hdf5 and hdf5::hdf5_hl are created here, because FindHDF5 (CMake 3.25 to 4.3) ends
# with an error instead if the library is not called libhdf5: h5cc of HDF5 2.2 in Debian names
# libhdf5_serial.

foreach(_target IN ITEMS hdf5::hdf5 hdf5::hdf5_hl)
  if(NOT TARGET ${_target})
    add_library(${_target} INTERFACE IMPORTED)
    list(APPEND SerialHDF5_created ${_target})
  endif()
endforeach()

set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 ${SerialHDF5_FIND_VERSION} QUIET COMPONENTS C HL)
foreach(_target IN LISTS SerialHDF5_created)
  set_target_properties(
    ${_target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${HDF5_C_INCLUDE_DIRS}"
                          INTERFACE_LINK_LIBRARIES "${HDF5_C_HL_LIBRARIES};${HDF5_C_LIBRARIES}")
  string(REPLACE "-D" "" _definitions "${HDF5_C_DEFINITIONS}")
  set_property(TARGET ${_target} PROPERTY INTERFACE_COMPILE_DEFINITIONS ${_definitions})
endforeach()
unset(SerialHDF5_created)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  SerialHDF5 REQUIRED_VARS HDF5_C_LIBRARIES HDF5_C_HL_LIBRARIES HDF5_C_INCLUDE_DIRS
  VERSION_VAR HDF5_VERSION)
