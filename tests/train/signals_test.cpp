// SPDX-License-Identifier: BSD-3-Clause
// Tests of the trainer when a signal arrives at the beginning of each activity outside of the
// steps, on 1, 2 and 4 ranks. The signal arrives on one rank.

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>

#include "lockstep/comm/mpi_session.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/record/checkpoint.hpp"
#include "lockstep/record/checkpoint_directory.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/trainer.hpp"
#include "small.hpp"

namespace lockstep::train {
namespace {

using namespace testing;
namespace fs = std::filesystem;

class SignalledTrainer : public ::testing::Test {
 protected:
  Config config() const {
    Config config = small_config(world_->size());
    config.device.deterministic = true;
    config.checkpoint.directory = directory_.path();
    config.checkpoint.resume = "auto";
    return config;
  }
  TrainingContext place(const Config& config, core::ProgressMonitor* progress = nullptr) const {
    return {config, graph_, data_, *backend_, *world_, *world_, progress};
  }
  /// Trains; the last rank receives a signal when `activity` begins.
  RunSummary train(const Config& config, core::Activity activity) {
    Signaller signaller(activity);
    core::ProgressMonitor* const progress = is_last() ? &signaller : nullptr;
    Trainer trainer(place(config, progress), witness_);
    return trainer.run();
  }
  bool has_checkpoint(std::int64_t step) const {
    world_->barrier();
    const bool exists = fs::exists(record::checkpoint_path(directory_.path(), step));
    world_->barrier();
    return exists;
  }
  bool is_first() const { return world_->rank() == 0; }
  bool is_last() const { return world_->rank() + 1 == world_->size(); }

  int argc_ = 0;
  char** argv_ = nullptr;
  comm::MpiSession session_{argc_, argv_};
  std::unique_ptr<comm::Communicator> world_ = comm::make_communicator(session_);
  std::unique_ptr<backend::Backend> backend_ = backend::make_backend(
      {.kind = backend::DeviceKind::cpu, .threads = 1, .deterministic = true});
  graph::Graph graph_ = small_graph(Norm::with_batch_norm);
  // The evaluation has more than one batch on each of 4 ranks.
  data::TrainingData data_ =
      data::load({.source = "synthetic:5000", .train_samples = 64, .test_samples = 802, .seed = 3});
  SharedDirectory directory_{*world_};
  Witness witness_;
};

TEST_F(SignalledTrainer, CompletesAnEvaluationForWhichThereIsTime) {
  const RunSummary summary = train(config(), core::Activity::evaluation);
  EXPECT_EQ(summary.status, record::RunStatus::preempted);
  EXPECT_EQ(summary.stop_signal, SIGTERM);
  EXPECT_EQ(summary.last_step, 4);
  EXPECT_TRUE(summary.checkpoint_saved);
  EXPECT_TRUE(has_checkpoint(4));
  if (is_first()) {
    EXPECT_TRUE(std::isfinite(witness_.epochs.back().test_accuracy));
  }
}

TEST_F(SignalledTrainer, AbandonsAnEvaluationForWhichThereIsNoTime) {
  Config saved = config();
  saved.checkpoint.steps = 2;
  saved.checkpoint.grace_seconds = 1e-9;
  const RunSummary summary = train(saved, core::Activity::evaluation);
  EXPECT_EQ(summary.status, record::RunStatus::preempted);
  EXPECT_EQ(summary.last_step, 4);
  EXPECT_FALSE(summary.checkpoint_saved);
  EXPECT_EQ(summary.kept_step, 2);
  EXPECT_FALSE(has_checkpoint(4));
  if (is_first()) {
    EXPECT_FALSE(std::isfinite(witness_.epochs.back().test_accuracy));
  }
}

TEST_F(SignalledTrainer, RepeatsAnAbandonedEvaluationOfTheLastEpoch) {
  Config last = config();
  last.epochs = 1;
  last.checkpoint.steps = 3;
  last.checkpoint.grace_seconds = 1e-9;
  EXPECT_EQ(train(last, core::Activity::evaluation).status, record::RunStatus::preempted);
  last.checkpoint.grace_seconds = 30;
  const RunSummary resumed = train(last, core::Activity::program_start);
  EXPECT_EQ(resumed.status, record::RunStatus::complete);
  EXPECT_TRUE(std::isfinite(resumed.last_test_accuracy));
}

TEST_F(SignalledTrainer, TrainsNoFurtherStepAfterASignalDuringASave) {
  Config saved = config();
  saved.checkpoint.steps = 2;
  const RunSummary summary = train(saved, core::Activity::saving_checkpoint);
  EXPECT_EQ(summary.status, record::RunStatus::preempted);
  EXPECT_EQ(summary.last_step, 2);
  EXPECT_TRUE(summary.checkpoint_saved);
}

TEST_F(SignalledTrainer, TrainsNoFurtherEpochAfterASignalAtTheEndOfAnEpoch) {
  for (const core::Activity activity :
       {core::Activity::gathering_times, core::Activity::writing_run_file}) {
    Config saved = config();
    saved.checkpoint.directory += std::string("/") + core::text_of(activity);
    const RunSummary summary = train(saved, activity);
    EXPECT_EQ(summary.status, record::RunStatus::preempted);
    EXPECT_EQ(summary.last_step, 4) << core::text_of(activity);
    EXPECT_TRUE(summary.checkpoint_saved);
  }
}

TEST_F(SignalledTrainer, SavesNothingBeforeTheFirstStep) {
  Trainer trainer(place(config()), witness_);
  if (is_last()) std::raise(SIGTERM);
  const RunSummary summary = trainer.run();
  EXPECT_EQ(summary.status, record::RunStatus::preempted);
  EXPECT_EQ(summary.steps, 0);
  EXPECT_FALSE(summary.checkpoint_saved);
  EXPECT_FALSE(has_checkpoint(0));
}

TEST_F(SignalledTrainer, StatesThatTheLastCheckpointOfACompleteRunIsMissing) {
  Config short_grace = config();
  short_grace.checkpoint.grace_seconds = 0;
  short_grace.evaluate_every = -1;
  struct Last final : TrainingListener {
    void step_end(const CompletedStep& step, const StepResult&) override {
      if (step.step == step.total_steps) std::raise(SIGTERM);
    }
  } last;
  Trainer trainer(place(short_grace), last);
  const RunSummary summary = trainer.run();
  EXPECT_EQ(summary.status, record::RunStatus::complete);
  EXPECT_EQ(summary.stop_signal, SIGTERM);
  EXPECT_GT(summary.refused_save_seconds, 0);
  EXPECT_FALSE(summary.checkpoint_saved);
}

TEST_F(SignalledTrainer, SavesNothingIfTheGraceTimeIsTooShort) {
  Config saved = config();
  saved.checkpoint.steps = 2;
  saved.checkpoint.grace_seconds = 0;
  struct Late final : TrainingListener {
    void step_end(const CompletedStep& step, const StepResult&) override {
      if (step.step == 2) std::raise(SIGTERM);  // before the first checkpoint is saved
    }
  } late;
  Trainer trainer(place(saved), late);
  const RunSummary summary = trainer.run();
  EXPECT_EQ(summary.status, record::RunStatus::preempted);
  EXPECT_EQ(summary.last_step, 2);
  EXPECT_FALSE(summary.checkpoint_saved);
  EXPECT_EQ(summary.kept_step, -1);
  EXPECT_FALSE(has_checkpoint(2));
}

}  // namespace
}  // namespace lockstep::train
