// SPDX-License-Identifier: BSD-3-Clause
// Trains networks in pipelines of 1, 2 and 4 stages and compares them with one rank, on the CPU or
// on a simulated GPU.

#include "lockstep/train/pipeline/pipeline.hpp"
#include "lockstep/train/plan_options.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "expect_error.hpp"
#include "lockstep/comm/mpi_session.hpp"
#include "lockstep/record/checkpoint.hpp"
#include "lockstep/record/checkpoint_directory.hpp"
#include "lockstep/study/roofline.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/plan_options.hpp"
#include "lockstep/train/trainer.hpp"
#include "lockstep/train/weights.hpp"
#include "replica_policy.hpp"
#include "train/small.hpp"

namespace lockstep::train {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using enum PipelineSchedule;

#ifdef LOCKSTEP_TEST_ON_SIMULATED_GPU
constexpr auto tested_device = backend::DeviceKind::cuda;
#else
constexpr auto tested_device = backend::DeviceKind::cpu;
#endif

/// Returns a network of two residual blocks that can be cut into 4 stages. oneDNN has only slow
/// reference code for some convolutions whose channels are no multiple of 16.
graph::Graph residual_graph(Norm norm) {
  graph::Graph graph("residual");
  const auto convolution = [&](const std::string& name, graph::NodeId from, std::int64_t stride) {
    const auto node = graph.convolution(
        "conv" + name, from, 16,
        {.kernel = 3, .stride = stride, .padding = 1, .has_bias = norm == Norm::without});
    return norm == Norm::without ? node : graph.batch_norm("bn" + name, node);
  };
  auto x = graph.relu("relu0", convolution("0", graph.input({3, 32, 32}), 4));
  for (const std::string name : {"1", "2"}) {
    const auto inner = graph.relu("relu" + name, convolution(name, x, 1));
    x = graph.relu("out" + name, graph.add("add" + name, convolution(name + "b", inner, 1), x));
  }
  x = graph.linear("linear", graph.global_average_pool("pool", x), 10);
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  return graph;
}

/// Divides the ranks of `on`. `limit_bytes`: memory in which the whole network may be timed.
std::unique_ptr<Pipeline> divide(const Config& config, const graph::Graph& network,
                                 const backend::Backend& backend, comm::Communicator& on,
                                 std::uint64_t limit_bytes = std::uint64_t{1} << 62) {
  const auto options = training_options(config, config.images_per_micro_batch());
  return make_pipeline(config, network, on, [&] {
    return study::measure_nodes(options, network, backend, limit_bytes);
  });
}

/// The results of a run, on all ranks of its first replica: parameters by name, and losses on rank
/// 0.
struct PipelineOutcome {
  std::map<std::string, std::vector<float>> parameters;
  std::vector<double> losses;
  std::vector<record::EpochRecord> epochs;
  std::vector<StageDescription> stages;
};

class PipelineTest : public ::testing::Test {
 protected:
  /// `stages`: of the pipeline; the other factor of the ranks are replicas.
  Config config(int stages, std::int64_t micro_batches, PipelineSchedule schedule = gpipe) const {
    Config config = small_config(1);
    config.reducer.algorithm = comm::AllReduceAlgorithm::automatic;
    config.transport.allow_sharing = true;
    config.device.deterministic = true;
    config.epochs = 0;
    config.steps = 5;
    config.pipeline.stages = stages;
    config.pipeline.cuts = stages > 1 ? "flops" : "auto";
    config.pipeline.micro_batches = micro_batches;
    config.pipeline.schedule = schedule;
    config.batch_per_rank = 0;
    return config;
  }

  PipelineOutcome train(const Config& given, comm::Communicator& on,
                        const graph::Graph& network) const {
    return train(given, on, network, *backend_);
  }
  PipelineOutcome train(const Config& given, comm::Communicator& on, const graph::Graph& network,
                        const backend::Backend& backend) const {
    // Ranks that share a GPU set it for their data-parallel group, which differs between trainings.
    ::unsetenv("NCCL_HOSTID");
    const Config some = resolve(given, on.size());
    const auto pipeline = divide(some, network, backend, on);
    const graph::Graph& graph = pipeline ? pipeline->graph() : network;
    Witness witness;
    Trainer trainer({some, graph, data_, backend, on, pipeline ? *pipeline->replicas : on, nullptr,
                     pipeline.get()},
                    witness);
    trainer.run();
    PipelineOutcome outcome{.parameters = {},
                            .losses = {},
                            .epochs = witness.epochs,
                            .stages = trainer.description().stages};
    for (const CompletedStep& step : witness.steps) outcome.losses.push_back(step.loss);
    for (const graph::Parameter& parameter : graph.parameters()) {
      const auto values =
          trainer.state().parameters.as<float>().subspan(parameter.offset, parameter.elements);
      outcome.parameters[parameter.name] = {values.begin(), values.end()};
    }
    return outcome;
  }

  void expect_same(const PipelineOutcome& actual, const PipelineOutcome& expected,
                   double tolerance) const {
    for (const auto& [name, values] : actual.parameters) {
      EXPECT_LE(relative_difference(values, expected.parameters.at(name)), tolerance) << name;
    }
    if (world_->rank() != 0) return;
    ASSERT_EQ(actual.losses.size(), expected.losses.size());
    for (std::size_t i = 0; i < actual.losses.size(); ++i)
      EXPECT_NEAR(actual.losses[i], expected.losses[i], tolerance * expected.losses[i]) << i;
  }

  int ranks() const { return world_->size(); }

  int argc_ = 0;
  char** argv_ = nullptr;
  comm::MpiSession session_{argc_, argv_};
  std::unique_ptr<comm::Communicator> world_ = comm::make_communicator(session_);
  std::unique_ptr<comm::Communicator> alone_ = comm::make_self_communicator();
  std::unique_ptr<backend::Backend> backend_ =
      backend::make_backend({.kind = tested_device, .threads = 1, .deterministic = true});
  data::TrainingData data_ = small_data();
};

// Without batch norm the gradients of micro-batches sum to those of the batch, except for rounding.
TEST_F(PipelineTest, FollowsOneRankWithoutBatchNorm) {
  const graph::Graph network = residual_graph(Norm::without);
  const PipelineOutcome expected = train(config(1, 1), *alone_, network);
  for (const auto schedule : {gpipe, one_forward_one_backward}) {
    for (const std::int64_t micro_batches : {1, 2, 8}) {
      SCOPED_TRACE(fmt::format("{} {}", core::name(schedule), micro_batches));
      expect_same(train(config(ranks(), micro_batches, schedule), *world_, network), expected,
                  2e-5);
    }
  }
}

// With batch norm, one rank that divides the batch into the same micro-batches has the same
// statistics and gradients.
TEST_F(PipelineTest, FollowsOneRankWithTheSameMicroBatches) {
  const graph::Graph network = residual_graph(Norm::with_batch_norm);
  for (const std::int64_t micro_batches : {1, 4}) {
    const PipelineOutcome expected = train(config(1, micro_batches), *alone_, network);
    for (const auto schedule : {gpipe, one_forward_one_backward}) {
      SCOPED_TRACE(fmt::format("{} {}", core::name(schedule), micro_batches));
      const PipelineOutcome actual =
          train(config(ranks(), micro_batches, schedule), *world_, network);
      expect_same(actual, expected, 2e-4);
      if (world_->rank() == 0) {
        ASSERT_FALSE(actual.epochs.empty());
        EXPECT_NEAR(actual.epochs.back().test_loss, expected.epochs.back().test_loss, 1e-4);
        EXPECT_EQ(actual.epochs.back().images.front(), 16);
      }
    }
  }
}

TEST_F(PipelineTest, SchedulesGiveTheSameBits) {
  const graph::Graph network = residual_graph(Norm::with_batch_norm);
  expect_same(train(config(ranks(), 4, one_forward_one_backward), *world_, network),
              train(config(ranks(), 4, gpipe), *world_, network), 0);
}

TEST_F(PipelineTest, ReferenceBackendFollowsOneRank) {
  const auto reference = backend::make_backend(backend::DeviceKind::reference, 1);
  const graph::Graph network = residual_graph(Norm::without);
  Config many = config(ranks(), 2), one = config(1, 1);
  many.steps = one.steps = 2;
  expect_same(train(many, *world_, network, *reference), train(one, *alone_, network, *reference),
              1e-5);
}

// With one rank, a CPU does not use the type; a GPU rounds the gradients of each micro-batch to it,
// and their sum.
TEST_F(PipelineTest, GradientsInBfloat16FollowThoseInFloat32) {
  const graph::Graph network = residual_graph(Norm::without);
  Config rounded = config(ranks(), 4);
  rounded.reducer.gradient_type = core::DataType::bfloat16;
  const PipelineOutcome expected = train(config(ranks(), 4), *world_, network);
  const PipelineOutcome actual = train(rounded, *world_, network);
  expect_same(actual, expected, 4e-3);
  const bool is_rounded = actual.parameters != expected.parameters;
  EXPECT_EQ(is_rounded, tested_device == backend::DeviceKind::cuda);
}

// The mask of dropout depends on the micro-batch, but not on the stage.
TEST_F(PipelineTest, DropoutFollowsOneRank) {
  if (ranks() > 2) GTEST_SKIP() << "the network has 2 stages";
  const graph::Graph network = small_dropout_graph();
  expect_same(train(config(ranks(), 4), *world_, network), train(config(1, 4), *alone_, network),
              1e-4);
}

TEST_F(PipelineTest, ReplicasOfAPipelineFollowOneRank) {
  if (ranks() != 4) GTEST_SKIP() << "needs 4 ranks";
  const graph::Graph network = residual_graph(Norm::without);
  const PipelineOutcome expected = train(config(1, 1), *alone_, network);
  for (const auto schedule : {gpipe, one_forward_one_backward})
    expect_same(train(config(2, 4, schedule), *world_, network), expected, 2e-5);
}

// The norm is that of the summed gradients. A parameter server writes the parameters of all plans.
TEST_F(PipelineTest, ReplicasWithClippedMicroBatchesFollowOneRank) {
  const graph::Graph network = residual_graph(Norm::without);
  Config one = config(1, 1), many = config(1, 2);
  one.plan.max_gradient_norm = many.plan.max_gradient_norm = 0.05;
  const PipelineOutcome expected = train(one, *alone_, network);
  for (const auto reducer : {comm::ReducerKind::overlap, comm::ReducerKind::parameter_server}) {
    many.reducer.kind = reducer;
    expect_same(train(many, *world_, network), expected, 2e-5);
  }
  one.plan.max_gradient_norm = 0;
  EXPECT_NE(train(one, *alone_, network).parameters, expected.parameters);
}

TEST_F(PipelineTest, SynchronisedBatchNormOfReplicasFollowsOneRank) {
  if (ranks() != 4) GTEST_SKIP() << "needs 4 ranks";
  const graph::Graph network = residual_graph(Norm::with_batch_norm);
  Config many = config(2, 1);
  many.batch_norm = BatchNormMode::sync;
  expect_same(train(many, *world_, network), train(config(1, 1), *alone_, network), 2e-4);
}

TEST_F(PipelineTest, RecordsTheTimesAndDescribesTheStages) {
  const graph::Graph network = residual_graph(Norm::with_batch_norm);
  const PipelineOutcome gpipe_run = train(config(ranks(), 4), *world_, network);
  const PipelineOutcome other_run =
      train(config(ranks(), 4, one_forward_one_backward), *world_, network);
  if (world_->rank() != 0) return;
  for (const char* name : {"busy", "transfer", "wait"}) {
    const auto& values =
        gpipe_run.epochs.front().measurements.at(fmt::format("/epochs/pipeline_{}_seconds", name));
    ASSERT_EQ(values.size(), static_cast<std::size_t>(ranks()));
    if (ranks() == 1) continue;  // nothing to wait for
    EXPECT_THAT(values, ::testing::Each(::testing::Gt(0))) << name;
  }
  ASSERT_EQ(gpipe_run.stages.size(), static_cast<std::size_t>(ranks()));
  std::int64_t parameters = 0;
  for (const StageDescription& stage : gpipe_run.stages) parameters += stage.parameters;
  EXPECT_EQ(parameters, static_cast<std::int64_t>(network.parameter_count()));
  EXPECT_EQ(gpipe_run.stages.back().last_layer, "loss");
  if (ranks() == 2) {
    EXPECT_GT(gpipe_run.stages[0].memory_bytes, other_run.stages[0].memory_bytes);
    EXPECT_GT(other_run.stages[0].memory_bytes, 0u);
  }
}

class PipelineWithOptimiser : public PipelineTest,
                              public ::testing::WithParamInterface<optim::Kind> {
 protected:
  Config with_optimiser(int stages) const {
    Config some = config(stages, 4);
    some.optimiser = {.kind = GetParam()};
    some.optimiser.resolve();
    return some;
  }
};

INSTANTIATE_TEST_SUITE_P(All, PipelineWithOptimiser,
                         ::testing::Values(optim::Kind::sgd, optim::Kind::lars, optim::Kind::adamw),
                         [](const auto& test) { return std::string(core::name(test.param)); });

TEST_P(PipelineWithOptimiser, CheckpointsAreThoseOfTheWholeNetwork) {
  const graph::Graph network = residual_graph(Norm::with_batch_norm);
  SharedDirectory directory(*world_);
  const auto expect_parameters = [&](const PipelineOutcome& actual, const PipelineOutcome& expected,
                                     double tolerance) {
    for (const auto& [name, values] : actual.parameters)
      EXPECT_LE(relative_difference(values, expected.parameters.at(name)), tolerance) << name;
  };
  const PipelineOutcome all = train(with_optimiser(ranks()), *world_, network);
  Config first = with_optimiser(ranks());
  first.steps = 3;
  first.checkpoint.directory = directory.path();
  const PipelineOutcome begun = train(first, *world_, network);

  Config rest = with_optimiser(ranks());
  rest.checkpoint.resume = record::checkpoint_path(directory.path(), 3).string();
  const PipelineOutcome resumed = train(rest, *world_, network);
  expect_parameters(resumed, all, 0);
  EXPECT_EQ(resumed.losses.size(), world_->rank() == 0 ? 2u : 0u);

  Config one = with_optimiser(1);  // one rank resumes the checkpoint of the pipeline
  one.checkpoint.resume = rest.checkpoint.resume;
  expect_parameters(all, train(one, *alone_, network), 2e-4);

  Config from_weights = with_optimiser(ranks());
  from_weights.init_from = rest.checkpoint.resume;
  from_weights.optimiser.learning_rate = 0;
  expect_parameters(train(from_weights, *world_, network), begun, 0);
}

TEST_F(PipelineTest, CutsByMeasuredTimesAreEqualOnAllRanks) {
  Config some = config(ranks(), 2);
  some.pipeline.cuts = "auto";
  const graph::Graph network = residual_graph(Norm::with_batch_norm);
  const auto pipeline = divide(resolve(some, ranks()), network, *backend_, *world_);
  std::string firsts;
  for (const graph::Graph& graph : pipeline->graphs) firsts += graph.nodes()[1].name + " ";
  EXPECT_THAT(world_->all_gather(firsts), ::testing::Each(firsts));
  EXPECT_EQ(pipeline->count(), ranks());
  EXPECT_EQ(pipeline->stage, world_->rank());
}

TEST_F(PipelineTest, RefusesWhatItCannotDo) {
  const graph::Graph network = residual_graph(Norm::without);
  const auto divide_with = [&](const Config& some) {
    divide(resolve(some, ranks()), network, *backend_, *world_);
  };
  const auto message = [&](const Config& some) {
    return expect_error(core::ExitStatus::usage, {}, [&] { divide_with(some); });
  };
  EXPECT_THAT(message(config(ranks(), 3)), HasSubstr("--micro-batches 3 does not divide the 16"));
  EXPECT_THAT(message(config(ranks() + 1, 1)), HasSubstr("requires a multiple of"));
  Config some = config(ranks(), 2);
  some.times_operations = true;
  EXPECT_THAT(message(some), HasSubstr("--profile"));
  some = config(ranks(), 2);
  some.plan.precision = core::Precision::fp16;
  EXPECT_THAT(message(some), HasSubstr("use bf16, tf32 or fp32"));
  some = config(ranks(), 2);
  some.data.residency = data::DataResidency::device;
  EXPECT_THAT(message(some), HasSubstr("--data-residency device"));
  if (ranks() == 1) return;
  some = config(ranks(), 1);
  some.reducer.kind = comm::ReducerKind::parameter_server;
  EXPECT_THAT(message(some), HasSubstr("--reducer parameter-server"));
  some = config(ranks(), 1);
  some.reducer.kind = comm::ReducerKind::none;
  EXPECT_THAT(message(some), HasSubstr("--reducer none"));
  some = config(ranks(), 1);
  some.plan.max_gradient_norm = 1;
  EXPECT_THAT(message(some), HasSubstr("--grad-clip"));
  some = config(ranks(), 1);
  some.pipeline.cuts = "conv1,conv2,pool,linear";
  EXPECT_THAT(message(some), HasSubstr("requires " + std::to_string(ranks() - 1)));
  if (ranks() != 2) return;
  some.pipeline.cuts = "conv1b";
  EXPECT_THAT(message(some), HasSubstr("residual block"));
}

TEST_F(PipelineTest, MeasuresNoNetworkThatDoesNotFitOnOneRank) {
  if (ranks() == 1) GTEST_SKIP() << "needs several ranks";
  const graph::Graph network = residual_graph(Norm::without);
  Config some = resolve(config(ranks(), 2), ranks());
  some.pipeline.cuts = "auto";
  expect_error(core::ExitStatus::usage, {"use --stage-cuts flops"},
               [&] { divide(some, network, *backend_, *world_, 1000); });
}

TEST_F(PipelineTest, ComparesTheHashesOfEachStage) {
  const int stages = ranks() % 2 == 0 ? 2 : 1;
  const auto stage = static_cast<std::uint64_t>(world_->rank() % stages);
  EXPECT_EQ(require_equal_replicas(*world_, stages, 16 + stage, 1),
            stages == 2 ? "0000000000000021" : "0000000000000010");
  if (ranks() < 4) return;
  const std::uint64_t drifted = world_->rank() == 3 ? 1 : 0;
  try {
    require_equal_replicas(*world_, stages, 16 + stage + drifted, 1);
    FAIL() << "the drift is not found";
  } catch (const AgreedError& error) {  // on all ranks, also those of the other stage
    EXPECT_THAT(error.what(), HasSubstr("rank 1 on "));  // two replicas: no majority
    EXPECT_THAT(error.what(), HasSubstr("rank 3 on "));
    EXPECT_EQ(error.is_reporting(), world_->rank() == 0);
  }
}

TEST_F(PipelineTest, NamesTheReplicaThatDiffersFromTheMajority) {
  if (ranks() < 3) GTEST_SKIP() << "needs 3 ranks";
  const std::uint64_t hash = world_->rank() == 0 ? 1 : 2;
  try {
    require_equal_replicas(*world_, 1, hash, 7);
    FAIL() << "the difference is not found";
  } catch (const AgreedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("after step 7: the parameters of rank 0 on "));
    EXPECT_THAT(error.what(), Not(HasSubstr("rank 1 on ")));
    EXPECT_THAT(error.what(), HasSubstr("0000000000000002"));
  }
}

TEST_F(PipelineTest, RefusesMoreStagesThanTheNetworkHas) {
  if (ranks() != 4) GTEST_SKIP() << "needs 4 ranks";
  graph::Graph network("short");
  const auto x = network.global_average_pool(
      "pool", network.convolution("conv", network.input({3, 32, 32}), 4, {.kernel = 3}));
  network.softmax_cross_entropy("loss", network.linear("linear", x, 10), {});
  network.seal();
  expect_error(core::ExitStatus::usage, {"use at most 3"},
               [&] { divide(resolve(config(4, 1), 4), network, *backend_, *world_); });
}

}  // namespace
}  // namespace lockstep::train
