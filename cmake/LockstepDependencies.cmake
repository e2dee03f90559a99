# Everything Lockstep takes from elsewhere; docs/dependencies.md says why each is here.

find_package(MPI REQUIRED COMPONENTS CXX)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(nlohmann_json REQUIRED)

set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 REQUIRED COMPONENTS C)

find_package(oneDNN 2.6 REQUIRED)
set_package_properties(oneDNN PROPERTIES DESCRIPTION "convolutions on CPUs")
set_package_properties(MPI PROPERTIES DESCRIPTION "Open MPI, communication between ranks")
set_package_properties(HDF5 PROPERTIES DESCRIPTION "run files and checkpoints")

# Open MPI refuses to start as root, or with more ranks than cores, unless told otherwise; tests do both.
set(LOCKSTEP_MPIRUN ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none)
set(LOCKSTEP_MPI_ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1")

if(LOCKSTEP_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
