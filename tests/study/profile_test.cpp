// SPDX-License-Identifier: BSD-3-Clause
// Tests the profile of the whole trainer on 1, 2 and 4 ranks.

#include "lockstep/study/profile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "expect_error.hpp"
#include "lockstep/comm/mpi_session.hpp"
#include "lockstep/train/trainer.hpp"
#include "study/known_ceilings.hpp"
#include "train/small.hpp"

namespace lockstep::study {
namespace {

using namespace train;
using namespace testing;

class ProfileTest : public ::testing::Test {
 protected:
  Config config(bool times_operations) const {
    Config config = small_config(world_->size());
    config.epochs = 0;
    config.steps = 2;
    config.times_operations = times_operations;
    config.bucket_mib = 0.002;  // several buckets
    return config;
  }
  TrainingContext place(const Config& config) const {
    return {config, graph_, data_, *backend_, *world_, *world_};
  }
  bool is_first() const { return world_->rank() == 0; }

  int argc_ = 0;
  char** argv_ = nullptr;
  comm::MpiSession session_{argc_, argv_};
  std::unique_ptr<comm::Communicator> world_ = comm::make_communicator(session_);
  std::unique_ptr<backend::Backend> backend_ = std::make_unique<KnownCeilings>(
      backend::make_backend(
          {.kind = backend::DeviceKind::cpu, .threads = 1, .deterministic = true}),
      backend::Ceilings{.flops_per_second = 1e15, .bytes_per_second = 1e15, .product = "8x8x8"});
  graph::Graph graph_ = small_graph(Norm::with_batch_norm);
  data::TrainingData data_ = small_data();
  TrainingListener nobody_;
};

std::vector<float> parameters(const Trainer& trainer) { return copy(trainer.state().parameters); }

TEST_F(ProfileTest, LeavesTheParametersOfTheTraining) {
  for (const optim::Kind kind : {optim::Kind::sgd, optim::Kind::lars, optim::Kind::adamw}) {
    Config plain = config(false), profiled = config(true);
    for (Config* some : {&plain, &profiled}) {
      some->optimiser = {.kind = kind};
      some->optimiser.resolve();
    }
    Trainer without(place(plain), nobody_), with(place(profiled), nobody_);
    without.run();
    with.run();
    EXPECT_EQ(parameters(with), parameters(without));
    run_profile(place(profiled), {.steps = 3, .trace = ""}, with.extra_steps());
    EXPECT_EQ(parameters(with), parameters(without)) << core::name(kind);
  }
}

TEST_F(ProfileTest, CountsEachOperationOncePerStepAndPhase) {
  const Config profiled = config(true);
  const ProfileOptions options{.steps = 3, .trace = ""};  // more than an epoch has left
  Trainer trainer(place(profiled), nobody_);
  trainer.run();
  const record::Profile profile =
      run_profile(place(profiled), options, trainer.extra_steps()).profile;
  std::map<std::pair<std::string, std::string>, record::ProfiledOperation> rows;
  for (const auto& row : profile.operations) rows[{row.name, row.phase}] = row;
  EXPECT_EQ(rows.size(), profile.operations.size()) << "no row twice";
  for (const char* name : {"conv1", "conv2"}) {
    ASSERT_TRUE(rows.contains({name, "forward"})) << name;
    const auto& row = rows[{name, "forward"}];
    EXPECT_EQ(row.calls, 1) << name;
    EXPECT_GT(row.flops, 0) << name;
    EXPECT_EQ(row.ceiling, row.flops > row.bytes ? "compute" : "memory") << name;
    EXPECT_TRUE(rows.contains({name, "backward weights"})) << name;
    EXPECT_EQ(row.seconds.size(), static_cast<std::size_t>(world_->size()));
  }
  const auto buckets = static_cast<double>(trainer.description().bucket_sizes.size());
  if (world_->size() == 1) {
    EXPECT_FALSE(rows.contains({"all-reduce", "all-reduce"}));
    EXPECT_EQ((rows[{"update", "update"}].calls), 1);
  } else {
    ASSERT_GT(buckets, 1);
    EXPECT_EQ((rows[{"all-reduce", "all-reduce"}].calls), buckets);
    EXPECT_GT((rows[{"all-reduce", "all-reduce"}].seconds[0]), 0);
  }
}

// The operations follow one another, so no part of a step is missing and none is counted twice.
TEST_F(ProfileTest, TimesAddUpToTheStep) {
  const Config profiled = config(true);
  const ProfileOptions options{.steps = 1, .trace = ""};
  Trainer trainer(place(profiled), nobody_);
  trainer.run();
  const record::Profile profile =
      run_profile(place(profiled), options, trainer.extra_steps()).profile;
  std::vector<double> sums(static_cast<std::size_t>(world_->size()));
  for (const auto& row : profile.operations)
    for (std::size_t rank = 0; rank < sums.size(); ++rank)
      if (row.phase != "all-reduce") sums[rank] += row.seconds[rank];
  // The clock of the phases and that of the operations read the time separately.
  const double slowest = *std::ranges::max_element(sums);
  EXPECT_GT(profile.step_seconds, 0);
  EXPECT_NEAR(slowest, profile.step_seconds, 0.02 * profile.step_seconds + 1e-3);
  EXPECT_GT(profile.step_seconds_without_profile, 0);
}

TEST_F(ProfileTest, TraceHasTheTracksOfEveryRank) {
  const Config profiled = config(true);
  const ProfileOptions options{.steps = 2, .trace = "unused"};
  Trainer trainer(place(profiled), nobody_);
  trainer.run();
  const std::string text = run_profile(place(profiled), options, trainer.extra_steps()).trace;
  EXPECT_EQ(text.empty(), !is_first());
  if (!is_first()) return;
  const auto trace = nlohmann::json::parse(text);
  std::map<int, std::set<std::string>> tracks;
  std::map<int, int> steps, all_reduces;
  for (const auto& item : trace["traceEvents"]) {
    const int rank = item["pid"];
    if (item["name"] == "thread_name") tracks[rank].insert(item["args"]["name"]);
    if (item.value("cat", "") == "step") ++steps[rank];
    if (item.value("cat", "") == "communication") ++all_reduces[rank];
    if (item["ph"] == "X") {
      EXPECT_GE(item["dur"], 0) << item;
    }
  }
  ASSERT_EQ(tracks.size(), static_cast<std::size_t>(world_->size()));
  for (const auto& [rank, names] : tracks) {
    EXPECT_TRUE(names.contains("compute")) << rank;
    EXPECT_EQ(names.contains("communication"), world_->size() > 1) << rank;
    EXPECT_EQ(steps[rank], 2);
    EXPECT_EQ(all_reduces[rank], 2 * std::ssize(trainer.description().bucket_sizes));
  }
}

TEST_F(ProfileTest, EndsOnASignal) {
  for (const bool is_saved : {true, false}) {
    const testing::SharedDirectory directory(*world_);
    Config profiled = config(true);
    const ProfileOptions options{.steps = 1000, .trace = ""};
    if (is_saved) profiled.checkpoint.directory = directory.path();
    Trainer trainer(place(profiled), nobody_);
    EXPECT_EQ(trainer.run().status, record::RunStatus::complete);
    if (world_->rank() + 1 == world_->size()) std::raise(SIGUSR1);
    expect_error<AgreedError>(
        is_saved ? core::ExitStatus::interrupted : core::stopped_by(SIGUSR1), {},
        [&] { run_profile(place(profiled), options, trainer.extra_steps()); });
  }
}

}  // namespace
}  // namespace lockstep::study
