// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/study/ladder.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <functional>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/mpi_session.hpp"
#include "train/small.hpp"

namespace lockstep::study {
namespace {

using namespace train;

class Ladder : public ::testing::Test {
 protected:
  LadderResult run(std::uint64_t limit, const std::function<void(const record::LadderRow&)>& done) {
    Config config = testing::small_config(world_->size());
    config.steps = 1;
    const graph::Graph graph = testing::small_graph(testing::Norm::without);
    const data::TrainingData data = testing::small_data();
    const auto device =
        backend::make_backend({.kind = backend::DeviceKind::reference, .threads = 1});
    const data::DataSizes sizes =
        data::sizes({.source = "synthetic:64", .train_samples = 64, .test_samples = 11, .seed = 3});
    return run_ladder({config, graph, data, *device, *world_, *world_}, {.start = 1}, sizes, 0,
                      {.bytes = limit, .source = "test"}, done);
  }

  int argc_ = 0;
  char** argv_ = nullptr;
  comm::MpiSession session_{argc_, argv_};
  std::unique_ptr<comm::Communicator> world_ = comm::make_communicator(session_);
};

TEST_F(Ladder, StopsOnAllRanksAtTheSmallestLimitOfAnyRank) {
  // Only the last rank has too little memory. If each rank used its own limit, the other ranks
  // would train a point that the last rank skips, and would wait for it forever.
  const bool is_last = world_->rank() == world_->size() - 1;
  const LadderResult result =
      run(is_last ? 1000 : std::uint64_t{1} << 40, [](const record::LadderRow&) {});
  EXPECT_EQ(result.end, LadderEnd::out_of_memory);
  ASSERT_EQ(result.points.size(), 1u);
  EXPECT_EQ(result.points[0].status, "out_of_memory");
}

TEST_F(Ladder, StopsOnASignalBetweenTwoPoints) {
  const LadderResult result = run(std::uint64_t{1} << 40, [&](const record::LadderRow&) {
    if (world_->rank() == 0) std::raise(SIGUSR1);
  });
  EXPECT_EQ(result.end, LadderEnd::stopped);
  EXPECT_EQ(result.stop_signal, SIGUSR1);
  EXPECT_EQ(result.points.size(), 1u);
}

}  // namespace
}  // namespace lockstep::study
