// SPDX-License-Identifier: BSD-3-Clause
// Tests the trainer on a simulated GPU, with recorded and replayed steps and two steps in flight,
// against the trainer on the CPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/comm/mpi_session.hpp"
#include "lockstep/record/checkpoint.hpp"
#include "lockstep/record/checkpoint_directory.hpp"
#include "lockstep/record/checkpoint_reader.hpp"
#include "lockstep/record/run_records.hpp"
#include "lockstep/study/ladder.hpp"
#include "simulated_gpu/engines.hpp"
#include "simulated_gpu/runtime.hpp"
#include "train/small.hpp"

namespace lockstep::train {
namespace {

using namespace testing;

class SimulatedGpu : public ::testing::Test {
 protected:
  struct Outcome {
    std::vector<float> parameters, statistics;
    std::vector<CompletedStep> steps;
    std::vector<record::EpochRecord> epochs;
  };

  Outcome train(backend::DeviceKind device, const Config& config, comm::Communicator& on) const {
    // Implementations that were chosen by timing could differ between the runs that tests compare,
    // and between ranks.
    const auto backend =
        backend::make_backend({.kind = device, .threads = 1, .deterministic = true});
    Witness witness;
    Trainer trainer({config, graph_, data_, *backend, on, on}, witness);
    trainer.run();
    return {copy(trainer.state().parameters), copy(trainer.state().statistics), witness.steps,
            witness.epochs};
  }
  Outcome on_gpu(const Config& config) const {
    return train(backend::DeviceKind::cuda, config, *alone_);
  }
  /// Returns the counters of a run of `steps` steps, including its preparation.
  simulated_gpu::Counters counters_of(Config config, std::int64_t steps) const {
    config.steps = steps;
    simulated_gpu::reset_counters();
    on_gpu(config);
    return simulated_gpu::counters();
  }
  Config config() const {
    Config config = small_config(1);
    config.optimiser.learning_rate = 0.01;
    return config;
  }

  int argc_ = 0;
  char** argv_ = nullptr;
  comm::MpiSession session_{argc_, argv_};
  std::unique_ptr<comm::Communicator> world_ = comm::make_communicator(session_);
  std::unique_ptr<comm::Communicator> alone_ = comm::make_self_communicator();
  graph::Graph graph_ = small_graph(Norm::with_batch_norm);
  data::TrainingData data_ = small_data();
};

// Both devices compute in float32 but sum in different orders; eight steps amplify the differences.
TEST_F(SimulatedGpu, FollowsTheCpu) {
  const Outcome cpu = train(backend::DeviceKind::cpu, config(), *alone_);
  const Outcome gpu = on_gpu(config());
  EXPECT_LT(relative_difference(gpu.parameters, cpu.parameters), 1e-4);
  EXPECT_LT(relative_difference(gpu.statistics, cpu.statistics), 1e-4);
  ASSERT_EQ(gpu.steps.size(), cpu.steps.size());
  for (std::size_t i = 0; i < cpu.steps.size(); ++i) {
    EXPECT_EQ(gpu.steps[i].step, cpu.steps[i].step);
    EXPECT_NEAR(gpu.steps[i].loss, cpu.steps[i].loss, 1e-3);
  }
  EXPECT_NEAR(gpu.epochs.back().test_loss, cpu.epochs.back().test_loss, 1e-3);
}

/// Work of a step that stores the number of executable graphs at its destruction.
class Work final : public backend::StepWork {
 public:
  Work(backend::Plan& plan, std::size_t& graphs) : plan_(plan), graphs_(graphs) {}
  ~Work() override { graphs_ = simulated_gpu::count_objects().executable_graphs; }
  void enqueue() override { plan_.forward(); }

 private:
  backend::Plan& plan_;
  std::size_t& graphs_;
};

// NCCL does not destroy a communicator while a CUDA graph contains its all-reduces. The work of a
// step owns the communicator.
TEST_F(SimulatedGpu, DestroysCapturedGraphsBeforeTheWorkThatTheyContain) {
  const auto backend = backend::make_backend(backend::DeviceKind::cuda, 1);
  backend::ModelState state = backend->make_state(graph_);
  const auto plan = backend->compile(graph_, state, {.batch = 4});
  std::size_t graphs = 99;
  auto executor = plan->make_step_executor(std::make_unique<Work>(*plan, graphs));
  backend::StepCaptures& captures = *executor->captures();
  captures.rehearse();
  while (captures.capture()) continue;
  EXPECT_EQ(simulated_gpu::count_objects().executable_graphs,
            static_cast<std::size_t>(executor->depth()));
  executor.reset();
  EXPECT_EQ(graphs, 0u);
}

// Weight gradients on a second stream change the order of execution, but no value: with one rank,
// and with ranks whose gradients are reduced during the backward pass.
TEST_F(SimulatedGpu, WeightStreamLeavesTheBits) {
  Config config = small_config(world_->size());
  config.transport.allow_sharing = true;
  config.reducer.algorithm = comm::AllReduceAlgorithm::automatic;
  config.plan.weight_stream = backend::WeightStream::on;
  const Outcome on = train(backend::DeviceKind::cuda, config, *world_);
  config.plan.weight_stream = backend::WeightStream::off;
  const Outcome off = train(backend::DeviceKind::cuda, config, *world_);
  EXPECT_EQ(on.parameters, off.parameters);
  EXPECT_EQ(on.statistics, off.statistics);
}

// All steps replay the same graph, and the host enqueues the same work outside it.
TEST_F(SimulatedGpu, EveryStepLaunchesOneGraphAndTheSameWork) {
  Config steps = config();
  steps.epochs = 0;
  steps.evaluate_every = -1;
  const auto two = counters_of(steps, 2), three = counters_of(steps, 3),
             four = counters_of(steps, 4);
  EXPECT_EQ(three.graph_launches - two.graph_launches, 1);
  EXPECT_EQ(four.graph_launches - three.graph_launches, 1);
  const auto more = [](std::int64_t simulated_gpu::WorkCounters::*kind,
                       const simulated_gpu::WorkCounters& a,
                       const simulated_gpu::WorkCounters& b) { return b.*kind - a.*kind; };
  using simulated_gpu::WorkCounters;
  for (const auto kind : {&WorkCounters::kernel_launches, &WorkCounters::dnn_executions,
                          &WorkCounters::memsets, &WorkCounters::copies_to_device,
                          &WorkCounters::copies_to_host, &WorkCounters::event_records}) {
    EXPECT_EQ(more(kind, two.issued, three.issued), more(kind, three.issued, four.issued));
    EXPECT_EQ(more(kind, two.in_graphs, three.in_graphs),
              more(kind, three.in_graphs, four.in_graphs));
  }
  EXPECT_GT(more(&WorkCounters::kernel_launches, two.in_graphs, three.in_graphs), 0);
  EXPECT_GT(more(&WorkCounters::dnn_executions, two.in_graphs, three.in_graphs), 0);
  EXPECT_EQ(more(&WorkCounters::dnn_executions, two.issued, three.issued), 0);
  EXPECT_EQ(four.allocations, three.allocations);
}

// Between two graphs, the host enqueues one copy of all inputs of the step, and events. The copy of
// the result is part of the graph.
TEST_F(SimulatedGpu, HostEnqueuesOneCopyPerStep) {
  Config steps = config();
  steps.epochs = 0;
  steps.evaluate_every = -1;
  const auto two = counters_of(steps, 2), three = counters_of(steps, 3);
  EXPECT_EQ(three.issued.kernel_launches, two.issued.kernel_launches);
  EXPECT_EQ(three.issued.memsets, two.issued.memsets);
  EXPECT_EQ(three.issued.copies_to_device, two.issued.copies_to_device + 1);
  EXPECT_EQ(three.issued.copies_on_device, two.issued.copies_on_device);
  EXPECT_EQ(three.issued.copies_to_host, two.issued.copies_to_host);
  // The start of the step, the ends of data_wait and upload, the end of the step, and the two
  // events that order the copy.
  EXPECT_EQ(three.issued.event_records, two.issued.event_records + 6);
  EXPECT_EQ(three.in_graphs.copies_to_host, two.in_graphs.copies_to_host + 1);
  EXPECT_EQ(three.in_graphs.copies_on_device, two.in_graphs.copies_on_device);
  EXPECT_EQ(three.in_graphs.bytes_to_host - two.in_graphs.bytes_to_host, 16);
}

// An epoch copies the parameters to the host once, for their hash. The graphs copy the results.
TEST_F(SimulatedGpu, EpochsCopyTheParametersToTheHostOnce) {
  Config some = config();
  some.evaluate_every = -1;
  const auto bytes_of = [&](std::int64_t epochs) {
    some.epochs = epochs;
    simulated_gpu::reset_counters();
    const Outcome outcome = on_gpu(some);
    EXPECT_EQ(outcome.epochs.size(), static_cast<std::size_t>(epochs));
    return simulated_gpu::counters().issued.bytes_to_host;
  };
  const auto parameters = static_cast<std::int64_t>(graph_.parameter_elements() * sizeof(float));
  EXPECT_EQ(bytes_of(3) - bytes_of(2), parameters);
}

// Replayed graphs must draw a new mask in each step, and the same one as the CPU.
TEST_F(SimulatedGpu, DropoutFollowsTheCpuInReplayedSteps) {
  graph_ = small_dropout_graph();
  const Outcome cpu = train(backend::DeviceKind::cpu, config(), *alone_);
  const Outcome gpu = on_gpu(config());
  EXPECT_LT(relative_difference(gpu.parameters, cpu.parameters), 1e-4);
  ASSERT_EQ(gpu.steps.size(), cpu.steps.size());
  for (std::size_t i = 0; i < cpu.steps.size(); ++i)
    EXPECT_NEAR(gpu.steps[i].loss, cpu.steps[i].loss, 1e-3);
}

// The clipping is part of the captured step. With fp16, the gradients are clipped after they are
// divided by the loss scale.
TEST_F(SimulatedGpu, ClipsGradientsAsTheCpuDoes) {
  Config clipped = config();
  clipped.plan.max_gradient_norm = 0.05;
  const Outcome cpu = train(backend::DeviceKind::cpu, clipped, *alone_);
  const Outcome gpu = on_gpu(clipped);
  EXPECT_LT(relative_difference(gpu.parameters, cpu.parameters), 1e-4);
  EXPECT_GT(relative_difference(on_gpu(config()).parameters, gpu.parameters), 1e-2);
  clipped.plan.precision = core::Precision::fp16;
  EXPECT_LT(relative_difference(on_gpu(clipped).parameters, gpu.parameters), 1e-2);
}

TEST_F(SimulatedGpu, TimesEveryPhaseOfEveryStep) {
  for (const auto& epoch : on_gpu(config()).epochs) {
    ASSERT_EQ(epoch.phase_seconds.size(), epoch.images.size() * record::phase_count);
    for (const double seconds : epoch.phase_seconds) EXPECT_GE(seconds, 0);
  }
}

TEST_F(SimulatedGpu, LoadsTheDatasetAndPreparesBatchesAsTheHostDoes) {
  // The images are copied to the device in blocks of 4 MiB; these are two blocks.
  data_ = data::load({.source = "synthetic:1500", .test_samples = 11, .seed = 3});
  Config host = config();
  host.epochs = 0;
  host.steps = 20;  // of the 320 images, 29 are expected in the second block
  Config resident = host;
  resident.data.residency = data::DataResidency::device;
  EXPECT_EQ(on_gpu(resident).parameters, on_gpu(host).parameters);
}

// Activations and operands of products have 10 (fp16) or 7 (bf16) explicit mantissa bits. The
// tolerances hold for eight steps with a small learning rate.
TEST_F(SimulatedGpu, TrainsInHalfPrecisionNearFloat32) {
  const Outcome exact = on_gpu(config());
  for (const auto& [precision, tolerance] :
       {std::pair{core::Precision::fp16, 1e-2}, std::pair{core::Precision::bf16, 3e-2}}) {
    Config half = config();
    half.plan.precision = precision;
    const Outcome outcome = on_gpu(half);
    EXPECT_LT(relative_difference(outcome.parameters, exact.parameters), tolerance);
    EXPECT_NE(outcome.parameters, exact.parameters);
  }
}

TEST_F(SimulatedGpu, LeavesOutStepsThatOverflow) {
  Config half = config();
  half.plan.precision = core::Precision::fp16;
  half.plan.loss_scale = 1e30;  // every gradient overflows, so every step is skipped
  half.steps = 3;
  half.epochs = 0;
  const Outcome still = on_gpu(half);
  half.steps = 1;
  EXPECT_EQ(on_gpu(half).parameters, still.parameters);
}

TEST_F(SimulatedGpu, GoesOnFromACheckpointAsIfItHadNotStopped) {
  const SharedDirectory directory(*alone_);
  Config whole = config();
  whole.steps = 8;
  whole.epochs = 0;
  const Outcome expected = on_gpu(whole);
  Config first = whole;
  first.checkpoint.directory = directory.path();
  first.checkpoint.seconds = 0;
  first.checkpoint.steps = 3;
  EXPECT_EQ(on_gpu(first).parameters, expected.parameters);  // saving does not change the result
  // The first checkpoint is due after step 3, when step 4 is already in flight. The trainer waits
  // for step 4 before it saves, so the checkpoint contains the state after step 4.
  Config second = first;
  second.checkpoint.resume = record::checkpoint_path(directory.path(), 4).string();
  EXPECT_EQ(on_gpu(second).parameters, expected.parameters);
}

/// Returns the loss scale and the number of steps without overflow from the checkpoint of a step.
std::vector<float> loss_scale_after(std::int64_t step, const SharedDirectory& directory) {
  std::vector<float> scale(2);
  const std::vector<record::Tensor> tensors{{"optimizer", "loss_scale", {2}, scale}};
  record::read_checkpoint(record::checkpoint_path(directory.path(), step), tensors,
                          record::Verify::required);
  return scale;
}

// The loss scale changes the results only if values overflow, so the test reads it from the
// checkpoints.
TEST_F(SimulatedGpu, ResumesWithTheLossScale) {
  const SharedDirectory directory(*alone_);
  Config half = config();
  half.plan.precision = core::Precision::fp16;
  half.epochs = 0;
  half.checkpoint.directory = directory.path();
  half.checkpoint.resume = "auto";
  for (const std::int64_t steps : {3, 7}) {
    half.steps = steps;
    on_gpu(half);
    const auto scale = loss_scale_after(steps, directory);
    EXPECT_EQ(scale[0], 65536);
    EXPECT_EQ(scale[1], static_cast<float>(steps));
  }
}

// Timing the engines of a batch that cannot fit takes long and fails in ways that end the ladder.
TEST_F(SimulatedGpu, LadderSelectsNoEnginesForABatchThatCannotFit) {
  Config ladder = config();
  ladder.steps = 1;
  const data::DataSizes sizes =
      data::sizes({.source = "synthetic:64", .train_samples = 64, .test_samples = 11, .seed = 3});
  const auto backend = backend::make_backend(backend::DeviceKind::cuda, 1);
  const auto bytes_of = [&](std::int64_t batch) {
    Config one = ladder;
    one.batch_per_rank = one.global_batch = batch;
    one.evaluate_every = -1;
    return study::estimate_memory(one, graph_, *backend, sizes, {}, 0, study::MemoryDetail::least)
        .limited();
  };
  const std::uint64_t limit = (bytes_of(4) + bytes_of(16)) / 2;
  ASSERT_LT(bytes_of(4), limit);
  simulated_gpu::set_engines({{.name = "plain"}, {.name = "loops"}});
  const study::LadderResult result =
      study::run_ladder({ladder, graph_, data_, *backend, *alone_, *alone_}, {.start = 4}, sizes, 0,
                        {.bytes = limit, .source = "test"}, [](const record::LadderRow&) {});
  const auto calls = simulated_gpu::engine_calls();
  simulated_gpu::set_engines({});
  EXPECT_EQ(result.end, study::LadderEnd::out_of_memory);
  ASSERT_EQ(result.points.size(), 2u);
  EXPECT_EQ(result.points[0].status, "complete");
  EXPECT_EQ(result.points[1].status, "out_of_memory");
  EXPECT_EQ(result.points[1].predicted_bytes, bytes_of(16));
  EXPECT_EQ(calls.largest_built, 4) << "an engine for the second batch";
}

TEST_F(SimulatedGpu, SumsOfTheSweepAreRightInEveryType) {
  const auto backend = backend::make_backend(backend::DeviceKind::cuda, 1);
  const auto transport =
      comm::make_gradient_transport(*world_, backend->device().queue(),
                                    {.kind = comm::TransportKind::staged, .allow_sharing = true});
  for (const auto type :
       {core::DataType::float32, core::DataType::bfloat16, core::DataType::float16}) {
    const auto rows = transport->sweep(
        {.min_bytes = 64, .max_bytes = 4096, .repeats = 2, .communication_type = type});
    ASSERT_EQ(rows.size(), 4u);
    for (const comm::SweepRow& row : rows) {
      EXPECT_EQ(row.algorithm, "staged");
      EXPECT_EQ(row.wrong, 0u) << row.bytes();
      EXPECT_EQ(row.seconds.size(), 2u);
    }
    EXPECT_EQ(rows.back().elements, 4096u / sizeof(float));
  }
}

// The sums over the GPUs must be those of one rank with the whole batch.
class TransportsOfGpus : public SimulatedGpu {
 protected:
  Config many() const {
    Config many = small_config(world_->size());
    many.optimiser.learning_rate = 0.01;
    many.reducer.algorithm = comm::AllReduceAlgorithm::automatic;
    return many;
  }
  /// Expects that training on all ranks has the same result as training on one rank.
  void expect_same_as_one_rank(const Config& many, double tolerance = 1e-5) {
    Config one = many;
    one.batch_per_rank = one.global_batch;
    one.transport.kind = comm::TransportKind::automatic;
    one.reducer.algorithm = comm::AllReduceAlgorithm::automatic;
    const Outcome expected = on_gpu(one);
    const Outcome actual = train(backend::DeviceKind::cuda, many, *world_);
    EXPECT_LT(relative_difference(actual.parameters, expected.parameters), tolerance);
    if (!expected.statistics.empty()) {
      EXPECT_LT(relative_difference(actual.statistics, expected.statistics), tolerance);
    }
  }
};

TEST_F(TransportsOfGpus, StagedSumsInHostMemory) {
  graph_ = small_graph(Norm::without);
  Config config = many();
  config.transport.kind = comm::TransportKind::staged;
  config.reducer.algorithm = comm::AllReduceAlgorithm::direct;
  config.transport.allow_sharing = true;
  expect_same_as_one_rank(config);
}

TEST_F(TransportsOfGpus, RankZeroReducesAndUpdates) {
  for (const Norm norm : {Norm::without, Norm::with_batch_norm}) {
    graph_ = small_graph(norm);
    Config config = many();
    config.transport.allow_sharing = true;
    if (norm == Norm::with_batch_norm) config.batch_norm = BatchNormMode::sync;
    for (const auto transport : {comm::TransportKind::staged, comm::TransportKind::nccl}) {
      for (const auto reducer :
           {comm::ReducerKind::gather_scatter, comm::ReducerKind::parameter_server}) {
        SCOPED_TRACE(std::string(reducer.name()) + ", " + std::string(core::name(transport)));
        config.transport.kind = transport;
        config.reducer.kind = reducer;
        expect_same_as_one_rank(config, norm == Norm::without ? 1e-5 : 1e-4);
      }
    }
  }
}

// The native weights in bfloat16 must follow the parameters that a rank receives. The tolerance is
// that of one rounding to bfloat16, which the order of the sums decides.
TEST_F(TransportsOfGpus, ParameterServerConvertsTheWeightsOfEveryRank) {
  graph_ = small_graph(Norm::without);
  Config config = many();
  config.transport.kind = comm::TransportKind::nccl;
  config.transport.allow_sharing = true;
  config.plan.precision = core::Precision::bf16;
  config.reducer.kind = comm::ReducerKind::parameter_server;
  expect_same_as_one_rank(config, 4e-3);
}

TEST_F(TransportsOfGpus, NcclSumsInsideTheGraph) {
  graph_ = small_graph(Norm::without);
  Config config = many();
  config.transport.kind = comm::TransportKind::nccl;
  config.transport.allow_sharing = true;
  for (const auto reducer : {comm::ReducerKind::overlap, comm::ReducerKind::allreduce}) {
    config.reducer.kind = reducer;
    simulated_gpu::reset_counters();
    expect_same_as_one_rank(config);
    const auto counters = simulated_gpu::counters();
    EXPECT_EQ(counters.in_graphs.collectives > 0, world_->size() > 1);
  }
}

// The last rank begins each step 160 ms late. The simulated GPU reads the clock of the
// host for each event, so the exposed communication of rank 0 contains its wait.
TEST_F(TransportsOfGpus, NcclWaitsForADelayedRank) {
  if (world_->size() == 1) GTEST_SKIP() << "needs several ranks";
  constexpr int delay = 160;
  graph_ = small_graph(Norm::without);
  Config config = many();
  config.transport.kind = comm::TransportKind::nccl;
  config.transport.allow_sharing = true;
  config.evaluate_every = -1;
  const bool is_last = world_->rank() == world_->size() - 1;
  DelayedSteps late(std::chrono::milliseconds(is_last ? delay : 0));
  const auto backend = backend::make_backend({.kind = backend::DeviceKind::cuda, .threads = 1});
  Witness witness;
  Trainer trainer({config, graph_, data_, *backend, *world_, *world_, &late}, witness);
  trainer.run();
  if (world_->rank() != 0) return;
  const std::vector<double>& phases = witness.epochs.back().phase_seconds;
  const auto exposed = static_cast<std::size_t>(record::Phase::exposed_communication);
  const std::size_t row = record::phase_count * static_cast<std::size_t>(world_->size());
  double seconds = 0;
  for (std::size_t at = exposed; at < phases.size(); at += row) seconds += phases[at];
  const double expected = 1e-3 * delay * static_cast<double>(phases.size() / row);
  EXPECT_GT(seconds, 0.4 * expected);
}

// A rank that waits for the GPU notices the error, and ends although NCCL waits for its graphs.
TEST_F(TransportsOfGpus, NcclErrorInAReplayedStepEndsTheTraining) {
  if (world_->size() == 1) GTEST_SKIP() << "needs several ranks";
  for (const auto batch_norm : {BatchNormMode::broadcast, BatchNormMode::sync}) {
    Config config = many();
    config.transport.kind = comm::TransportKind::nccl;
    config.transport.allow_sharing = true;
    config.batch_norm = batch_norm;
    simulated_gpu::fail_collective_of_graph(batch_norm == BatchNormMode::sync ? 1 : 3);
    const auto begin = std::chrono::steady_clock::now();
    try {
      train(backend::DeviceKind::cuda, config, *world_);
      ADD_FAILURE() << "no error";
    } catch (const core::Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("NCCL could not communicate on"));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  }
}

TEST_F(SimulatedGpu, WithoutCudaGraphEveryStepIsStartedByTheHost) {
  Config eager = config();
  eager.cuda_graph = CudaGraph::off;
  EXPECT_EQ(counters_of(eager, 3).graph_launches, 0);
  EXPECT_EQ(on_gpu(eager).parameters, on_gpu(config()).parameters);
}

// Ranks with separate GPUs register the memory of the gradients with NCCL.
TEST_F(TransportsOfGpus, NcclSumsRegisteredMemory) {
  graph_ = small_graph(Norm::without);
  simulated_gpu::set_gpu(world_->rank());
  Config config = many();
  config.transport.kind = comm::TransportKind::nccl;
  expect_same_as_one_rank(config);
  simulated_gpu::set_gpu(0);
}

TEST_F(TransportsOfGpus, NcclSumsStatisticsAndGradientsTogether) {
  Config config = many();
  config.transport.kind = comm::TransportKind::nccl;
  config.transport.allow_sharing = true;
  config.batch_norm = BatchNormMode::sync;
  expect_same_as_one_rank(config, 1e-4);
}

TEST_F(TransportsOfGpus, NcclSumsHalfPrecision) {
  Config config = many();
  config.transport.kind = comm::TransportKind::nccl;
  config.transport.allow_sharing = true;
  config.batch_norm = BatchNormMode::sync;
  config.plan.precision = core::Precision::fp16;
  config.reducer.gradient_type = core::DataType::float16;
  config.plan.max_gradient_norm = 1;
  expect_same_as_one_rank(config, 2e-2);
}

}  // namespace
}  // namespace lockstep::train
