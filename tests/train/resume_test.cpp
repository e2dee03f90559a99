// SPDX-License-Identifier: BSD-3-Clause
// Tests that a checkpoint contains all the state that a resumed run needs to give the same results
// as an uninterrupted run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "expect_error.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/comm/mpi_session.hpp"
#include "lockstep/record/checkpoint.hpp"
#include "lockstep/record/checkpoint_directory.hpp"
#include "lockstep/record/checkpoint_reader.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/trainer.hpp"
#include "lockstep/train/weights.hpp"
#include "scaled_backend.hpp"
#include "small.hpp"

namespace lockstep::train {
namespace {

using namespace testing;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

/// Raises SIGTERM in the process of rank 0 after step `after`; the other ranks receive no signal.
struct Interrupter : Witness {
  explicit Interrupter(std::int64_t step) : after(step) {}
  void step_end(const CompletedStep& step, const StepResult& result) override {
    Witness::step_end(step, result);
    if (step.step == after) std::raise(SIGTERM);
  }
  void evaluation_end(const CompletedEvaluation& evaluation) override {
    if (evaluation.is_of_resumed_state) evaluated_after_resume.push_back(evaluation.epoch);
  }
  std::int64_t after = 0;
  std::vector<std::int64_t> evaluated_after_resume;
};

class ResumedRun : public ::testing::Test {
 protected:
  struct Result {
    RunSummary summary;
    std::vector<float> parameters, statistics, momentum;
  };

  Config config() const {
    Config config = small_config(world_->size());
    config.device.deterministic = true;
    return config;
  }
  Config with_directory() const {
    Config saved = config();
    saved.checkpoint.directory = directory_.path();
    saved.checkpoint.resume = "auto";
    return saved;
  }
  Result train(const Config& config, Witness& witness, core::ProgressMonitor* progress = nullptr) {
    Trainer trainer({config, graph_, data_, *backend_, *world_, *world_, progress}, witness);
    return {.summary = trainer.run(),
            .parameters = copy(trainer.state().parameters),
            .statistics = copy(trainer.state().statistics),
            .momentum = copy(trainer.state().momentum)};
  }
  Result train(const Config& config) {
    Witness witness;
    return train(config, witness);
  }
  std::int64_t counter(std::int64_t step, const std::string& name) const {
    const auto header = record::skim_checkpoint(record::checkpoint_path(directory_.path(), step));
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

/// Results of the steps and epochs of a run that do not depend on time, in the order of the steps.
struct Measured {
  std::vector<double> loss, learning_rate, test_loss, test_accuracy;
  std::vector<std::int64_t> images;
  std::vector<std::string> parameter_hash;  ///< of complete epochs
  bool operator==(const Measured&) const = default;
};

/// Returns the results of the processes of a run, whose epochs have `steps_per_epoch` steps.
Measured measured(const std::vector<record::EpochRecord>& epochs, std::int64_t steps_per_epoch) {
  Measured all;
  for (const record::EpochRecord& epoch : epochs) {
    for (std::size_t i = 0; i < epoch.loss.size(); ++i) {
      all.loss.push_back(epoch.loss[i]);
      all.learning_rate.push_back(epoch.learning_rate[i]);
      all.images.push_back(epoch.images[i]);
    }
    if (static_cast<std::int64_t>(all.loss.size()) % steps_per_epoch != 0) continue;
    if (!std::isnan(epoch.test_loss)) all.test_loss.push_back(epoch.test_loss);
    if (!std::isnan(epoch.test_accuracy)) all.test_accuracy.push_back(epoch.test_accuracy);
    all.parameter_hash.push_back(epoch.parameter_hash);
  }
  return all;
}

/// A variant of the run that is stopped and resumed.
struct Variant {
  std::string name;
  std::function<void(Config&)> change;
  bool has_dropout = false, has_loss_scale = false;
};

class StoppedAtAnyStep : public ResumedRun, public ::testing::WithParamInterface<Variant> {
 protected:
  static constexpr std::int64_t steps_per_epoch = 4;

  /// Trains until rank 0 has completed `step` steps.
  Result stop_after(std::int64_t step, const Config& config, Interrupter& interrupter) {
    // A signal that arrives between two epochs stops the run before the next one.
    const bool is_first_of_epoch = step % steps_per_epoch == 1;
    Signaller signaller(core::Activity::data_wait, step);
    if (!is_first_of_epoch) interrupter.after = step - 1;
    return train(config, interrupter, is_first() && is_first_of_epoch ? &signaller : nullptr);
  }

  /// Returns the values of all tensors of the network in the checkpoint after `step` steps.
  std::vector<float> tensors_of(const fs::path& directory, std::int64_t step,
                                optim::Kind optimiser) {
    backend::ModelState state = backend_->make_state(graph_, optimiser);
    std::vector<record::Tensor> tensors = weight_tensors(graph_, state);
    for (const auto& tensor : optimiser_tensors(graph_, state)) tensors.push_back(tensor);
    record::read_checkpoint(record::checkpoint_path(directory, step), tensors,
                            record::Verify::required);
    std::vector<float> values;
    for (const auto& tensor : tensors) {
      values.insert(values.end(), tensor.values.begin(), tensor.values.end());
    }
    return values;
  }
};

/// Returns the counters of the checkpoint except those of the processes that have worked on the
/// run.
record::Counters counters_of(const fs::path& directory, std::int64_t step) {
  auto counters = record::skim_checkpoint(record::checkpoint_path(directory, step)).counters;
  std::erase_if(counters, [](const auto& counter) {
    return counter.first == "part" || counter.first == "sequence";
  });
  return counters;
}

std::string name_of(const ::testing::TestParamInfo<Variant>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    , StoppedAtAnyStep,
    ::testing::Values(
        Variant{"Default", [](Config&) {}},
        Variant{"EvaluationAtTheEnd", [](Config& config) { config.evaluate_every = 0; }},
        Variant{"Dropout", [](Config&) {}, true}, Variant{"LossScale", [](Config&) {}, false, true},
        Variant{"LocalBatchNorm", [](Config& config) { config.batch_norm = BatchNormMode::local; }},
        Variant{"Lars",
                [](Config& config) {
                  config.optimiser = {.kind = optim::Kind::lars,
                                      .vector_decay = optim::VectorDecay::off};
                  config.optimiser.resolve();
                }},
        Variant{"AdamW",
                [](Config& config) {
                  config.optimiser = {.kind = optim::Kind::adamw};
                  config.optimiser.resolve();
                }},
        Variant{"TopK",
                [](Config& config) {
                  config.reducer.kind = comm::ReducerKind("top-k");
                  config.reducer.algorithm = comm::AllReduceAlgorithm::automatic;
                }},
        Variant{"ParameterServer",
                [](Config& config) {
                  config.reducer.kind = comm::ReducerKind::parameter_server;
                  config.reducer.algorithm = comm::AllReduceAlgorithm::automatic;
                }}),
    name_of);

TEST_P(StoppedAtAnyStep, TheRunChangesNoBit) {
  constexpr std::int64_t steps = 2 * steps_per_epoch;
  if (GetParam().has_dropout) graph_ = small_dropout_graph();
  if (GetParam().has_loss_scale) backend_ = std::make_unique<ScaledBackend>(std::move(backend_));
  const fs::path whole_directory = directory_.path() + "/whole";
  Config options = with_directory();
  GetParam().change(options);
  options.checkpoint.directory = whole_directory.string();
  Witness whole;
  const Result expected = train(options, whole);
  for (std::int64_t stop = 1; stop < steps; ++stop) {
    SCOPED_TRACE(stop);
    const fs::path parts_directory = directory_.path() + "/stop" + std::to_string(stop);
    options.checkpoint.directory = parts_directory.string();
    Interrupter first(-1), second(-1);
    const Result stopped = stop_after(stop, options, first);
    EXPECT_TRUE(stopped.summary.checkpoint_saved);
    const Result resumed = train(options, second);
    EXPECT_EQ(resumed.parameters, expected.parameters);
    EXPECT_EQ(resumed.statistics, expected.statistics);
    if (!is_first()) continue;
    EXPECT_EQ(resumed.momentum, expected.momentum);
    EXPECT_EQ(resumed.summary.best_test_accuracy, expected.summary.best_test_accuracy);
    EXPECT_EQ(stopped.summary.last_step, stop);
    const optim::Kind optimiser = options.optimiser.kind;
    EXPECT_EQ(tensors_of(parts_directory, steps, optimiser),
              tensors_of(whole_directory, steps, optimiser));
    EXPECT_EQ(counters_of(parts_directory, steps), counters_of(whole_directory, steps));
    std::vector<record::EpochRecord> parts = first.epochs;
    parts.insert(parts.end(), second.epochs.begin(), second.epochs.end());
    EXPECT_EQ(measured(parts, steps_per_epoch), measured(whole.epochs, steps_per_epoch));
  }
}

/// Makes the directory of the checkpoints unusable after a step, like a file system that fails.
struct DirectoryRemover : Witness {
  DirectoryRemover(fs::path directory_, std::int64_t step)
      : directory(std::move(directory_)), after(step) {}
  void step_end(const CompletedStep& step, const StepResult& result) override {
    Witness::step_end(step, result);
    if (step.step != after) return;
    fs::rename(directory, directory.string() + ".moved");
  }
  fs::path directory;
  std::int64_t after = 0;
};

TEST_F(ResumedRun, AFailureInTheBackgroundEndsTheRunOnAllRanks) {
  const fs::path directory = directory_.path() + "/ckpt";
  Config options = config();
  options.checkpoint.directory = directory.string();
  options.checkpoint.steps = 1;
  options.epochs = 200;
  DirectoryRemover remover(directory, 3);
  expect_error<AgreedError>(core::ExitStatus::output, {"ckpt"}, [&] { train(options, remover); });
  if (is_first()) {
    EXPECT_LE(remover.steps.size(), 5u);
    EXPECT_TRUE(record::newest_checkpoint(directory.string() + ".moved").has_value());
  }
}

// Without a further checkpoint that is due, the failure is found after one of the next steps.
TEST_F(ResumedRun, AFailureIsFoundBeforeTheNextCheckpointIsDue) {
  const fs::path directory = directory_.path() + "/ckpt";
  Config options = config();
  options.checkpoint.directory = directory.string();
  options.checkpoint.steps = 5;
  options.epochs = 100'000;
  DirectoryRemover remover(directory, 5);
  EXPECT_THROW(train(options, remover), AgreedError);
  if (is_first()) {
    EXPECT_GT(remover.steps.size(), 5u);
    EXPECT_LT(remover.steps.size(), 5'000u);
  }
}

TEST_F(ResumedRun, RefusesACheckpointOfAnotherOptimiser) {
  Config options = with_directory();
  train(options);
  options.optimiser = {.kind = optim::Kind::adamw};
  options.optimiser.resolve();
  options.epochs = 3;
  expect_error<AgreedError>(
      core::ExitStatus::usage,
      {"its optimizer is sgd, this run's is adamw; use --optimizer sgd, or take"},
      [&] { train(options); });
}

TEST_F(ResumedRun, HasTheReplicaOfEachRank) {
  Config whole = config();
  whole.reducer.kind = comm::ReducerKind::none;
  const Result expected = train(whole);
  Config parts = with_directory();
  parts.reducer.kind = comm::ReducerKind::none;
  Interrupter interrupter(2);
  EXPECT_EQ(train(parts, interrupter).summary.last_step, 4);  // ranks agree at the end of an epoch
  const Result resumed = train(parts);
  EXPECT_EQ(resumed.parameters, expected.parameters);
  EXPECT_EQ(resumed.momentum, expected.momentum);
  EXPECT_EQ(resumed.statistics, expected.statistics);
}

TEST_F(ResumedRun, IndependentReplicasSaveADueCheckpointAtTheEndOfTheEpoch) {
  Config parts = with_directory();
  parts.reducer.kind = comm::ReducerKind::none;
  parts.checkpoint.steps = 3;
  train(parts);
  world_->barrier();
  EXPECT_TRUE(fs::exists(record::checkpoint_path(directory_.path(), 4)));
}

TEST_F(ResumedRun, SavesACheckpointOfAnEpochsEndAfterItsEvaluation) {
  Config parts = with_directory();
  parts.checkpoint.steps = 4;
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
  EXPECT_TRUE(trainer.description().is_finished);
  const RunSummary summary = trainer.run();
  EXPECT_EQ(summary.steps, 0);
  EXPECT_EQ(summary.last_test_accuracy, first.summary.last_test_accuracy);
  EXPECT_EQ(fs::last_write_time(last), written);
}

TEST_F(ResumedRun, FromAnOlderCheckpointKeepsWhatItWrites) {
  Config first = with_directory();
  first.checkpoint.steps = 2;
  first.checkpoint.keep = 4;
  train(first);  // saves checkpoints at steps 2, 4, 6 and 8
  world_->barrier();
  const fs::path older = directory_.path() + "-older.h5";
  if (is_first()) fs::copy_file(record::checkpoint_path(directory_.path(), 2), older);
  world_->barrier();
  Config again = first;
  again.checkpoint.resume = older.string();
  again.checkpoint.keep = 1;
  Interrupter interrupter(4);
  train(again, interrupter);
  world_->barrier();
  EXPECT_EQ(record::newest_checkpoint(directory_.path()),
            record::checkpoint_path(directory_.path(), 4));
  world_->barrier();
  if (is_first()) fs::remove(older);
}

/// Returns the number of bytes that this process has read from files; 0 if the kernel does not
/// count them.
double bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string name;
  double bytes = 0;
  file >> name >> bytes;
  return name == "rchar:" ? bytes : 0;
}

TEST_F(ResumedRun, ReadsTheNewestCheckpointOnce) {
  graph_ = graph::Graph("large");
  const auto node = graph_.flatten("flatten", graph_.input({3, 32, 32}));
  graph_.softmax_cross_entropy("loss", graph_.linear("linear", node, 100), {});
  graph_.seal();
  Config options = with_directory();
  options.checkpoint.steps = 4;
  train(options);
  world_->barrier();
  const double before = bytes_read();
  Witness witness;
  const Trainer trainer({options, graph_, data_, *backend_, *world_, *world_}, witness);
  const double read = bytes_read() - before;
  if (!is_first() || before == 0) return;
  const auto bytes =
      static_cast<double>(fs::file_size(record::checkpoint_path(directory_.path(), 8)));
  EXPECT_GT(read, bytes);
  EXPECT_LT(read, 1.5 * bytes);
}

/// Delays rank 0 after the first epoch, like a slow disk.
struct SlowWriter : Witness {
  void epoch_end(record::EpochRecord& epoch) override {
    Witness::epoch_end(epoch);
    if (epoch.epoch == 1) std::this_thread::sleep_for(std::chrono::milliseconds(600));
  }
};

// Other processes may delay rank 0 in a step of one attempt. All ranks need the longest wait, which
// only rank 0 records, because each attempt is collective.
TEST_F(ResumedRun, WritingIsNotRecordedAsCommunication) {
  if (world_->size() == 1) GTEST_SKIP() << "needs several ranks";
  constexpr double limit = 0.45;
  Config options = config();
  options.epochs = 3;
  double longest = limit;
  for (int attempt = 0; attempt < 5 && longest >= limit; ++attempt) {
    SlowWriter slow;
    train(options, slow);
    longest = 0;
    for (const auto& epoch : slow.epochs) {
      const auto exposed = static_cast<std::size_t>(record::Phase::exposed_communication);
      for (std::size_t at = exposed; at < epoch.phase_seconds.size(); at += record::phase_count)
        longest = std::max(longest, epoch.phase_seconds[at]);
    }
    comm::broadcast(*world_, longest);
  }
  EXPECT_LT(longest, limit);
}

}  // namespace
}  // namespace lockstep::train
