// SPDX-License-Identifier: BSD-3-Clause
#include <climits>

#include "lockstep/core/error.hpp"
#include "registry.hpp"

namespace lockstep::comm {

namespace {

/// Calls MPI_Iallreduce on the whole float32 array: the algorithm of the MPI library, for
/// comparison.
class MpiAllReduce final : public AllReduce {
 public:
  MpiAllReduce(MPI_Comm comm, std::span<float> values) : comm_(comm), values_(values) {
    core::check(values.size() <= INT_MAX, "MPI counts the values of one all-reduce in an int");
  }

  void start() override {
    core::check(request_ == MPI_REQUEST_NULL,
                "an all-reduce is started while its last sum is in progress");
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, values_.data(), static_cast<int>(values_.size()),
                             MPI_FLOAT, MPI_SUM, comm_, &request_),
              "MPI_Iallreduce");
  }

  bool progress() override {
    int is_complete = 0;
    check_mpi(MPI_Test(&request_, &is_complete, MPI_STATUS_IGNORE), "MPI_Test");
    return is_complete != 0;
  }

  Traffic traffic() const override { return unknown_traffic(); }

 private:
  MPI_Comm comm_;
  std::span<float> values_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace

AllReduceEntry mpi_all_reduce() {
  return {.algorithm = AllReduceAlgorithm::mpi,
          .help = "MPI_Iallreduce",
          .make = [](AllReduceResources& resources, std::span<float> values,
                     core::DataType) -> std::unique_ptr<AllReduce> {
            return std::make_unique<MpiAllReduce>(resources.messages(), values);
          }};
}

}  // namespace lockstep::comm
