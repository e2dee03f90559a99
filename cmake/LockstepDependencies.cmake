# SPDX-License-Identifier: BSD-3-Clause
# The external dependencies of Lockstep; docs/install.md gives the purpose of each.

# Lockstep calls MPI in C. The headers must not declare the C++ bindings, which MPI 3.0 removed and
# Open MPI 5 no longer has: a program that links them does not start with its libraries, nor with
# its mpirun, which puts these first in LD_LIBRARY_PATH.
find_package(MPI REQUIRED COMPONENTS C)
set_property(TARGET MPI::MPI_C APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS OMPI_SKIP_MPICXX
                                               MPICH_SKIP_MPICXX)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(Boost 1.74 CONFIG REQUIRED COMPONENTS program_options)
find_package(nlohmann_json REQUIRED)

find_package(SerialHDF5 1.10.3 REQUIRED)
find_package(oneDNN 2.6 REQUIRED)
find_package(xxHash 0.8 REQUIRED)
set_package_properties(oneDNN PROPERTIES DESCRIPTION "convolutions on CPUs")
set_package_properties(xxHash PROPERTIES DESCRIPTION "hashes of datasets and checkpoints")
set_package_properties(MPI PROPERTIES DESCRIPTION "communication between ranks")
set_package_properties(SerialHDF5 PROPERTIES DESCRIPTION "run files and checkpoints")

# By default, mpirun of Open MPI does not start as root or with more ranks than cores. The tests
# need both. That of MPICH and Intel MPI (hydra) starts them, and refuses the options of Open MPI.
# Version 5 of Open MPI ignores the variable of version 4.
set(LOCKSTEP_MPIRUN "${MPIEXEC_EXECUTABLE}")
execute_process(COMMAND "${MPIEXEC_EXECUTABLE}" --version OUTPUT_VARIABLE _mpirun_version
                ERROR_QUIET)
if(_mpirun_version MATCHES "Open MPI|OpenRTE")
  list(APPEND LOCKSTEP_MPIRUN --oversubscribe --bind-to none)
endif()
set(LOCKSTEP_MPI_ENVIRONMENT
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe)

if(LOCKSTEP_TESTS)
  find_package(GTest REQUIRED)

  # Selects the first python3 in PATH that has the modules of the Python tests. An active virtual
  # environment without these modules is skipped.
  function(lockstep_validate_python result candidate)
    execute_process(COMMAND "${candidate}" -c "import pytest, numpy, h5py, matplotlib"
                    RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    if(NOT status EQUAL 0)
      set(${result} FALSE PARENT_SCOPE)
    endif()
  endfunction()
  find_program(LOCKSTEP_PYTHON python3 VALIDATOR lockstep_validate_python REQUIRED
               DOC "python3 with pytest, numpy, h5py and matplotlib")
endif()

include(LockstepCuda)
add_feature_info("tests" LOCKSTEP_TESTS "tests for ctest")
add_feature_info("benchmarks" LOCKSTEP_BENCH "programs in tests/bench")
add_feature_info("warnings are errors" LOCKSTEP_WERROR "")
