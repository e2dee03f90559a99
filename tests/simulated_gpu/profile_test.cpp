// SPDX-License-Identifier: BSD-3-Clause
// Tests the profile of a training on a simulated GPU, whose profiled steps are captured and
// replayed like the others.

#include "lockstep/study/profile.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "lockstep/comm/mpi_session.hpp"
#include "lockstep/train/trainer.hpp"
#include "simulated_gpu/engines.hpp"
#include "simulated_gpu/runtime.hpp"
#include "study/known_ceilings.hpp"
#include "train/small.hpp"

namespace lockstep::train {
namespace {

using namespace testing;

class SimulatedGpuProfile : public ::testing::Test {
 protected:
  Config config(bool times_operations) const {
    Config config = small_config(world_->size());
    config.epochs = 0;
    config.steps = 2;
    config.evaluate_every = -1;
    config.transport.allow_sharing = true;
    config.reducer.algorithm = comm::AllReduceAlgorithm::automatic;
    config.times_operations = times_operations;
    return config;
  }
  TrainingContext place(const Config& config) const {
    return {config, graph_, data_, *backend_, *world_, *world_};
  }

  int argc_ = 0;
  char** argv_ = nullptr;
  comm::MpiSession session_{argc_, argv_};
  std::unique_ptr<comm::Communicator> world_ = comm::make_communicator(session_);
  std::unique_ptr<backend::Backend> backend_ = std::make_unique<KnownCeilings>(
      backend::make_backend(
          {.kind = backend::DeviceKind::cuda, .threads = 1, .deterministic = true}),
      backend::Ceilings{.flops_per_second = 1e15, .bytes_per_second = 1e15, .product = "8x8x8"});
  graph::Graph graph_ = small_graph(Norm::with_batch_norm);
  data::TrainingData data_ = small_data();
  TrainingListener nobody_;
};

TEST_F(SimulatedGpuProfile, MeasuresTheOperationsOfReplayedSteps) {
  const Config profiled = config(true);
  const study::ProfileOptions options{.steps = 3, .trace = ""};
  Trainer trainer(place(profiled), nobody_);
  trainer.run();
  simulated_gpu::reset_counters();
  const record::Profile profile =
      study::run_profile(place(profiled), options, trainer.extra_steps()).profile;
  // Three steps of each variant, and before them one of the training and one profiled step for each
  // of the two slots.
  EXPECT_EQ(simulated_gpu::counters().graph_launches, 3 + 3 + 1 + 2);
  std::map<std::pair<std::string, std::string>, double> calls;
  for (const auto& row : profile.operations) calls[{row.name, row.phase}] = row.calls;
  for (const char* phase : {"forward", "backward data", "backward weights"})
    EXPECT_EQ((calls[{"conv2", phase}]), 1) << phase;
  EXPECT_EQ((calls[{"upload", "upload"}]), 1);
  EXPECT_EQ((calls.contains({"all-reduce", "all-reduce"})), world_->size() > 1);
}

TEST_F(SimulatedGpuProfile, LeavesTheParametersOfTheTraining) {
  const auto train = [&](std::int64_t profile_steps) {
    const study::ProfileOptions options{.steps = profile_steps, .trace = ""};
    const Config some = config(profile_steps > 0);
    Trainer trainer(place(some), nobody_);
    trainer.run();
    if (profile_steps > 0) study::run_profile(place(some), options, trainer.extra_steps());
    const auto values = trainer.state().parameters.as<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  EXPECT_EQ(train(2), train(0));
}

}  // namespace
}  // namespace lockstep::train
