# The few functions by which every folder declares its targets.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

# What all targets of ours are compiled with.
add_library(lockstep_settings INTERFACE)
target_compile_features(lockstep_settings INTERFACE cxx_std_20)
target_include_directories(lockstep_settings INTERFACE "${PROJECT_SOURCE_DIR}/include")
target_compile_options(
  lockstep_settings
  INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion>
    # GCC 12 sees overlaps in std::string that are not there (its bug 105651).
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${LOCKSTEP_WERROR}>>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${LOCKSTEP_WERROR}>>:-Werror=all-warnings>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:RelWithDebInfo>>:-O3>) # -O2 leaves the passes over feature maps scalar
if(LOCKSTEP_SANITIZERS)
  target_compile_options(lockstep_settings INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${LOCKSTEP_SANITIZERS}
                                                     -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(lockstep_settings INTERFACE -fsanitize=${LOCKSTEP_SANITIZERS})
endif()

# lockstep_module(NAME SOURCES ... [USES modules...] [LIBRARIES imported targets...])
# One folder under src = one module = one target `lockstep_NAME`. USES names the modules it may include.
function(lockstep_module name)
  cmake_parse_arguments(PARSE_ARGV 1 module "" "" "SOURCES;USES;LIBRARIES")
  add_library(lockstep_${name} STATIC ${module_SOURCES})
  list(TRANSFORM module_USES PREPEND lockstep_)
  target_link_libraries(lockstep_${name} PUBLIC lockstep_settings ${module_USES} PRIVATE ${module_LIBRARIES})
endfunction()

# lockstep_module_cuda(NAME SOURCES ... [LIBRARIES ...] [SEAM file])
# The sources that a module has with CUDA. SEAM: its only file that may test LOCKSTEP_HAS_CUDA.
function(lockstep_module_cuda name)
  if(NOT LOCKSTEP_HAS_CUDA)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 module "" "SEAM" "SOURCES;LIBRARIES")
  target_sources(lockstep_${name} PRIVATE ${module_SOURCES})
  target_link_libraries(lockstep_${name} PRIVATE CUDA::cudart ${module_LIBRARIES})
  if(module_SEAM)
    set_source_files_properties("${module_SEAM}" PROPERTIES COMPILE_DEFINITIONS LOCKSTEP_HAS_CUDA)
  endif()
endfunction()

# lockstep_test(NAME SOURCES ... USES modules... [RANKS 1 2 4] [LABELS ...])
# A GoogleTest program. Without RANKS its tests run in one process, each a CTest test of its own; with RANKS
# the whole program runs under mpirun once per rank count, and a failure on any rank fails it.
function(lockstep_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "" "SOURCES;USES;LIBRARIES;RANKS;LABELS")
  add_executable(${name} ${test_SOURCES})
  list(TRANSFORM test_USES PREPEND lockstep_)
  target_link_libraries(${name} PRIVATE lockstep_settings ${test_USES} ${test_LIBRARIES} GTest::gmock)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  if(NOT test_RANKS)
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
    gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${test_LABELS}")
    return()
  endif()
  target_sources(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/mpi_main.cpp")
  target_link_libraries(${name} PRIVATE GTest::gtest MPI::MPI_CXX)
  foreach(ranks IN LISTS test_RANKS)
    add_test(NAME ${name}.np${ranks} COMMAND ${LOCKSTEP_MPIRUN} -n ${ranks} $<TARGET_FILE:${name}>)
    set_tests_properties(${name}.np${ranks} PROPERTIES PROCESSORS ${ranks} LABELS "mpi;${test_LABELS}")
    set_property(TEST ${name}.np${ranks} PROPERTY ENVIRONMENT "${LOCKSTEP_MPI_ENVIRONMENT}")
  endforeach()
endfunction()
