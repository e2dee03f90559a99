# SPDX-License-Identifier: BSD-3-Clause
# Finds oneDNN by its header and library, because Debian's CMake package of oneDNN also requires the
# OpenCL headers, which Lockstep does not use. Defines oneDNN::oneDNN and oneDNN_VERSION. Set
# oneDNN_ROOT if oneDNN is installed in another prefix. A oneDNN that was built for another runtime
# than OpenMP is not accepted: its kernels would not run in the threads of a rank, and those of SYCL
# return before the result is complete.

find_path(oneDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(oneDNN_LIBRARY NAMES dnnl)

if(oneDNN_INCLUDE_DIR AND EXISTS "${oneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h")
  file(STRINGS "${oneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" _version_lines
       REGEX "#define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+).*" "\\1.\\2.\\3"
                       oneDNN_VERSION "${_version_lines}")
  file(STRINGS "${oneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_config.h" _runtime_line
       REGEX "#define DNNL_CPU_RUNTIME DNNL_RUNTIME_[A-Z]+")
  string(REGEX REPLACE ".*DNNL_RUNTIME_" "" _runtime "${_runtime_line}")
  if(_runtime STREQUAL "OMP")
    set(oneDNN_OPENMP TRUE)
  else()
    set(oneDNN_reason
        "${oneDNN_INCLUDE_DIR} is of a oneDNN with DNNL_CPU_RUNTIME=${_runtime}. Set oneDNN_ROOT to the \
prefix of one with OMP (conda-forge: onednn-cpu-omp)")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  oneDNN REQUIRED_VARS oneDNN_LIBRARY oneDNN_INCLUDE_DIR oneDNN_OPENMP
  VERSION_VAR oneDNN_VERSION REASON_FAILURE_MESSAGE "${oneDNN_reason}")

if(oneDNN_FOUND AND NOT TARGET oneDNN::oneDNN)
  add_library(oneDNN::oneDNN UNKNOWN IMPORTED)
  set_target_properties(
    oneDNN::oneDNN PROPERTIES IMPORTED_LOCATION "${oneDNN_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES
                                                                    "${oneDNN_INCLUDE_DIR}")
endif()
mark_as_advanced(oneDNN_INCLUDE_DIR oneDNN_LIBRARY)
