# SPDX-License-Identifier: BSD-3-Clause
# Common compiler settings, and the functions with which every folder declares its targets.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

# Compiler options and include paths of all Lockstep targets.
add_library(lockstep_settings INTERFACE)
target_compile_features(lockstep_settings INTERFACE cxx_std_20)
target_include_directories(
  lockstep_settings INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                              "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
# The programs of others that use the installed libraries choose their own warnings and
# optimisation.
set(_options
    $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion>
    # GCC 12 reports false -Wrestrict warnings about overlaps in std::string (GCC bug 105651).
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
    # In a unity build, GCC takes the sources for headers, which should not use unnamed namespaces.
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>,$<BOOL:${CMAKE_UNITY_BUILD}>>:-Wno-subobject-linkage>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${LOCKSTEP_WERROR}>>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${LOCKSTEP_WERROR}>>:-Werror=all-warnings>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:RelWithDebInfo>>:-O3>
)# -O2 does not vectorise feature-map loops
target_compile_options(lockstep_settings INTERFACE "$<BUILD_INTERFACE:${_options}>")
if(LOCKSTEP_SANITIZERS)
  target_compile_options(
    lockstep_settings INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${LOCKSTEP_SANITIZERS}
                                -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(lockstep_settings INTERFACE -fsanitize=${LOCKSTEP_SANITIZERS})
endif()

# Optimisation of the modules whose own loops take no measurable time: they compile faster.
add_library(lockstep_no_hot_loops INTERFACE)
target_compile_options(lockstep_no_hot_loops
                       INTERFACE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:RelWithDebInfo>>:-O1>)

# lockstep_export(NAME) installs the target `lockstep_NAME`, which other projects link as
# `Lockstep::NAME`.
function(lockstep_export name)
  set_target_properties(lockstep_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS lockstep_${name} EXPORT Lockstep ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
                                                           COMPONENT libraries)
endfunction()
lockstep_export(settings)

# lockstep_module(NAME [NO_HOT_LOOPS] SOURCES ... [USES modules...] [LIBRARIES imported targets...])
# Declares the module NAME: a folder under src, built as the static library `lockstep_NAME`. USES
# lists the modules whose headers it may include. A module with public headers is installed as the
# library `Lockstep::NAME` (LockstepPackage.cmake). NO_HOT_LOOPS: the module is compiled with -O1.
function(lockstep_module name)
  cmake_parse_arguments(PARSE_ARGV 1 module "NO_HOT_LOOPS" "" "SOURCES;USES;LIBRARIES")
  add_library(lockstep_${name} STATIC ${module_SOURCES})
  list(TRANSFORM module_USES PREPEND lockstep_)
  target_link_libraries(lockstep_${name} PUBLIC lockstep_settings ${module_USES}
                        PRIVATE ${module_LIBRARIES})
  if(module_NO_HOT_LOOPS)
    target_link_libraries(lockstep_${name} PRIVATE $<BUILD_INTERFACE:lockstep_no_hot_loops>)
  endif()
  if(EXISTS "${PROJECT_SOURCE_DIR}/include/lockstep/${name}")
    lockstep_export(${name})
  endif()
endfunction()

# lockstep_module_cuda(NAME SOURCES ... [LIBRARIES ...] [FACTORY file])
# Adds sources to the module NAME if Lockstep is built with CUDA. FACTORY is the file with the
# factory of the module, the only file for which the macro LOCKSTEP_HAS_CUDA is defined.
function(lockstep_module_cuda name)
  if(NOT LOCKSTEP_HAS_CUDA)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 module "" "FACTORY" "SOURCES;LIBRARIES")
  target_sources(lockstep_${name} PRIVATE ${module_SOURCES})
  set_source_files_properties(${module_SOURCES} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(lockstep_${name} PRIVATE CUDA::cudart ${module_LIBRARIES})
  if(module_FACTORY)
    set_source_files_properties("${module_FACTORY}" PROPERTIES COMPILE_DEFINITIONS
                                                               LOCKSTEP_HAS_CUDA)
  endif()
endfunction()

# lockstep_test(NAME SOURCES ... USES modules... [LIBRARIES imported targets...] [RANKS 1 2 4]
#               [SHARDS n] [LABELS ...])
#
# Declares a GoogleTest program, and one CTest test NAME that runs all its tests in one process; with
# SHARDS, several CTest tests NAME.I that run a part each. With RANKS, the program runs under mpirun
# once per number of ranks (NAME.npN); the CTest test fails if any rank fails.
function(lockstep_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "SHARDS" "SOURCES;USES;LIBRARIES;RANKS;LABELS")
  add_executable(${name} ${test_SOURCES})
  list(TRANSFORM test_USES PREPEND lockstep_)
  target_link_libraries(${name} PRIVATE lockstep_settings ${test_USES} ${test_LIBRARIES}
                                        lockstep_testing)
  target_precompile_headers(${name} REUSE_FROM lockstep_mpi_main)
  if(test_RANKS)
    target_link_libraries(${name} PRIVATE lockstep_mpi_main MPI::MPI_C)
    foreach(ranks IN LISTS test_RANKS)
      add_test(NAME ${name}.np${ranks} COMMAND ${LOCKSTEP_MPIRUN} -n ${ranks}
                                               $<TARGET_FILE:${name}>)
      set_tests_properties(${name}.np${ranks} PROPERTIES PROCESSORS ${ranks} LABELS
                                                         "mpi;${test_LABELS}")
      set_property(TEST ${name}.np${ranks} PROPERTY ENVIRONMENT "${LOCKSTEP_MPI_ENVIRONMENT}")
    endforeach()
    return()
  endif()
  target_link_libraries(${name} PRIVATE GTest::gtest_main)
  if(NOT test_SHARDS)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS "${test_LABELS}")
    return()
  endif()
  foreach(shard RANGE 1 ${test_SHARDS})
    add_test(NAME ${name}.${shard} COMMAND ${name})
    math(EXPR index "${shard} - 1")
    set_tests_properties(
      ${name}.${shard} PROPERTIES LABELS "${test_LABELS}" COST 20 ENVIRONMENT
                                  "GTEST_TOTAL_SHARDS=${test_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# lockstep_pytest(NAME [PATHS files or folders...] [SHARDS n] [LABELS ...] [COST c]
#                 [ENVIRONMENT ...] [ARGUMENTS ...])
#
# Declares a CTest test that runs pytest on PATHS [the current folder]; with SHARDS, several CTest
# tests NAME.I that run a part each. The environment names the program and the build directory.
function(lockstep_pytest name)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "SHARDS;COST" "PATHS;LABELS;ENVIRONMENT;ARGUMENTS")
  if(NOT test_PATHS)
    set(test_PATHS "${CMAKE_CURRENT_SOURCE_DIR}")
  endif()
  set(names ${name})
  list(JOIN LOCKSTEP_MPIRUN " " mpirun)
  if(test_SHARDS)
    foreach(shard RANGE 1 ${test_SHARDS})
      list(APPEND shards ${name}.${shard})
    endforeach()
    set(names ${shards})
  endif()
  foreach(part IN LISTS names)
    add_test(NAME ${part} COMMAND ${LOCKSTEP_PYTHON} -B -m pytest -q ${test_ARGUMENTS}
                                  ${test_PATHS})
    set_tests_properties(${part} PROPERTIES LABELS "${test_LABELS}" COST "${test_COST}")
    set_property(
      TEST ${part}
      PROPERTY ENVIRONMENT
               "LOCKSTEP_BUILD=${PROJECT_BINARY_DIR}"
               "LOCKSTEP_PYTHON=${LOCKSTEP_PYTHON}"
               "LOCKSTEP_MPIRUN=${mpirun}"
               "PYTHONPATH=${PROJECT_SOURCE_DIR}/analysis"
               "MPLBACKEND=Agg"
               ${test_ENVIRONMENT})
    if(TARGET lockstep)
      set_property(TEST ${part} APPEND PROPERTY ENVIRONMENT "LOCKSTEP_BIN=$<TARGET_FILE:lockstep>")
    endif()
    if(test_SHARDS)
      string(REGEX REPLACE ".*\\." "" shard ${part})
      set_property(TEST ${part} APPEND PROPERTY ENVIRONMENT
                                                "LOCKSTEP_TEST_SHARD=${shard}/${test_SHARDS}")
    endif()
  endforeach()
endfunction()
