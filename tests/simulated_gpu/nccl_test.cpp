// SPDX-License-Identifier: BSD-3-Clause
// Tests the simulated NCCL with the communicator of the program, and violates each of its contracts
// once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/cuda/nccl_communicator.hpp"
#include "comm/world.hpp"
#include "expect_error.hpp"
#include "simulated_gpu/capture.hpp"
#include "simulated_gpu/runtime.hpp"

namespace lockstep::comm {
namespace {

using simulated_gpu::CapturedGraph;
using simulated_gpu::record_violations;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SimulatedNccl : public testing::Test {
 protected:
  std::unique_ptr<NcclCommunicator> make() {
    return std::make_unique<NcclCommunicator>(*world_, group_, NcclOptions{});
  }
  void sum(NcclCommunicator& communicator, std::size_t elements = 4) {
    communicator.sum(memory_.data(), elements, core::DataType::float32, stream_.get());
  }
  void sum(ncclComm_t comm) {
    ncclAllReduce(memory_.data(), memory_.data(), 4, ncclFloat32, ncclSum, comm, stream_.get());
  }
  /// Sets the values on the device to the number of this rank, from 1.
  void fill() {
    const std::vector<float> values(16, static_cast<float>(world_->rank() + 1));
    core::copy_to_device(memory_.data(), std::as_bytes(std::span(values)), "a test");
  }
  std::vector<float> values(std::size_t count) {
    core::check_cuda(cudaStreamSynchronize(stream_.get()), "waiting");
    const auto all = memory_.as<float>();
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  float total() const {
    const int ranks = world_->size();
    return static_cast<float>(ranks * (ranks + 1) / 2);
  }
  ncclComm_t open() {
    ncclUniqueId id{};
    if (world_->rank() == 0) ncclGetUniqueId(&id);
    world_->broadcast(std::as_writable_bytes(std::span(&id, 1)));
    ncclComm_t comm = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclCommInitRankConfig(&comm, world_->size(), id, world_->rank(), &config);
    settle(comm);
    return comm;
  }
  void settle(ncclComm_t comm) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) ncclCommGetAsyncError(comm, &state);
  }

  std::unique_ptr<Communicator> world_ = make_world();
  NcclGroup group_;
  core::Stream stream_ = core::make_stream();
  core::Buffer memory_ = core::device_buffer(64, "a test");
};

TEST_F(SimulatedNccl, SumsOverTheRanks) {
  const auto communicator = make();
  fill();
  sum(*communicator);
  EXPECT_THAT(values(4), Each(total()));
  EXPECT_EQ(memory_.as<float>()[4], static_cast<float>(world_->rank() + 1));
}

TEST_F(SimulatedNccl, OldLibraryIsRefused) {
  simulated_gpu::set_nccl_version(22609);
  expect_error(core::ExitStatus::usage, {"NCCL 2.26 is loaded", "2.27 or newer"}, [&] { make(); });
  simulated_gpu::set_nccl_version(22700);
  EXPECT_NO_THROW(make());
  simulated_gpu::set_nccl_version(0);
}

TEST_F(SimulatedNccl, SumsInEveryLaunchOfAGraph) {
  const auto communicator = make();
  {
    const CapturedGraph graph(stream_, [&] { sum(*communicator); });
    fill();
    graph.launch(stream_);
    EXPECT_THAT(values(4), Each(total()));
    graph.launch(stream_);
    EXPECT_THAT(values(4), Each(total() * static_cast<float>(world_->size())));
  }
}

TEST_F(SimulatedNccl, ReducesToRankZero) {
  const auto communicator = make();
  fill();
  communicator->reduce(memory_.data(), 2, core::DataType::float32, stream_.get());
  const auto own = static_cast<float>(world_->rank() + 1);
  EXPECT_THAT(values(2), Each(world_->rank() == 0 ? total() : own));
  EXPECT_EQ(memory_.as<float>()[2], own);
}

TEST_F(SimulatedNccl, Broadcasts) {
  const auto communicator = make();
  fill();
  communicator->broadcast(memory_.data(), 2, core::DataType::float32, stream_.get());
  EXPECT_THAT(values(2), Each(1.0F));
}

TEST_F(SimulatedNccl, DifferentOrderOnTwoRanksIsFound) {
  if (world_->size() == 1) GTEST_SKIP() << "needs two ranks";
  const auto communicator = make();
  const auto violations = record_violations([&] {
    const bool is_first = world_->rank() == 0;
    sum(*communicator, is_first ? 4 : 8);
    sum(*communicator, is_first ? 8 : 4);
    values(1);
  });
  EXPECT_THAT(violations,
              ElementsAre(HasSubstr("order of collectives"), HasSubstr("order of collectives")));
}

TEST_F(SimulatedNccl, DifferentTypeOrOperationIsFound) {
  if (world_->size() == 1) GTEST_SKIP() << "needs two ranks";
  const auto communicator = make();
  const bool is_first = world_->rank() == 0;
  const auto type = is_first ? core::DataType::bfloat16 : core::DataType::float16;
  EXPECT_THAT(record_violations([&] {
                communicator->sum(memory_.data(), 4, type, stream_.get());
                values(1);
              }),
              ElementsAre(HasSubstr("order of collectives")));
  EXPECT_THAT(record_violations([&] {
                if (is_first) sum(*communicator);
                if (!is_first)
                  communicator->broadcast(memory_.data(), 4, core::DataType::float32,
                                          stream_.get());
                values(1);
              }),
              ElementsAre(HasSubstr("order of collectives")));
}

TEST_F(SimulatedNccl, CommunicatorEndsAfterTheGraphsThatUseIt) {
  const auto violations = record_violations([&] {
    auto communicator = make();
    const CapturedGraph graph(stream_, [&] { sum(*communicator); });
    communicator.reset();
  });
  EXPECT_THAT(violations,
              Contains(HasSubstr(
                  "communicator destroyed before the graphs that use it: ncclCommFinalize")));
  EXPECT_THAT(record_violations([&] {  // the abort ends with the graph
                auto communicator = make();
                const CapturedGraph graph(stream_, [&] { sum(*communicator); });
                communicator->abort();
              }),
              IsEmpty());
}

TEST_F(SimulatedNccl, UseBeforeTheLastCallIsCompleteIsFound) {
  const ncclComm_t comm = open();
  EXPECT_THAT(record_violations([&] {
                for (int call = 0; call < 2; ++call) sum(comm);
              }),
              ElementsAre(HasSubstr("before its last call is complete: ncclAllReduce")));
  settle(comm);
  values(1);
  ncclCommFinalize(comm);
  EXPECT_THAT(record_violations([&] { ncclCommDestroy(comm); }),
              ElementsAre(HasSubstr("before its last call is complete: ncclCommDestroy")));
}

TEST_F(SimulatedNccl, UseAfterFinalizeIsFound) {
  const ncclComm_t comm = open();
  ncclCommFinalize(comm);
  settle(comm);
  EXPECT_THAT(record_violations([&] { sum(comm); }),
              ElementsAre(HasSubstr("use of a finalized communicator")));
  settle(comm);
  ncclCommDestroy(comm);
  values(1);
}

TEST_F(SimulatedNccl, MemoryIsDeregisteredBeforeTheEnd) {
  const std::span<std::byte> bytes{memory_.data(), memory_.bytes()};
  EXPECT_THAT(record_violations([&] {
                const auto communicator = make();
                communicator->register_memory(bytes);
              }),
              IsEmpty());
  const ncclComm_t comm = open();
  ncclWindow_t window = nullptr;
  ncclCommWindowRegister(comm, bytes.data(), bytes.size(), &window, NCCL_WIN_COLL_SYMMETRIC);
  settle(comm);
  EXPECT_THAT(record_violations([&] { ncclCommFinalize(comm); }),
              ElementsAre(HasSubstr("before the deregistration")));
  settle(comm);
  ncclCommDestroy(comm);
}

TEST_F(SimulatedNccl, NewCommunicatorDuringACaptureIsFound) {
  ncclComm_t comm = nullptr;
  EXPECT_THAT(
      record_violations([&] { const CapturedGraph graph(stream_, [&] { comm = open(); }); }),
      Contains(HasSubstr("capture-unsafe call: ncclCommInitRankConfig")));
  ncclCommDestroy(comm);
}

}  // namespace
}  // namespace lockstep::comm
