# SPDX-License-Identifier: BSD-3-Clause
# lockstep_build_info(TARGET) generates the source `build_info.cpp` of the target. It contains the
# version, commit, build type, compiler and flags, which are recorded in run files. Every build runs
# this file with cmake -P to update the source; it is rewritten only if its content has changed.

if(NOT CMAKE_SCRIPT_MODE_FILE)
  function(lockstep_build_info target)
    string(TOUPPER "${CMAKE_BUILD_TYPE}" config)
    string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${config}}" flags)
    if(LOCKSTEP_SANITIZERS)
      string(APPEND flags " -fsanitize=${LOCKSTEP_SANITIZERS}")
    endif()
    set(directory "${CMAKE_CURRENT_BINARY_DIR}/generated")
    set(generated "${directory}/build_info.cpp")
    set(generate
        ${CMAKE_COMMAND}
        "-DSOURCE=${PROJECT_SOURCE_DIR}"
        "-DTEMPLATE=${CMAKE_CURRENT_SOURCE_DIR}/build_info.cpp.in"
        "-DGENERATED=${generated}"
        "-DVERSION=${PROJECT_VERSION}"
        "-DBUILD_TYPE=${CMAKE_BUILD_TYPE}"
        "-DCOMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
        "-DFLAGS=${flags}"
        -P
        "${CMAKE_CURRENT_FUNCTION_LIST_FILE}")
    add_custom_target(
      ${target}_build_info
      COMMAND ${generate}
      BYPRODUCTS "${generated}"
      COMMENT "Updating build_info.cpp"
      VERBATIM)
    add_dependencies(${target} ${target}_build_info)
    target_sources(${target} PRIVATE "${generated}")
    target_include_directories(${target} PRIVATE "${directory}" "${CMAKE_CURRENT_SOURCE_DIR}")
  endfunction()
  return()
endif()

# Outside a git repository, or if git fails, the commit is "unknown" and the build continues. If the
# sources were unpacked inside another git repository, the commit of that repository is not used.
set(COMMIT "unknown")
set(DIRTY "false")
find_program(GIT git)
if(GIT)
  execute_process(
    COMMAND "${GIT}" -C "${SOURCE}" rev-parse --show-toplevel HEAD
    OUTPUT_VARIABLE output
    RESULT_VARIABLE failed
    ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REPLACE "\n" ";" output "${output}")
  file(REAL_PATH "${SOURCE}" source)
  list(LENGTH output lines)
  if(NOT failed AND lines EQUAL 2)
    list(GET output 0 top)
    file(REAL_PATH "${top}" top)
    if(top STREQUAL source)
      list(GET output 1 COMMIT)
      execute_process(COMMAND "${GIT}" -C "${SOURCE}" status --porcelain --untracked-files=no
                      OUTPUT_VARIABLE changes ERROR_QUIET)
      if(NOT changes STREQUAL "")
        set(DIRTY "true")
      endif()
    endif()
  endif()
endif()
string(REPLACE "\"" "\\\"" FLAGS "${FLAGS}")
configure_file("${TEMPLATE}" "${GENERATED}" @ONLY)
