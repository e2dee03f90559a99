// SPDX-License-Identifier: BSD-3-Clause
// Tests the whole trainer on 1, 2 and 4 ranks; the reference is the trainer on one rank.

#include "lockstep/train/trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "expect_error.hpp"
#include "lockstep/comm/mpi_session.hpp"
#include "lockstep/record/checkpoint_directory.hpp"
#include "lockstep/record/checkpoint_writer.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/evaluation.hpp"
#include "lockstep/train/weights.hpp"
#include "train/small.hpp"

namespace lockstep::train {
namespace {

using namespace testing;
using ::testing::HasSubstr;

class TrainerTest : public ::testing::Test {
 protected:
  TrainingContext place(const Config& config, comm::Communicator& on) const {
    return {config, graph_, data_, *backend_, on, on};
  }
  int ranks() const { return world_->size(); }
  Config config() const { return small_config(ranks()); }

  int argc_ = 0;
  char** argv_ = nullptr;
  comm::MpiSession session_{argc_, argv_};
  std::unique_ptr<comm::Communicator> world_ = comm::make_communicator(session_);
  std::unique_ptr<comm::Communicator> alone_ = comm::make_self_communicator();
  std::unique_ptr<backend::Backend> backend_ = backend::make_backend(backend::DeviceKind::cpu, 1);
  graph::Graph graph_ = small_graph(Norm::without);
  data::TrainingData data_ = small_data();
  TrainingListener nobody_;
};

/// Returns the images of `set` with other properties, for example another normalisation.
std::unique_ptr<const data::Dataset> with_info(const data::Dataset& set, data::DatasetInfo info) {
  return std::make_unique<const data::Dataset>(
      std::move(info), data::LabelledImages{{set.pixels().begin(), set.pixels().end()},
                                            {set.labels().begin(), set.labels().end()}});
}

/// Final state of a run: the gradients of the last step (of the mean over the global batch), the
/// parameters and the batch-norm statistics.
struct Outcome {
  std::vector<float> gradients, parameters, statistics;
};

Outcome train_to_end(const TrainingContext& context) {
  TrainingListener nobody;
  Trainer trainer(context, nobody);
  trainer.run();
  Outcome outcome{copy(trainer.state().gradients), copy(trainer.state().parameters),
                  copy(trainer.state().statistics)};
  for (float& gradient : outcome.gradients) {
    gradient /= static_cast<float>(context.world.size());
  }
  return outcome;
}

TEST_F(TrainerTest, BucketsOfOneValueGiveTheSameParameters) {
  const auto train_with = [&](double bucket_mib) {
    Config some = config();
    some.epochs = 0;
    some.steps = 2;
    some.bucket_mib = bucket_mib;
    some.reducer.algorithm = comm::AllReduceAlgorithm::direct;
    return train_to_end(place(some, *world_)).parameters;
  };
  const std::size_t buckets = graph_.parameter_elements();
  ASSERT_GT(buckets, 1023u);  // more than 32,767 tags allow without reuse
  EXPECT_EQ(train_with(4.0 / (1 << 20)), train_with(1));
}

/// Selects `reducer`, with its own all-reduce algorithm if it has one.
void select(Config& config, comm::ReducerKind reducer) {
  config.reducer.kind = reducer;
  const bool has_own = comm::algorithm_of({.kind = reducer}) != comm::AllReduceAlgorithm::automatic;
  if (has_own) config.reducer.algorithm = comm::AllReduceAlgorithm::automatic;
}

struct Following {
  Norm norm;
  BatchNormMode mode;
  comm::ReducerKind reducer;
};

class FollowingTest : public TrainerTest, public ::testing::WithParamInterface<Following> {};

// Several ranks sum over the 16 images in a different order. Float32 rounding errors of 6e-8 in
// some hundred terms give 1e-6. The tolerances of 1e-5, and of 1e-4 for the gradients after six
// steps, let later steps amplify them.
TEST_P(FollowingTest, RanksWithTheSameGlobalBatchFollowOneRank) {
  graph_ = small_graph(GetParam().norm);
  for (const std::int64_t steps : {1, 6}) {
    Config many = config();
    many.epochs = 0;
    many.steps = steps;
    many.batch_norm = GetParam().mode;
    select(many, GetParam().reducer);
    Config one = many;
    one.batch_per_rank = one.global_batch;
    const Outcome expected = train_to_end(place(one, *alone_));
    const Outcome actual = train_to_end(place(many, *world_));
    if (GetParam().reducer != comm::ReducerKind::parameter_server || world_->rank() == 0) {
      EXPECT_LT(relative_difference(actual.gradients, expected.gradients),
                steps == 1 ? 1e-5 : 1e-4);
    }
    EXPECT_LT(relative_difference(actual.parameters, expected.parameters), 1e-5);
    if (GetParam().norm == Norm::with_batch_norm) {
      EXPECT_LT(relative_difference(actual.statistics, expected.statistics), 1e-5);
    }
  }
}

// The mask of an image depends on its index in the global batch, not on its rank.
TEST_F(TrainerTest, DropoutOnSeveralRanksFollowsOneRank) {
  graph_ = small_dropout_graph();
  Config many = config();
  many.epochs = 0;
  many.steps = 2;
  Config one = many;
  one.batch_per_rank = one.global_batch;
  const Outcome expected = train_to_end(place(one, *alone_));
  const Outcome actual = train_to_end(place(many, *world_));
  EXPECT_LT(relative_difference(actual.gradients, expected.gradients), 1e-4);
  EXPECT_LT(relative_difference(actual.parameters, expected.parameters), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(
    , FollowingTest,
    ::testing::Values(
        Following{Norm::without, BatchNormMode::broadcast, comm::ReducerKind::overlap},
        Following{Norm::without, BatchNormMode::broadcast, comm::ReducerKind::allreduce},
        Following{Norm::without, BatchNormMode::broadcast, comm::ReducerKind::gather_scatter},
        Following{Norm::without, BatchNormMode::broadcast, comm::ReducerKind::parameter_server},
        Following{Norm::with_batch_norm, BatchNormMode::sync, comm::ReducerKind::parameter_server},
        Following{Norm::with_batch_norm, BatchNormMode::sync, comm::ReducerKind::overlap}));

TEST_F(TrainerTest, TopKLearns) {
  Config sparse = config();
  select(sparse, comm::ReducerKind("top-k"));
  sparse.epochs = 20;
  Witness witness;
  Trainer trainer(place(sparse, *world_), witness);
  trainer.run();
  if (world_->rank() > 0) return;
  // A gradient is sent about every 100 steps, so that 80 steps change the network little.
  EXPECT_LT(witness.epochs.back().train_loss, 0.97 * witness.epochs.front().train_loss);
}

// All of them sum the same gradients, in float32 and in other orders at most: the tolerance is that
// of the parameters above. Rank order is also that of `direct`, so gather-scatter gives its bits.
TEST_F(TrainerTest, EveryReducerGivesTheSameLosses) {
  const auto losses_with = [&](comm::ReducerKind reducer) {
    Config some = config();
    select(some, reducer);
    Witness witness;
    Trainer trainer(place(some, *world_), witness);
    trainer.run();
    std::vector<double> losses;
    for (const CompletedStep& step : witness.steps) losses.push_back(step.loss);
    return losses;
  };
  const auto expected = losses_with(comm::ReducerKind::allreduce);
  EXPECT_EQ(losses_with(comm::ReducerKind::gather_scatter), expected);
  EXPECT_EQ(losses_with(comm::ReducerKind::overlap), expected);
  const auto with_server = losses_with(comm::ReducerKind::parameter_server);
  ASSERT_EQ(with_server.size(), world_->rank() == 0 ? 8u : 0u);
  for (std::size_t step = 0; step < with_server.size(); ++step)
    EXPECT_NEAR(with_server[step], expected[step], 1e-5 * expected[step]) << "step " << step;
}

// The expected bytes follow from the definitions of the reducers: G is the size of the gradients,
// which is also that of the parameters, and B that of the images and labels of a rank.
TEST_F(TrainerTest, RecordsTheMessagesOfEveryStepAndRank) {
  const double others = ranks() - 1;
  const double g = 4.0 * static_cast<double>(graph_.parameter_elements());
  const double b = 16.0 / ranks() * (3 * 32 * 32 + 4);
  using Bytes = std::pair<double, double>;  // sent, received
  struct Expected {
    comm::ReducerKind reducer;
    Bytes root, worker;
  };
  const std::vector<Expected> known = {
      {comm::ReducerKind::none, {0, 0}, {0, 0}},
      {comm::ReducerKind::gather_scatter, {others * g, others * g}, {g, g}},
      {comm::ReducerKind::parameter_server, {others * (g + b), others * g}, {g, g + b}},
  };
  for (const auto& [reducer, root, worker] : known) {
    Config some = config();
    select(some, reducer);
    Witness witness;
    Trainer(place(some, *world_), witness).run();
    for (const auto& epoch : witness.epochs) {
      const auto& sent = epoch.measurements.at("/steps/sent_bytes");
      const auto& received = epoch.measurements.at("/steps/received_bytes");
      const auto count = static_cast<std::size_t>(ranks());
      ASSERT_EQ(sent.size(), 4 * count);
      ASSERT_EQ(received.size(), 4 * count);
      for (std::size_t i = 0; i < sent.size(); ++i) {
        const Bytes expected = ranks() == 1 ? Bytes{} : i % count == 0 ? root : worker;
        EXPECT_EQ((Bytes{sent[i], received[i]}), expected) << reducer.name() << " " << i;
      }
    }
  }
}

TEST_F(TrainerTest, OnlyTheParameterServerReadsTrainingImages) {
  Config some = config();
  select(some, comm::ReducerKind::parameter_server);
  data::TrainingData data = small_data();
  if (world_->rank() != 0)
    data.train = data::load({.source = "synthetic:64", .test_samples = 1, .seed = 4}).train;
  const auto trained = [&](const data::TrainingData& images) {
    return train_to_end({some, graph_, images, *backend_, *world_, *world_}).parameters;
  };
  EXPECT_LT(relative_difference(trained(data), trained(data_)), 1e-4);
}

/// Returns the global norm of the change of the parameters.
double distance(const std::vector<float>& before, const std::vector<float>& after) {
  double squares = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double change = double(after[i]) - double(before[i]);
    squares += change * change;
  }
  return std::sqrt(squares);
}

// Without momentum and weight decay, the first step changes the parameters by the learning rate
// times the clipped mean of the gradients over the ranks. The tolerance is the rounding of the
// parameters.
TEST_F(TrainerTest, ClipsTheGlobalNormOfTheMeanGradients) {
  const auto reference = backend::make_backend(backend::DeviceKind::reference, 1);
  for (const backend::Backend* device : {backend_.get(), reference.get()}) {
    const auto parameters_after_one_step = [&](double rate, double max_norm) {
      Config some = config();
      some.epochs = 0;
      some.steps = 1;
      some.optimiser.momentum = 0;
      some.optimiser.weight_decay = 0;
      some.optimiser.learning_rate = rate;
      some.plan.max_gradient_norm = max_norm;
      return train_to_end({some, graph_, data_, *device, *world_, *world_}).parameters;
    };
    const auto before = parameters_after_one_step(0, 0);
    const auto unclipped = parameters_after_one_step(1, 0);
    const double norm = distance(before, unclipped);
    EXPECT_NEAR(distance(before, parameters_after_one_step(1, norm / 8)), norm / 8, 1e-5 * norm);
    EXPECT_EQ(parameters_after_one_step(1, 2 * norm), unclipped);
  }
}

TEST_F(TrainerTest, ClippingFollowsOneRank) {
  Config many = config();
  many.epochs = 0;
  many.steps = 6;
  many.plan.max_gradient_norm = 0.05;
  Config one = many;
  one.batch_per_rank = one.global_batch;
  const Outcome expected = train_to_end(place(one, *alone_));
  const Outcome actual = train_to_end(place(many, *world_));
  EXPECT_LT(relative_difference(actual.parameters, expected.parameters), 1e-5);
  many.plan.max_gradient_norm = 0;
  EXPECT_GT(relative_difference(train_to_end(place(many, *world_)).parameters, actual.parameters),
            1e-3);
}

TEST_F(TrainerTest, RecordsEveryStepOfEveryRank) {
  Witness witness;
  const Config options = config();
  Trainer trainer(place(options, *world_), witness);
  const RunSummary summary = trainer.run();
  if (world_->rank() != 0) {
    EXPECT_TRUE(witness.steps.empty());
    return;
  }
  ASSERT_EQ(witness.epochs.size(), 2u);
  EXPECT_EQ(witness.steps.size(), 8u);
  EXPECT_EQ(witness.steps.back().total_steps, 8);
  for (const auto& epoch : witness.epochs) {
    EXPECT_EQ(epoch.loss.size(), 4u);
    EXPECT_THAT(epoch.images, ::testing::Each(16));
    const auto ranks = static_cast<std::size_t>(world_->size());
    ASSERT_EQ(epoch.phase_seconds.size(), 4 * ranks * record::phase_count);
    EXPECT_EQ(epoch.bucket_end_seconds.size(),
              4 * ranks * trainer.description().bucket_sizes.size());
    EXPECT_THAT(epoch.phase_seconds, ::testing::Each(::testing::Ge(0)));
    double own = 0;  // phases of rank 0, which are within its epoch; other ranks may start earlier
    for (std::size_t step = 0; step < 4; ++step) {
      for (std::size_t phase = 0; phase < record::phase_count; ++phase) {
        own += epoch.phase_seconds[step * ranks * record::phase_count + phase];
      }
    }
    EXPECT_LE(own, epoch.seconds);
    EXPECT_FALSE(epoch.parameter_hash.empty());
    EXPECT_TRUE(std::isfinite(epoch.test_accuracy));
  }
  EXPECT_NE(witness.epochs[0].parameter_hash, witness.epochs[1].parameter_hash);
  EXPECT_EQ(summary.status, record::RunStatus::complete);
  EXPECT_EQ(summary.timed_epoch, 2);
  EXPECT_TRUE(summary.epoch_complete);
  EXPECT_GT(summary.images_per_second, 0);
  EXPECT_EQ(summary.last_test_accuracy, witness.epochs[1].test_accuracy);
}

// The last rank begins each step at least 160 ms late. All others start their
// all-reduces earlier and wait for it. The limits are wide because a machine with other load delays
// the other ranks as well.
TEST_F(TrainerTest, RanksWaitForADelayedRank) {
  if (ranks() == 1) GTEST_SKIP() << "needs several ranks";
  constexpr int steps = 2;
  const auto last = static_cast<std::size_t>(ranks() - 1);
  for (const auto reducer : {comm::ReducerKind::allreduce, comm::ReducerKind::overlap}) {
    Config options = config();
    options.epochs = 0;
    options.steps = steps;
    options.reducer.kind = reducer;
    DelayedSteps delay(std::chrono::milliseconds(world_->rank() == ranks() - 1 ? 160 : 0));
    Witness witness;
    Trainer trainer({options, graph_, data_, *backend_, *world_, *world_, &delay}, witness);
    trainer.run();
    if (world_->rank() != 0) continue;
    const std::vector<double>& phases = witness.epochs.back().phase_seconds;
    const auto exposed = static_cast<std::size_t>(record::Phase::exposed_communication);
    for (std::size_t rank = 0; rank < last; ++rank) {
      double seconds = 0;
      for (std::size_t step = 0; step < steps; ++step)
        seconds += phases[(step * (last + 1) + rank) * record::phase_count + exposed];
      EXPECT_GT(seconds, 0.25 * steps * 0.16);
    }
  }
}

/// Touches `bytes` bytes of memory and returns them to the system, which `free` need not do.
void touch_and_release(std::size_t bytes) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::fill_n(static_cast<char*>(memory), bytes, char{1});
  ::munmap(memory, bytes);
}

TEST_F(TrainerTest, RecordsThePeakMemoryOfEachEpochAndRank) {
  constexpr std::size_t released = 128 << 20;
  Witness witness;
  const Config options = config();
  Trainer trainer(place(options, *world_), witness);
  // No epoch includes this memory, because it is released before the first one.
  touch_and_release(released);
  const auto peak_of_run = static_cast<double>(trainer.run().peak_memory_bytes);
  EXPECT_GT(peak_of_run, double(released));
  const bool can_reset = ::access("/proc/self/clear_refs", W_OK) == 0;
  for (const auto& epoch : witness.epochs) {
    const auto& peaks = epoch.measurements.at("/epochs/peak_resident_memory_bytes");
    EXPECT_EQ(peaks.size(), static_cast<std::size_t>(world_->size()));
    EXPECT_THAT(peaks, ::testing::Each(::testing::Gt(1e6)));
    EXPECT_LT(peaks[0], can_reset ? peak_of_run - 0.5 * double(released) : peak_of_run + 1);
  }
}

TEST_F(TrainerTest, RecordsTheUseOfTheProcessorsInEachEpoch) {
  Witness witness;
  const Config options = config();
  Trainer trainer(place(options, *world_), witness);
  trainer.run();
  for (const auto& epoch : witness.epochs) {
    const auto& used = epoch.measurements.at("/epochs/cpu_seconds");
    const auto& delays = epoch.measurements.at("/epochs/run_delay_seconds");
    EXPECT_EQ(used.size(), static_cast<std::size_t>(world_->size()));
    EXPECT_THAT(used, ::testing::Each(::testing::Gt(0)));
    EXPECT_EQ(delays.size(), used.size());
    // NaN if the kernel does not provide the delays
    for (const double delay : delays) EXPECT_FALSE(delay < 0 || delay > 1.1 * epoch.seconds + 0.1);
  }
}

TEST_F(TrainerTest, SamplesTheTelemetryOfEveryRank) {
  Witness witness;
  Config options = config();
  options.telemetry_hertz = 100;
  Trainer trainer(place(options, *world_), witness);
  const auto ranks = static_cast<std::size_t>(world_->size());
  const auto interfaces = trainer.description().telemetry_interfaces;
  ASSERT_TRUE(interfaces);
  EXPECT_EQ(interfaces->size() % ranks, 0u);
  trainer.run();
  if (world_->rank() != 0) return;
  ASSERT_EQ(witness.epochs.size(), 2u);
  const std::size_t quantities = record::telemetry_paths.size();
  double before = 0;
  for (const auto& epoch : witness.epochs) {
    const record::TelemetrySamples& samples = epoch.telemetry;
    EXPECT_EQ(samples.values.size(), samples.size() * quantities);
    EXPECT_EQ(samples.traffic_bytes.size(), samples.size() * 2 * interfaces->size() / ranks);
    const auto& ends = epoch.measurements.at("/steps/end_seconds");
    ASSERT_EQ(ends.size(), 4 * ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::vector<double> seconds, cpu, resident;
      for (std::size_t i = 0; i < samples.size(); ++i) {
        if (samples.rank[i] != static_cast<std::int64_t>(rank)) continue;
        seconds.push_back(samples.values[i * quantities]);
        cpu.push_back(samples.values[i * quantities + 1] + samples.values[i * quantities + 2]);
        resident.push_back(samples.values[i * quantities + 3]);
      }
      ASSERT_FALSE(seconds.empty()) << rank;
      EXPECT_TRUE(std::ranges::is_sorted(seconds));
      EXPECT_TRUE(std::ranges::is_sorted(cpu));
      EXPECT_THAT(resident, ::testing::Each(::testing::Gt(1e6)));
      // The samples of an epoch include its last step.
      EXPECT_GE(seconds.front(), rank == 0 ? before : 0);
      EXPECT_GE(seconds.back(), ends[3 * ranks + rank]);
      for (std::size_t step = 1; step < 4; ++step) {
        EXPECT_GT(ends[step * ranks + rank], ends[(step - 1) * ranks + rank]);
      }
    }
    before = ends[3 * ranks];
  }
}

TEST_F(TrainerTest, HasNoTelemetryAtZeroHertz) {
  Witness witness;
  Config options = config();
  options.telemetry_hertz = 0;
  Trainer trainer(place(options, *world_), witness);
  EXPECT_FALSE(trainer.description().telemetry_interfaces);
  EXPECT_EQ(trainer.description().host_energy_source, "not measured");
  trainer.run();
  for (const auto& epoch : witness.epochs) {
    EXPECT_EQ(epoch.telemetry.size(), 0u);
    EXPECT_THAT(epoch.measurements.at("/epochs/host_energy_joules"),
                ::testing::Each(::testing::IsNan()));
  }
}

TEST_F(TrainerTest, EvaluationSeesEachImageOnceOnAnyNumberOfRanks) {
  backend::ModelState state = backend_->make_state(graph_);
  initialise(graph_, 5, state);
  Evaluator many(config(), graph_, *data_.test, *backend_, state, *world_);
  Evaluator one(config(), graph_, *data_.test, *backend_, state, *alone_);
  const Evaluation actual = *many.run();
  const Evaluation expected = *one.run();
  EXPECT_EQ(actual.images, 11);
  EXPECT_EQ(actual.correct, expected.correct);
  EXPECT_NEAR(actual.loss_sum, expected.loss_sum, 1e-5 * expected.loss_sum);
}

TEST_F(TrainerTest, RefusesADatasetThatTheNetworkDoesNotMatch) {
  for (const char* source : {"synthetic:64@3x16x16", "synthetic:64@1x32x32", "synthetic:64/11"}) {
    const data::TrainingData other = data::load({.source = source});
    const Config options = config();
    SCOPED_TRACE(source);
    expect_error<AgreedError>(
        core::ExitStatus::usage,
        {"the network small takes images of 3 x 32 x 32 in 10 classes, but the dataset synthetic "
         "has images of"},
        [&] {
          Trainer({options, graph_, other, *backend_, *world_, *world_}, nobody_);
        });
    backend::ModelState state = backend_->make_state(graph_);
    EXPECT_THROW(Evaluator(options, graph_, *other.test, *backend_, state, *world_), core::Error);
  }
}

TEST_F(TrainerTest, NormalisesWithTheValuesOfTheDataset) {
  // The standard deviation scales the images, so another one gives other parameters. Kernels that
  // are selected by timing change them by rounding errors only.
  const auto trained = [this](float deviation) {
    data::DatasetInfo info = data_.train->info();
    info.normalisation.standard_deviation.fill(deviation);
    data::TrainingData data{.train = with_info(*data_.train, info),
                            .test = with_info(*data_.test, info),
                            .digest = data_.digest};
    const Config options = config();
    return train_to_end({options, graph_, data, *backend_, *world_, *world_}).parameters;
  };
  EXPECT_LT(relative_difference(trained(1), trained(1)), 1e-4);
  EXPECT_GT(relative_difference(trained(2), trained(1)), 1e-3);

  backend::ModelState state = backend_->make_state(graph_);
  initialise(graph_, 5, state);
  const auto loss_of = [&](const data::Dataset& set) {
    return Evaluator(config(), graph_, set, *backend_, state, *world_).run()->loss_sum;
  };
  data::DatasetInfo info = data_.test->info();
  info.normalisation.standard_deviation.fill(0.1f);
  EXPECT_NE(loss_of(*with_info(*data_.test, info)), loss_of(*data_.test));
}

TEST_F(TrainerTest, IndependentReplicasDiverge) {
  Config options = config();
  options.reducer.kind = comm::ReducerKind::none;
  Witness witness;
  Trainer trainer(place(options, *world_), witness);
  EXPECT_TRUE(trainer.description().bucket_sizes.empty());
  trainer.run();
  std::vector<float> mine = copy(trainer.state().parameters), first = mine;
  world_->broadcast(std::as_writable_bytes(std::span(first)));
  EXPECT_EQ(mine == first, world_->rank() == 0);
  if (world_->rank() == 0) {
    EXPECT_THAT(witness.epochs.at(0).images, ::testing::Each(16));  // still the sum over all ranks
    EXPECT_EQ(witness.epochs.at(0).parameter_hash, "");
  }
}

TEST_F(TrainerTest, StopsEverywhereWhereTheLossIsNotFinite) {
  Config options = config();
  options.optimiser.learning_rate = 1e30;
  Trainer trainer(place(options, *world_), nobody_);
  try {
    trainer.run();
    FAIL() << "such a learning rate cannot end well";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.status(), core::ExitStatus::diverged);
    EXPECT_THAT(error.what(), HasSubstr("in step "));
    std::array reporting_ranks{error.is_reporting() ? 1.0 : 0.0};
    world_->sum(std::span<double>(reporting_ranks));
    EXPECT_EQ(reporting_ranks[0], 1);
  }
}

// The loss of the only step is that of the first parameters; its update overflows.
TEST_F(TrainerTest, StopsEverywhereWhereTheTestLossIsNotFinite) {
  Config options = config();
  options.epochs = 0;
  options.steps = 1;
  options.optimiser.learning_rate = 1e38;
  Witness witness;
  Trainer trainer(place(options, *world_), witness);
  expect_error<AgreedError>(core::ExitStatus::diverged,
                            {"the test loss is not finite after epoch 1", "lower --lr"},
                            [&] { trainer.run(); });
  if (world_->rank() == 0) {
    EXPECT_EQ(witness.epochs.size(), 1u);  // its times are recorded
  }
}

TEST_F(TrainerTest, RefusesWeightsThatAreNotFinite) {
  SharedDirectory directory(*world_);
  const std::string path = directory.path() + "/weights.h5";
  backend::ModelState state = backend_->make_state(graph_);
  initialise(graph_, 1, state);
  state.parameters.as<float>().back() = std::numeric_limits<float>::infinity();
  if (world_->rank() == 0) {
    std::filesystem::create_directory(directory.path());
    record::write_checkpoint(path, weight_tensors(graph_, state), {});
  }
  world_->barrier();
  expect_error<AgreedError>(core::ExitStatus::input, {path, "conv1.bias", "not finite"},
                            [&] { load_weights(path, graph_, state, *world_); });
}

TEST_F(TrainerTest, RefusesFewerImagesThanTheGlobalBatch) {
  Config options = config();
  options.batch_per_rank = 65;
  options.global_batch = 65 * ranks();
  EXPECT_THROW(Trainer(place(options, *world_), nobody_), AgreedError);
}

class ResumeTest : public TrainerTest {
 protected:
  SharedDirectory directory_{*world_};
};

TEST_F(ResumeTest, KeepsCheckpointsOfAnotherRun) {
  Config options = config();
  options.evaluate_every = -1;
  options.checkpoint.directory = directory_.path();
  train_to_end(place(options, *world_));
  EXPECT_THROW(Trainer(place(options, *world_), nobody_), AgreedError);
  options.checkpoint.resume = "auto";
  options.seed = 2;
  expect_error<AgreedError>(core::ExitStatus::usage, {"seed"},
                            [&] { Trainer(place(options, *world_), nobody_); });
}

TEST_F(ResumeTest, StartsFromGivenWeights) {
  Config options = config();
  options.evaluate_every = -1;
  options.checkpoint.directory = directory_.path();
  const Outcome first = train_to_end(place(options, *world_));
  Config second = config();
  second.init_from = record::checkpoint_path(directory_.path(), 8).string();
  Trainer trainer(place(second, *world_), nobody_);
  EXPECT_EQ(trainer.description().first_step, 0);
  EXPECT_EQ(copy(trainer.state().parameters), first.parameters);
}

}  // namespace
}  // namespace lockstep::train
