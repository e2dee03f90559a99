// Tests that a checkpoint contains all the state that a resumed run needs to give the same results
// as an uninterrupted run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "lockstep/record/checkpoint.hpp"
#include "lockstep/record/phase.hpp"
#include "lockstep/train/ladder.hpp"
#include "lockstep/train/trainer.hpp"
#include "scaled_backend.hpp"
#include "small.hpp"

namespace lockstep::train {
namespace {

using namespace testing;
namespace fs = std::filesystem;

std::vector<float> copy(const core::Buffer& buffer) {
  const auto values = buffer.as<float>();
  return {values.begin(), values.end()};
}

/// Raises SIGTERM in the process of rank 0 after step `after`; the other ranks receive no signal.
struct Interrupter : Witness {
  explicit Interrupter(std::int64_t step) : after(step) {}
  void step_done(const StepReport& report) override {
    Witness::step_done(report);
    if (report.step == after) std::raise(SIGTERM);
  }
  void resumed_state_evaluated(const record::EpochRecord& epoch) override {
    evaluated_after_resume.push_back(epoch.epoch);
  }
  std::int64_t after = 0;
  std::vector<std::int64_t> evaluated_after_resume;
};

class ResumedRun : public ::testing::Test {
 protected:
  struct Result {
    RunSummary summary;
    std::vector<float> parameters, statistics, momentum;
    double test_loss = 0;  ///< test loss of the last epoch; only on rank 0
  };

  Config config() const {
    Config config = small_config(world_->size());
    config.deterministic = true;
    return config;
  }
  Config with_directory() const {
    Config saved = config();
    saved.checkpoint_dir = directory_.path();
    saved.resume = "auto";
    return saved;
  }
  Result train(const Config& config, Witness& witness) {
    Trainer trainer({config, graph_, data_, *backend_, *world_, *world_}, witness);
    Result result{.summary = trainer.run(),
                  .parameters = copy(trainer.state().parameters),
                  .statistics = copy(trainer.state().statistics),
                  .momentum = copy(trainer.state().momentum)};
    if (!witness.epochs.empty()) result.test_loss = witness.epochs.back().test_loss;
    return result;
  }
  Result train(const Config& config) {
    Witness witness;
    return train(config, witness);
  }
  std::int64_t counter(std::int64_t step, const std::string& name) const {
    const auto header =
        record::read_checkpoint_header(record::checkpoint_path(directory_.path(), step));
    for (const auto& [key, value] : header.counters) {
      if (key == name) return value;
    }
    return -2;
  }
  bool is_first() const { return world_->rank() == 0; }

  int argc_ = 0;
  char** argv_ = nullptr;
  comm::MpiSession session_{argc_, argv_};
  std::unique_ptr<comm::Communicator> world_ = comm::make_communicator(session_);
  std::unique_ptr<backend::Backend> backend_ = backend::make_backend(backend::DeviceOptions{
      .kind = backend::DeviceKind::cpu, .threads = 1, .deterministic = true});
  graph::Graph graph_ = small_graph(Norm::with_batch_norm);
  data::TrainingData data_ = small_data();
  SharedDirectory directory_{*world_};
};

TEST_F(ResumedRun, HasTheStatisticsOfEachRank) {
  Config whole = config();
  whole.batch_norm = BatchNormMode::local;
  const Result expected = train(whole);
  Config parts = with_directory();
  parts.batch_norm = BatchNormMode::local;
  Interrupter interrupter(2);
  EXPECT_EQ(train(parts, interrupter).summary.last_step, 3);
  const Result resumed = train(parts);
  EXPECT_EQ(resumed.parameters, expected.parameters);
  EXPECT_EQ(resumed.statistics, expected.statistics);
  if (is_first()) {
    EXPECT_EQ(resumed.test_loss, expected.test_loss);
  }
}

TEST_F(ResumedRun, HasTheReplicaOfEachRank) {
  Config whole = config();
  whole.reducer = comm::ReducerKind::none;
  const Result expected = train(whole);
  Config parts = with_directory();
  parts.reducer = comm::ReducerKind::none;
  Interrupter interrupter(2);
  EXPECT_EQ(train(parts, interrupter).summary.last_step, 4);  // ranks agree at the end of an epoch
  const Result resumed = train(parts);
  EXPECT_EQ(resumed.parameters, expected.parameters);
  EXPECT_EQ(resumed.momentum, expected.momentum);
  EXPECT_EQ(resumed.statistics, expected.statistics);
}

TEST_F(ResumedRun, IndependentReplicasSaveADueCheckpointAtTheEndOfTheEpoch) {
  Config parts = with_directory();
  parts.reducer = comm::ReducerKind::none;
  parts.checkpoint_steps = 3;
  train(parts);
  world_->barrier();
  EXPECT_TRUE(fs::exists(record::checkpoint_path(directory_.path(), 4)));
}

TEST_F(ResumedRun, HasTheLossScale) {
  backend_ = std::make_unique<ScaledBackend>(std::move(backend_));
  const Result expected = train(config());
  Interrupter interrupter(2);
  train(with_directory(), interrupter);
  EXPECT_EQ(train(with_directory()).parameters, expected.parameters);
}

TEST_F(ResumedRun, SavesACheckpointOfAnEpochsEndAfterItsEvaluation) {
  Config parts = with_directory();
  parts.checkpoint_steps = 4;
  Interrupter interrupter(6);
  train(parts, interrupter);  // stops in the second epoch
  world_->barrier();
  EXPECT_EQ(counter(4, "evaluated_step"), 4);
  EXPECT_GE(counter(4, "best_correct"), 0);
  EXPECT_EQ(counter(7, "evaluated_step"), 4);
}

TEST_F(ResumedRun, AStopInTheLastStepOfAnEpochDoesNotLoseItsEvaluation) {
  Interrupter interrupter(3);
  const Result stopped = train(with_directory(), interrupter);
  EXPECT_EQ(stopped.summary.status, record::RunStatus::preempted);
  EXPECT_EQ(stopped.summary.stop_signal, SIGTERM);
  EXPECT_EQ(stopped.summary.last_step, 4);
  world_->barrier();
  EXPECT_EQ(counter(4, "evaluated_step"), 4);
  if (is_first()) {
    EXPECT_TRUE(std::isfinite(interrupter.epochs.back().test_accuracy));
  }
}

// The first run has the state of a process that was killed between saving a checkpoint and the
// evaluation after it.
TEST_F(ResumedRun, EvaluatesWhatAKilledProcessCouldNot) {
  Config unevaluated = with_directory();
  unevaluated.evaluate_every = -1;
  unevaluated.steps = 4;
  unevaluated.epochs = 0;
  train(unevaluated);
  Interrupter witness(-1);
  const Result resumed = train(with_directory(), witness);
  if (is_first()) {
    EXPECT_THAT(witness.evaluated_after_resume, ::testing::ElementsAre(1));
  }
  EXPECT_TRUE(std::isfinite(resumed.summary.best_test_accuracy));
}

TEST_F(ResumedRun, ResumeOfACompleteRunChangesNothing) {
  const Result first = train(with_directory());
  world_->barrier();
  const fs::path last = record::checkpoint_path(directory_.path(), 8);
  const auto written = fs::last_write_time(last);
  world_->barrier();
  Witness witness;
  const Config config = with_directory();
  Trainer trainer({config, graph_, data_, *backend_, *world_, *world_}, witness);
  EXPECT_TRUE(trainer.is_finished());
  const RunSummary summary = trainer.run();
  EXPECT_EQ(summary.steps, 0);
  EXPECT_EQ(summary.last_test_accuracy, first.summary.last_test_accuracy);
  EXPECT_EQ(fs::last_write_time(last), written);
}

TEST_F(ResumedRun, FromAnOlderCheckpointKeepsWhatItWrites) {
  Config first = with_directory();
  first.checkpoint_steps = 2;
  first.keep = 4;
  train(first);  // saves checkpoints at steps 2, 4, 6 and 8
  world_->barrier();
  const fs::path older = directory_.path() + "-older.h5";
  if (is_first()) fs::copy_file(record::checkpoint_path(directory_.path(), 2), older);
  world_->barrier();
  Config again = first;
  again.resume = older.string();
  again.keep = 1;
  Interrupter interrupter(4);
  train(again, interrupter);
  world_->barrier();
  EXPECT_EQ(record::newest_checkpoint(directory_.path()),
            record::checkpoint_path(directory_.path(), 5));
  world_->barrier();
  if (is_first()) fs::remove(older);
}

/// Delays rank 0 after each epoch, like a slow disk.
struct SlowWriter : Witness {
  void epoch_done(const record::EpochRecord& epoch) override {
    Witness::epoch_done(epoch);
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  }
};

TEST_F(ResumedRun, WritingIsNotRecordedAsCommunication) {
  SlowWriter slow;
  Config options = config();
  options.epochs = 3;
  train(options, slow);
  for (const auto& epoch : slow.epochs) {
    for (std::size_t at = 0; at < epoch.phase_seconds.size(); at += record::phase_count) {
      const auto phase = static_cast<std::size_t>(record::Phase::exposed_communication);
      EXPECT_LT(epoch.phase_seconds[at + phase], 0.9);
    }
  }
}

TEST_F(ResumedRun, ALadderStopsOnASignalBetweenTwoPoints) {
  Config ladder = small_config(world_->size());
  ladder.command = "ladder";
  ladder.ladder_start = 1;
  ladder.steps = 1;
  const data::DataSizes sizes =
      data::sizes({.source = "synthetic:64", .train_samples = 64, .test_samples = 11, .seed = 3});
  const LadderResult result = run_ladder({ladder, graph_, data_, *backend_, *world_, *world_},
                                         sizes, 0, std::uint64_t{1} << 40, [&](const LadderPoint&) {
                                           if (is_first()) std::raise(SIGUSR1);
                                         });
  EXPECT_EQ(result.end, LadderEnd::stopped);
  EXPECT_EQ(result.stop_signal, SIGUSR1);
  EXPECT_EQ(result.points.size(), 1u);
}

}  // namespace
}  // namespace lockstep::train
