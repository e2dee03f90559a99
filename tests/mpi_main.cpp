// SPDX-License-Identifier: BSD-3-Clause
// main() of test programs that run under mpirun: MPI around GoogleTest, and one verdict over all
// ranks.

#include <gtest/gtest.h>
#include <mpi.h>

namespace {

/// Prints the failures of one rank, in the form that `.ci/run` searches for.
class Failures : public testing::EmptyTestEventListener {
 public:
  explicit Failures(int rank) : rank_(rank) {}

 private:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      fprintf(stderr, "%s:%d: Failure of rank %d: %s\n", result.file_name(), result.line_number(),
              rank_, result.summary());
  }
  int rank_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) {  // other ranks speak only where they fail
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new Failures(rank));
  }
  int verdict = RUN_ALL_TESTS();
  MPI_Allreduce(MPI_IN_PLACE, &verdict, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return verdict;
}
