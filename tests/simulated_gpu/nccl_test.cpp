// SPDX-License-Identifier: BSD-3-Clause
// Tests the simulated NCCL with the communicator of the program, and violates each of its contracts
// once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/cuda/nccl_communicator.hpp"
#include "comm/world.hpp"
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
    return std::make_unique<NcclCommunicator>(*world_, calls_, NcclOptions{});
  }
  void sum(NcclCommunicator& communicator, std::size_t elements = 4) {
    communicator.sum(memory_.data(), elements, core::DataType::float32, stream_.get());
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
    if (world_->rank() == 0) calls_.make_id(id);
    world_->broadcast(std::as_writable_bytes(std::span(&id, 1)));
    ncclComm_t comm = nullptr;
    calls_.open(comm, world_->size(), id, world_->rank(), "a test");
    settle(comm);
    return comm;
  }
  void settle(ncclComm_t comm) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) calls_.state(comm, state);
  }

  std::unique_ptr<Communicator> world_ = make_world();
  NcclCalls calls_;
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

TEST_F(SimulatedNccl, ReducesToOneRank) {
  const auto communicator = make();
  fill();
  const int last = world_->size() - 1;
  communicator->reduce(memory_.data(), 2, core::DataType::float32, last, stream_.get());
  const auto own = static_cast<float>(world_->rank() + 1);
  EXPECT_THAT(values(2), Each(world_->rank() == last ? total() : own));
  EXPECT_EQ(memory_.as<float>()[2], own);
  EXPECT_THROW(
      communicator->reduce(memory_.data(), 2, core::DataType::float32, last + 1, stream_.get()),
      core::Error);
}

TEST_F(SimulatedNccl, Broadcasts) {
  const auto communicator = make();
  fill();
  const int last = world_->size() - 1;
  communicator->broadcast(memory_.data(), 2, core::DataType::float32, last, stream_.get());
  EXPECT_THAT(values(2), Each(static_cast<float>(last + 1)));
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
                  communicator->broadcast(memory_.data(), 4, core::DataType::float32, 0,
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
                for (int call = 0; call < 2; ++call)
                  calls_.sum(memory_.data(), 4, ncclFloat32, comm, stream_.get());
              }),
              ElementsAre(HasSubstr("before its last call is complete: ncclAllReduce")));
  settle(comm);
  values(1);
  calls_.finalize(comm);
  EXPECT_THAT(record_violations([&] { calls_.destroy(comm); }),
              ElementsAre(HasSubstr("before its last call is complete: ncclCommDestroy")));
}

TEST_F(SimulatedNccl, UseAfterFinalizeIsFound) {
  const ncclComm_t comm = open();
  calls_.finalize(comm);
  settle(comm);
  EXPECT_THAT(
      record_violations([&] { calls_.sum(memory_.data(), 4, ncclFloat32, comm, stream_.get()); }),
      ElementsAre(HasSubstr("use of a finalized communicator")));
  settle(comm);
  calls_.destroy(comm);
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
  calls_.register_window(comm, bytes, window);
  settle(comm);
  EXPECT_THAT(record_violations([&] { calls_.finalize(comm); }),
              ElementsAre(HasSubstr("before the deregistration")));
  settle(comm);
  calls_.destroy(comm);
}

TEST_F(SimulatedNccl, NewCommunicatorDuringACaptureIsFound) {
  ncclComm_t comm = nullptr;
  EXPECT_THAT(
      record_violations([&] { const CapturedGraph graph(stream_, [&] { comm = open(); }); }),
      Contains(HasSubstr("capture-unsafe call: ncclCommInitRankConfig")));
  calls_.destroy(comm);
}

}  // namespace
}  // namespace lockstep::comm
