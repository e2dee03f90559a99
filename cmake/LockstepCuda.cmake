# SPDX-License-Identifier: BSD-3-Clause
# Finds the dependencies of the GPU backend: CUDA toolkit, cuDNN, cudnn-frontend (headers) and NCCL.
# Sets LOCKSTEP_HAS_CUDA if all of them are found and LOCKSTEP_CUDA is not off. If some are missing,
# the feature summary lists them; with LOCKSTEP_CUDA=on, configuring fails. Nothing is downloaded.
#
# Besides the default paths of CMake, these are searched: CUDAToolkit_ROOT, CUDNN_ROOT, NCCL_ROOT
# and CUDNN_FRONTEND_ROOT (all as CMake or environment variables), build/cudnn-frontend (jobs/setup
# --cuda), the folders of the toolkit, and the Python packages nvidia-cudnn-frontend,
# nvidia-cudnn-cu13 and nvidia-nccl-cu13 of the first python3 in PATH.

# Sets PREFIX_VERSION to the version in the header FILE, if it exists, and adds NAME to _missing if
# it is older than OLDEST.
macro(_lockstep_require_version PREFIX OLDEST NAME FILE)
  if(EXISTS "${FILE}")
    file(STRINGS "${FILE}" _lines REGEX "#define ${PREFIX}_(MAJOR|MINOR)")
    string(REGEX REPLACE ".*MAJOR[A-Z_]* +([0-9]+).*MINOR[A-Z_]* +([0-9]+).*" "\\1.\\2"
                         ${PREFIX}_VERSION "${_lines}")
    if(${PREFIX}_VERSION VERSION_LESS ${OLDEST})
      list(APPEND _missing "${NAME} ${OLDEST} or newer (found ${${PREFIX}_VERSION})")
    endif()
  endif()
endmacro()

set(LOCKSTEP_HAS_CUDA FALSE)
if(NOT LOCKSTEP_CUDA MATCHES "^(auto|on|off)$")
  message(FATAL_ERROR "LOCKSTEP_CUDA=${LOCKSTEP_CUDA}: the value must be auto, on or off")
endif()
set(_missing "")
if(NOT LOCKSTEP_CUDA STREQUAL "off")
  find_package(CUDAToolkit 12.0 QUIET)
  if(CUDAToolkit_FOUND)
    find_program(_python python3)
    if(_python)
      execute_process(
        COMMAND "${_python}" -c "import site, sys; print(';'.join(site.getsitepackages()))"
        OUTPUT_VARIABLE _site OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
    set(_toolkit ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/lib
                 ${CUDAToolkit_LIBRARY_ROOT}/lib64)
    find_path(CUDNN_INCLUDE_DIR cudnn_version.h HINTS ${CUDNN_ROOT} $ENV{CUDNN_ROOT}
                                                      ${CUDAToolkit_INCLUDE_DIRS} ${_site}
              PATH_SUFFIXES include nvidia/cudnn/include)
    find_library(
      CUDNN_LIBRARY
      NAMES cudnn libcudnn.so.9 NAMES_PER_DIR
      HINTS ${CUDNN_ROOT} $ENV{CUDNN_ROOT} ${_toolkit} ${_site}
      PATH_SUFFIXES lib lib64 nvidia/cudnn/lib)
    find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${NCCL_ROOT} $ENV{NCCL_ROOT} ${CUDAToolkit_INCLUDE_DIRS}
                                            ${_site} PATH_SUFFIXES include nvidia/nccl/include)
    find_library(
      NCCL_LIBRARY
      NAMES nccl libnccl.so.2 NAMES_PER_DIR
      HINTS ${NCCL_ROOT} $ENV{NCCL_ROOT} ${_toolkit} ${_site}
      PATH_SUFFIXES lib lib64 nvidia/nccl/lib)
    find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
              HINTS ${CUDNN_FRONTEND_ROOT} $ENV{CUDNN_FRONTEND_ROOT}
                    "${PROJECT_SOURCE_DIR}/build/cudnn-frontend" ${_site} PATH_SUFFIXES include)
    foreach(_part CUDNN_INCLUDE_DIR CUDNN_LIBRARY NCCL_INCLUDE_DIR NCCL_LIBRARY
                  CUDNN_FRONTEND_INCLUDE_DIR)
      mark_as_advanced(${_part})
      if(NOT ${_part})
        list(APPEND _missing ${_part})
      endif()
    endforeach()
  else()
    list(APPEND _missing "the CUDA toolkit (12.0 or newer)")
  endif()
  # The oldest versions that have every function that is used. At run time, the program refuses
  # older libraries.
  set(_oldest_CUDNN 9.10)
  set(_oldest_NCCL 2.27)
  _lockstep_require_version(CUDNN ${_oldest_CUDNN} "cuDNN" "${CUDNN_INCLUDE_DIR}/cudnn_version.h")
  _lockstep_require_version(NCCL ${_oldest_NCCL} "NCCL" "${NCCL_INCLUDE_DIR}/nccl.h")
  _lockstep_require_version(CUDNN_FRONTEND 1.27 "cudnn-frontend"
                            "${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h")
  string(REPLACE ";" ", " _missing "${_missing}")
  if(_missing STREQUAL "")
    set(LOCKSTEP_HAS_CUDA TRUE)
  elseif(LOCKSTEP_CUDA STREQUAL "on")
    message(
      FATAL_ERROR
        "LOCKSTEP_CUDA=on requires missing dependencies: ${_missing}. docs/install.md describes how to "
        "install them; cmake/LockstepCuda.cmake lists the search paths. Use --preset cpu to build without "
        "the GPU backend.")
  endif()
endif()

if(LOCKSTEP_HAS_CUDA)
  # Machine code for every supported GPU architecture that this toolkit can compile for.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "75-real;80-real;86-real;89-real;90-real")
    if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8)
      list(APPEND CMAKE_CUDA_ARCHITECTURES "100-real")
    endif()
    list(APPEND CMAKE_CUDA_ARCHITECTURES "90-virtual") # PTX for newer architectures
  endif()
  enable_language(CUDA)
  foreach(_library CUDNN NCCL)
    add_library(${_library}::${_library} UNKNOWN IMPORTED)
    string(REGEX MATCH "([0-9]+)\\.([0-9]+)" _oldest ${_oldest_${_library}})
    math(EXPR _oldest "100 * ${CMAKE_MATCH_1} + ${CMAKE_MATCH_2}")
    set_target_properties(
      ${_library}::${_library}
      PROPERTIES IMPORTED_LOCATION "${${_library}_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES
                                                            "${${_library}_INCLUDE_DIR}"
                 INTERFACE_COMPILE_DEFINITIONS "LOCKSTEP_OLDEST_${_library}=${_oldest}")
  endforeach()
  add_library(cudnn_frontend INTERFACE IMPORTED)
  set_target_properties(cudnn_frontend PROPERTIES INTERFACE_INCLUDE_DIRECTORIES
                                                  "${CUDNN_FRONTEND_INCLUDE_DIR}")
  target_link_libraries(cudnn_frontend INTERFACE CUDNN::CUDNN CUDA::cudart)
  set(_found
      "CUDA ${CUDAToolkit_VERSION}, cuDNN ${CUDNN_VERSION}, NCCL ${NCCL_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}"
  )
elseif(LOCKSTEP_CUDA STREQUAL "off")
  set(_found "LOCKSTEP_CUDA=off")
else()
  set(_found "missing: ${_missing}")
endif()
add_feature_info("CUDA" LOCKSTEP_HAS_CUDA "GPU backend (${_found})")
