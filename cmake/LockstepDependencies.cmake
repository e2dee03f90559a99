# SPDX-License-Identifier: BSD-3-Clause
# The external dependencies of Lockstep; docs/install.md gives the purpose of each.

find_package(MPI REQUIRED COMPONENTS CXX)
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
set_package_properties(MPI PROPERTIES DESCRIPTION "Open MPI, communication between ranks")
set_package_properties(SerialHDF5 PROPERTIES DESCRIPTION "run files and checkpoints")

# By default, Open MPI does not start as root or with more ranks than cores. The tests need both.
set(LOCKSTEP_MPIRUN ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none)
set(LOCKSTEP_MPI_ENVIRONMENT
    "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1")

if(LOCKSTEP_TESTS)
  find_package(GTest REQUIRED)

  # Selects the first python3 in PATH that has the modules of the Python tests. An active virtual environment without
  # these modules is skipped.
  function(lockstep_validate_python result candidate)
    execute_process(COMMAND "${candidate}" -c "import pytest, numpy, h5py, matplotlib" RESULT_VARIABLE status
                    OUTPUT_QUIET ERROR_QUIET)
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
