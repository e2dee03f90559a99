// SPDX-License-Identifier: BSD-3-Clause
// Tests the handling of NCCL errors with a mock of NCCL; needs no GPU.

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <stdexcept>

#include "comm/world.hpp"
#include "cuda/nccl_communicator.hpp"
#include "cuda/nccl_transport.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// State of the functions below, which replace those of NCCL and CUDA in this program: they record
/// their calls in `log` and return the results that the test has set.
struct MockNccl {
  std::vector<std::string> log;
  ncclResult_t answer = ncclInProgress;  ///< result of the calls
  ncclResult_t after = ncclSuccess;      ///< communicator state after `pending` state queries
  int pending = 2;
  ncclResult_t window_answer = ncclSuccess;
  bool has_windows = true;
  cudaError_t stream = cudaSuccess;
  std::string id_seen;
  std::string reason = "the cable is loose\nsecond line";
  int asked = 0;  ///< state queries since the last call

  ncclResult_t said(const std::string& call) {
    log.push_back(call);
    asked = 0;
    return answer;
  }
};

MockNccl nccl;

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::strcpy(id->internal, "of rank 0");
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int, ncclUniqueId id, int, ncclConfig_t*) {
  nccl.id_seen = id.internal;
  *comm = reinterpret_cast<ncclComm_t>(&nccl);
  return nccl.said("open");
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  *state = nccl.asked++ < nccl.pending ? ncclInProgress : nccl.after;
  return ncclSuccess;
}
const char* ncclGetLastError(ncclComm_t) { return nccl.reason.c_str(); }
ncclResult_t ncclAllReduce(const void*, void*, std::size_t elements, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t, cudaStream_t) {
  return nccl.said("sum " + std::to_string(elements) + " of type " + std::to_string(type));
}
cudaError_t cudaStreamQuery(cudaStream_t) { return nccl.stream; }
ncclResult_t ncclCommWindowRegister(ncclComm_t, void*, std::size_t, ncclWindow_t* window, int) {
  if (nccl.has_windows) *window = reinterpret_cast<ncclWindow_t>(&nccl);
  nccl.said("register window");
  return nccl.window_answer;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t) {
  return nccl.said("deregister window");
}
ncclResult_t ncclCommRegister(const ncclComm_t, void*, std::size_t, void** handle) {
  *handle = &nccl;
  return nccl.said("register buffer");
}
ncclResult_t ncclCommDeregister(const ncclComm_t, void*) { return nccl.said("deregister buffer"); }
ncclResult_t ncclCommFinalize(ncclComm_t) { return nccl.said("finalize"); }
ncclResult_t ncclCommDestroy(ncclComm_t) {
  nccl.said("destroy");
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t) {
  nccl.said("abort");
  return ncclSuccess;
}

}  // extern "C"

namespace {

template <class Work>
std::string failure(Work work) {
  try {
    work();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.status(), core::ExitStatus::internal);
    return error.what();
  }
  return "no failure";
}

class NcclTest : public testing::Test {
 protected:
  NcclTest() { nccl = {}; }
  std::unique_ptr<NcclCommunicator> make(std::chrono::milliseconds deadline = 60s) {
    return std::make_unique<NcclCommunicator>(*world, group, NcclOptions{.deadline = deadline});
  }

  std::unique_ptr<Communicator> world = make_world();
  NcclGroup group;
  std::array<std::byte, 64> memory{};
};

TEST_F(NcclTest, WaitsUntilEachCallHasSettled) {
  auto communicator = make();
  EXPECT_EQ(nccl.id_seen, "of rank 0");
  communicator->sum(memory.data(), 16, core::DataType::float32, nullptr);
  communicator->sum(memory.data(), 8, core::DataType::bfloat16, nullptr);
  communicator->sum(memory.data(), 4, core::DataType::float16, nullptr);
  EXPECT_NO_THROW(communicator->throw_if_failed());
  EXPECT_NO_THROW(communicator->finish(nullptr));
  communicator.reset();
  EXPECT_THAT(nccl.log, ElementsAre("open", "sum 16 of type 7", "sum 8 of type 9",
                                    "sum 4 of type 6", "finalize", "destroy"));
}

TEST_F(NcclTest, LateErrorIsThrownAndAborts) {
  auto communicator = make();
  nccl.pending = 0;
  nccl.after = ncclRemoteError;
  const std::string what = failure([&] { communicator->throw_if_failed(); });
  EXPECT_THAT(what, AllOf(HasSubstr("could not communicate on rank " +
                                    std::to_string(world->rank()) + " of "),
                          HasSubstr("the cable is loose);"), HasSubstr("NCCL_DEBUG=INFO")));
  // Every later call throws the same error without calling NCCL.
  EXPECT_EQ(failure([&] { communicator->throw_if_failed(); }), what);
  EXPECT_EQ(failure([&] { communicator->sum(memory.data(), 1, core::DataType::float32, nullptr); }),
            what);
  communicator.reset();
  EXPECT_THAT(nccl.log, ElementsAre("open", "abort"));
}

TEST_F(NcclTest, CallThatReturnedSuccessMayStillFail) {
  auto communicator = make();
  nccl.answer = ncclSuccess;
  nccl.after = ncclInternalError;
  EXPECT_THAT(
      failure([&] { communicator->sum(memory.data(), 1, core::DataType::float32, nullptr); }),
      HasSubstr("could not start a sum"));
  communicator.reset();  // waits for the abort
  EXPECT_EQ(nccl.log.back(), "abort");
}

TEST_F(NcclTest, ErrorWhileWaitingForTheDeviceAborts) {
  auto communicator = make();
  nccl.stream = cudaErrorNotReady;
  nccl.after = ncclSystemError;
  EXPECT_THAT(failure([&] { communicator->finish(nullptr); }), HasSubstr("could not communicate"));
  communicator.reset();  // waits for the abort
  EXPECT_EQ(nccl.log.back(), "abort");
}

TEST_F(NcclTest, DeviceThatIsNotDoneInTimeIsAnError) {
  auto communicator = make(5ms);
  nccl.stream = cudaErrorNotReady;
  EXPECT_THAT(
      failure([&] { communicator->finish(nullptr); }),
      AllOf(HasSubstr("did not finish a sum within 0.005 s"), HasSubstr("does not answer")));
  communicator.reset();  // waits for the abort
  EXPECT_EQ(nccl.log.back(), "abort");
}

TEST_F(NcclTest, ErrorOfTheDeviceAborts) {
  auto communicator = make();
  nccl.stream = cudaErrorIllegalAddress;
  EXPECT_THAT(failure([&] { communicator->finish(nullptr); }),
              HasSubstr("cudaErrorIllegalAddress"));
  communicator.reset();  // waits for the abort
  EXPECT_EQ(nccl.log.back(), "abort");
}

TEST_F(NcclTest, CallThatDoesNotSettleInTimeIsAnError) {
  auto communicator = make(5ms);
  nccl.pending = 1 << 30;
  EXPECT_THAT(
      failure([&] { communicator->sum(memory.data(), 1, core::DataType::float32, nullptr); }),
      HasSubstr("did not start a sum within 0.005 s"));
  communicator.reset();  // waits for the abort
  EXPECT_EQ(nccl.log.back(), "abort");
}

TEST_F(NcclTest, OneRankThatCannotConnectFailsAll) {
  const bool is_last = world->rank() == world->size() - 1;
  if (is_last) nccl.answer = ncclSystemError;
  EXPECT_THAT(failure([&] { make(); }),
              HasSubstr("could not connect the GPUs on rank " + std::to_string(world->size() - 1)));
  EXPECT_THAT(nccl.log, ElementsAre("open", "abort"));
}

TEST_F(NcclTest, FullMemoryOfTheGpuIsOutOfMemory) {
  if (world->rank() == 0) nccl.answer = ncclUnhandledCudaError;
  nccl.reason = "Cuda failure 'out of memory'";
  try {
    make();
    ADD_FAILURE() << "did not fail";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.status(), core::ExitStatus::out_of_memory);
  }
}

TEST_F(NcclTest, RanksThatDoNotConnectInTimeAreAnError) {
  nccl.pending = 1 << 30;
  EXPECT_THAT(failure([&] { make(5ms); }), HasSubstr("did not connect the GPUs within 0.005 s"));
  EXPECT_THAT(nccl.log, ElementsAre("open", "abort"));
}

TEST_F(NcclTest, MemoryIsReleasedBeforeTheCommunicator) {
  {
    const auto communicator = make();
    communicator->register_memory(memory);
  }
  EXPECT_THAT(nccl.log,
              ElementsAre("open", "register window", "deregister window", "finalize", "destroy"));
}

TEST_F(NcclTest, WithoutWindowsTheBufferIsRegistered) {
  nccl.has_windows = false;
  {
    const auto communicator = make();
    communicator->register_memory(memory);
  }
  EXPECT_THAT(nccl.log, ElementsAre("open", "register window", "register buffer",
                                    "deregister buffer", "finalize", "destroy"));
}

TEST_F(NcclTest, MemoryThatOneRankCannotRegisterIsNoError) {
  const bool is_last = world->rank() == world->size() - 1;
  if (is_last) nccl.window_answer = ncclUnhandledCudaError;
  auto communicator = make();
  communicator->register_memory(memory);
  communicator->sum(memory.data(), 1, core::DataType::float32, nullptr);
  communicator.reset();
  EXPECT_THAT(nccl.log, ElementsAre("open", "register window", "abort", "open", "sum 1 of type 7",
                                    "finalize", "destroy"));
}

TEST_F(NcclTest, AFailureEndsAllCommunicatorsExceptInARegistration) {
  const auto other = make();
  const auto communicator = make();
  nccl.window_answer = ncclUnhandledCudaError;
  communicator->register_memory(memory);
  EXPECT_NO_THROW(other->throw_if_failed());
  nccl.after = ncclRemoteError;
  const std::string first = failure([&] { communicator->throw_if_failed(); });
  EXPECT_THAT(first, HasSubstr("could not communicate"));
  EXPECT_EQ(failure([&] { other->throw_if_failed(); }), first);
}

TEST_F(NcclTest, UnwindingAborts) {
  try {
    const auto communicator = make();
    communicator->register_memory(memory);
    throw std::runtime_error("something else");
  } catch (const std::runtime_error&) {
  }
  EXPECT_THAT(nccl.log, ElementsAre("open", "register window", "abort"));
}

TEST_F(NcclTest, EndThatFailsIsNoError) {
  auto communicator = make(5ms);
  nccl.pending = 1 << 30;
  communicator.reset();
  EXPECT_THAT(nccl.log, ElementsAre("open", "finalize", "abort"));
}

TEST_F(NcclTest, ReducerThatDoesNotCommunicateNeedsNoNccl) {
  const auto transport = make_nccl_transport(*world, {.device = 0}, false);
  core::HostTimeline timeline;
  const core::GradientArray gradients{.data = memory.data(), .elements = 16};
  const auto reducer = transport->make_reducer(gradients, {.kind = ReducerKind::none}, timeline);
  EXPECT_TRUE(reducer->is_recordable());
  for (int step = 0; step < 2; ++step) {
    reducer->begin_step();
    reducer->gradients_ready(16);
    EXPECT_EQ(reducer->wait_beyond(0), 16U);
    reducer->throw_if_failed();
  }
  EXPECT_TRUE(reducer->bucket_sizes().empty());
  EXPECT_TRUE(nccl.log.empty());
}

TEST_F(NcclTest, AlgorithmsOfCpusAreRefused) {
  const auto transport = make_nccl_transport(*world, {.device = 0}, false);
  core::HostTimeline timeline;
  const auto refusal_of = [&](const ReducerOptions& options) -> std::string {
    try {
      transport->make_reducer({.elements = 16}, options, timeline);
    } catch (const core::Error& error) {
      return error.what();
    }
    return "not refused";
  };
  EXPECT_THAT(refusal_of({.algorithm = AllReduceAlgorithm::ring}),
              testing::StartsWith("--all-reduce selects an algorithm for CPUs only"));
  EXPECT_THAT(refusal_of({.kind = ReducerKind("top-k")}),
              testing::StartsWith("--reducer top-k sums gradients in host memory"));
}

TEST_F(NcclTest, RanksOfOneGpuCountAsHosts) {
  ::unsetenv("NCCL_HOSTID");
  ::unsetenv("NCCL_SOCKET_IFNAME");
  prepare_shared_gpus(*world);
  EXPECT_THAT(::getenv("NCCL_HOSTID"), testing::EndsWith("rank" + std::to_string(world->rank())));
  EXPECT_STREQ(::getenv("NCCL_SOCKET_IFNAME"), "lo");
  ::setenv("NCCL_HOSTID", "of the user", 1);
  prepare_shared_gpus(*world);
  EXPECT_STREQ(::getenv("NCCL_HOSTID"), "of the user");
  ::unsetenv("NCCL_HOSTID");
  ::unsetenv("NCCL_SOCKET_IFNAME");
}

}  // namespace
}  // namespace lockstep::comm
