// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/study/memory.hpp"

#include <gtest/gtest.h>

#include "train/small.hpp"

namespace lockstep::study {
namespace {

using train::testing::Norm;

// Rank 0 writes a checkpoint from copies of the state of all ranks. The residual of top-k differs
// between ranks and has the size of the gradients.
TEST(MemoryEstimate, HasTheResidualsOfAllRanksInTheCheckpointOfTopK) {
  const graph::Graph graph = train::testing::small_graph(Norm::without);
  const auto backend = backend::make_backend(backend::DeviceKind::cpu, 1);
  const data::DataSizes sizes = data::sizes({.source = "synthetic:64"});
  for (const int ranks : {1, 2, 4}) {
    const auto checkpoint_of = [&](comm::ReducerKind kind) {
      train::Config config = train::testing::small_config(ranks);
      config.reducer.kind = kind;
      config.reducer.algorithm = comm::AllReduceAlgorithm::automatic;
      config.checkpoint.directory = "checkpoints";
      return estimate_memory(config, graph, *backend, sizes, {ranks, ranks}, 0).checkpoint;
    };
    const std::size_t residuals = ranks == 1 ? 0 : static_cast<std::size_t>(ranks);
    EXPECT_EQ(checkpoint_of(comm::ReducerKind("top-k")),
              checkpoint_of(comm::ReducerKind::allreduce) +
                  residuals * graph.parameter_elements() * sizeof(float))
        << ranks << " ranks";
  }
}

// 0 steps stand for whole epochs, here of 4 steps.
TEST(MemoryEstimate, HasTheRecordsOfTheStepsOfAnEpoch) {
  const graph::Graph graph = train::testing::small_graph(Norm::without);
  const auto backend = backend::make_backend(backend::DeviceKind::cpu, 1);
  const data::DataSizes sizes = data::sizes({.source = "synthetic:64"});
  const auto records_of = [&](std::int64_t steps) {
    train::Config config = train::testing::small_config(1);
    config.steps = steps;
    return estimate_memory(config, graph, *backend, sizes, {}, 0).records;
  };
  EXPECT_EQ(records_of(0), records_of(4));
  EXPECT_EQ(records_of(5), records_of(4));
  EXPECT_LT(records_of(1), records_of(4));
}

}  // namespace
}  // namespace lockstep::study
