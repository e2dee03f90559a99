// SPDX-License-Identifier: BSD-3-Clause
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <gtest/gtest.h>

#include "backend/cuda/dnn/operation_graph.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {
namespace {

/// Returns the text with which cudnn-frontend reports a status of cuDNN.
std::string message_of(cudnnStatus_t status) {
  return std::string("detail::execute(handle, plan, pack) failed with message: a\nb, and code: ") +
         cudnnGetErrorString(status);
}

core::ExitStatus status_of(const std::string& message) {
  try {
    refusal_of(message);
  } catch (const core::Error& error) {
    return error.status();
  }
  return core::ExitStatus::done;
}

TEST(Refusal, IsTheReasonInOneLine) {
  EXPECT_EQ(refusal_of("first line\nsecond line"), "first line");
  EXPECT_EQ(refusal_of("Error: x\nReason: the stride is 0\nmore"), "the stride is 0");
  EXPECT_EQ(refusal_of(""), "cuDNN gives no reason");
}

TEST(Refusal, FailedAllocationIsOutOfMemory) {
  using core::ExitStatus;
  EXPECT_EQ(status_of(message_of(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)),
            ExitStatus::out_of_memory);
  EXPECT_EQ(status_of(message_of(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED)),
            ExitStatus::out_of_memory);
  EXPECT_EQ(status_of(std::string("cudaGraphAddNode() failed with ") +
                      cudaGetErrorString(cudaErrorMemoryAllocation)),
            ExitStatus::out_of_memory);
  EXPECT_EQ(status_of(message_of(CUDNN_STATUS_EXECUTION_FAILED)), ExitStatus::done);
}

}  // namespace
}  // namespace lockstep::backend::cuda
