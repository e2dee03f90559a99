#include "lockstep/train/ladder.hpp"

#include <gtest/gtest.h>

#include "lockstep/comm/communicator.hpp"
#include "small.hpp"

namespace lockstep::train {
namespace {

TEST(Ladder, StopsOnAllRanksAtTheSmallestLimitOfAnyRank) {
  int argc = 0;
  char** argv = nullptr;
  const comm::MpiSession session(argc, argv);
  const auto world = comm::make_communicator(session);
  Config config = testing::small_config(world->size());
  config.command = "ladder";
  config.ladder_start = 1;
  config.steps = 1;
  const graph::Graph graph = testing::small_graph(testing::Norm::without);
  const data::TrainingData data = testing::small_data();
  const auto device = backend::make_backend({.kind = backend::DeviceKind::reference, .threads = 1});
  const data::DataSizes sizes =
      data::sizes({.source = "synthetic:64", .train_samples = 64, .test_samples = 11, .seed = 3});
  // Only the last rank has too little memory. If each rank used its own limit, the other ranks
  // would train a point that the last rank skips, and would wait for it forever.
  const bool is_last = world->rank() == world->size() - 1;
  const std::uint64_t limit = is_last ? 1000 : std::uint64_t{1} << 40;
  const LadderResult result = run_ladder({config, graph, data, *device, *world, *world}, sizes, 0,
                                         limit, [](const LadderPoint&) {});
  EXPECT_EQ(result.end, LadderEnd::out_of_memory);
  ASSERT_EQ(result.points.size(), 1u);
  EXPECT_FALSE(result.points[0].has_memory);
}

}  // namespace
}  // namespace lockstep::train
