// SPDX-License-Identifier: BSD-3-Clause
// Benchmark of the overheads outside the operations of a training step: the data loader, the step
// clock, the run file and checkpoints.
//
//   overheads_bench [FOLDER [THREADS [PAIRS]]]
//
// FOLDER: folder for temporary files [current folder]; THREADS: for the steps between checkpoints
// [2]; PAIRS: measurements with and without a checkpoint, in turn [0: none]. Prints one line per
// overhead. docs/performance.md compares them with the time of a step.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/mpi_session.hpp"
#include "lockstep/core/statistics.hpp"
#include "lockstep/data/loader.hpp"
#include "lockstep/graph/models.hpp"
#include "lockstep/record/checkpoint_directory.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/train/trainer.hpp"
#include "lockstep/train/weights.hpp"
#include "train/checkpoint/checkpoint_tensors.hpp"
#include "train/timing/step_clock.hpp"

namespace {

using namespace lockstep;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Returns the processor time of all threads of this process.
double processor_seconds() {
  std::timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Measures and prints the throughput of one thread that prepares batches of 128 augmented images
/// in the order of the sampler, in images/s.
void time_loader() {
  const data::TrainingData data = data::load({.source = "synthetic:10000"});
  const data::DistributedSampler sampler(data.train->size(), 128, 1, 1, data::LastBatch::drop);
  data::DataLoader loader(*data.train, sampler, 0, {.loader_threads = 0});
  std::size_t images = 0;
  const auto begin = Clock::now();
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
    loader.start_epoch(epoch);
    for (std::size_t step = 0; step < sampler.steps_per_epoch(); ++step) {
      images += loader.next().labels.size();
    }
  }
  std::printf("loader, one thread: %.0f images/s\n",
              static_cast<double>(images) / seconds_since(begin));
}

/// Measures and prints the time per step that the step clock needs on the host: seven timestamps
/// and their evaluation.
void time_clock() {
  constexpr int steps = 200000;
  double total = 0;
  core::HostTimeline timeline;
  train::StepClock clock(timeline, nullptr, 8);
  const auto begin = Clock::now();
  for (int step = 0; step < steps; ++step) {
    clock.begin(step);
    for (std::size_t phase = 0; phase < record::phase_count; ++phase) {
      if (static_cast<record::Phase>(phase) == record::Phase::forward) clock.begin_work();
      clock.end(static_cast<record::Phase>(phase));
    }
    total += clock.seconds()[0];
  }
  std::printf("clock: %.0f ns per step (sum %.3g s)\n", seconds_since(begin) / steps * 1e9, total);
}

/// Measures and prints the time to append one epoch to the run file: 391 steps, 4 ranks, 2 buckets.
void time_run_file(const std::filesystem::path& folder) {
  constexpr std::size_t steps = 391, ranks = 4, buckets = 2, epochs = 20;
  const std::filesystem::path path = folder / "overheads_bench.h5";
  record::RunHeader header;
  header.ranks.resize(ranks);
  header.bucket_sizes.assign(buckets, 1 << 20);
  record::RunFile file(path, record::OverwriteMode::replace, header);
  record::EpochRecord epoch;
  epoch.learning_rate.assign(steps, 0.1);
  epoch.loss.assign(steps, 1);
  epoch.images.assign(steps, 128);
  epoch.phase_seconds.assign(steps * ranks * record::phase_count, 0.01);
  epoch.bucket_start_seconds.assign(steps * ranks * buckets, 0.01);
  epoch.bucket_end_seconds = epoch.bucket_start_seconds;
  const auto begin = Clock::now();
  for (std::size_t i = 1; i <= epochs; ++i) {
    epoch.epoch = static_cast<std::int64_t>(i);
    file.append(epoch);
  }
  std::printf("run file: %.2f ms per epoch of %zu steps, %.1f us per step\n",
              seconds_since(begin) / epochs * 1e3, steps,
              seconds_since(begin) / epochs / steps * 1e6);
  file.finish(record::RunStatus::complete);
  std::filesystem::remove(path);
}

/// Measures and prints the time of a checkpoint of ResNet-18 without training: the copy, for which
/// the training would stop, and the write in the background, each also in processor time.
void time_checkpoint(const std::filesystem::path& folder) {
  const std::filesystem::path directory = folder / "overheads_bench-checkpoints";
  std::filesystem::create_directories(directory);
  const graph::Graph graph = graph::make_model("resnet18-cifar", {});
  const auto backend = backend::make_backend(backend::DeviceKind::cpu, 1);
  backend::ModelState state = backend->make_state(graph);
  train::initialise(graph, 1, state);
  std::vector<record::Tensor> tensors = train::weight_tensors(graph, state);
  for (const record::Tensor& tensor : train::optimiser_tensors(graph, state)) {
    tensors.push_back(tensor);
  }
  train::CheckpointWriter writer(record::CheckpointStore(directory, 1, "run"), tensors);
  std::vector<double> copy, copy_processor, write, write_processor;
  for (std::int64_t step = 0; step < 11; ++step) {
    const auto begin = Clock::now();
    const double processor_begin = processor_seconds();
    writer.start(step, {}, {{"step", step}});
    copy.push_back(seconds_since(begin));
    const double processor_middle = processor_seconds();
    copy_processor.push_back(processor_middle - processor_begin);
    writer.wait();
    write.push_back(seconds_since(begin));
    write_processor.push_back(processor_seconds() - processor_middle);
  }
  std::printf(
      "checkpoint: copy %.1f ms (%.1f ms of processor time), write and verify %.1f ms (%.1f ms of "
      "processor time)\n",
      core::median(copy) * 1e3, core::median(copy_processor) * 1e3, core::median(write) * 1e3,
      core::median(write_processor) * 1e3);
  std::filesystem::remove_all(directory);
}

/// Records when each step was complete, and the time for which checkpoints stopped the training.
struct StepTimes : train::TrainingListener {
  void step_end(const train::CompletedStep&, const train::StepResult&) override {
    done.push_back(std::chrono::duration<double>(Clock::now().time_since_epoch()).count());
    processor.push_back(processor_seconds());
  }
  void epoch_end(record::EpochRecord& epoch) override {
    pauses += epoch.measurements.at("/epochs/checkpoint_seconds").front();
  }
  std::vector<double> done, processor;  ///< (step), seconds
  double pauses = 0;
};

/// Prints the time of the `block` steps after each checkpoint relative to that of the next `block`
/// steps. `done` (step): the time at the end of each step.
void print_ratio(const char* what, const std::vector<double>& done, std::size_t block,
                 std::size_t pairs) {
  const auto between = [&](std::size_t first, std::size_t last) {  // steps, counted from 1
    return done.at(last - 1) - done.at(first - 1);
  };
  std::vector<double> without, ratios;
  for (std::size_t pair = 1; pair <= pairs; ++pair) {
    const std::size_t saved = pair * 2 * block;
    without.push_back(between(saved + block, saved + 2 * block));
    ratios.push_back(between(saved, saved + block) / without.back());
  }
  const double step = core::median(without) / static_cast<double>(block);
  const double cost = (core::median(ratios) - 1) * static_cast<double>(block) * step;
  std::printf(
      "  %s: step %.3f s; the %zu steps after a checkpoint take %.4f times as long (median of %zu, "
      "%.4f to %.4f): %.1f ms per checkpoint\n",
      what, step, block, core::median(ratios), pairs, *std::ranges::min_element(ratios),
      *std::ranges::max_element(ratios), cost * 1e3);
}

/// Measures and prints what a checkpoint costs in the training of ResNet-18. A checkpoint is saved
/// after every 2 * `block` steps: the first `block` steps after it include the pause in which the
/// state is copied, and run while the file is written; the other `block` steps are not affected if
/// the write has ended by then. The two halves are compared in `pairs` such intervals.
void time_training(comm::Communicator& alone, const std::filesystem::path& folder,
                   std::int64_t batch, std::size_t block, std::size_t pairs, int threads) {
  const std::filesystem::path directory = folder / "overheads_bench-checkpoints";
  std::filesystem::remove_all(directory);
  const auto interval = static_cast<std::int64_t>(2 * block);
  train::Config config;
  config.epochs = 0;
  config.steps = static_cast<std::int64_t>(pairs + 1) * interval;
  config.data.source = "synthetic:" + std::to_string(config.steps * batch);
  config.global_batch = batch;
  config.device.threads = threads;
  config.evaluate_every = -1;
  config.checkpoint.directory = directory.string();
  config.checkpoint.steps = interval;
  config.checkpoint.keep = 1;
  config = train::resolve_device(train::resolve(config, 1));
  const data::TrainingData data = data::load({.source = config.data.source, .test_samples = 1});
  const graph::Graph graph = graph::make_model("resnet18-cifar", {});
  const auto backend = backend::make_backend(backend::DeviceKind::cpu, threads);
  StepTimes times;
  train::Trainer({config, graph, data, *backend, alone, alone}, times).run();
  std::printf("checkpoints in the training, batch %ld, %d threads: pause %.1f ms\n",
              static_cast<long>(batch), threads, times.pauses / static_cast<double>(pairs) * 1e3);
  print_ratio("time", times.done, block, pairs);
  print_ratio("processor time", times.processor, block, pairs);
  std::fflush(stdout);
  std::filesystem::remove_all(directory);
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : ".";
  const int threads = argc > 2 ? std::atoi(argv[2]) : 2;
  const auto pairs = static_cast<std::size_t>(argc > 3 ? std::atoi(argv[3]) : 0);
  time_loader();
  time_clock();
  time_run_file(folder);
  time_checkpoint(folder);
  if (pairs == 0) return 0;
  const comm::MpiSession session(argc, argv);
  const auto alone = comm::make_self_communicator();
  time_training(*alone, folder, 32, 4, pairs, threads);
  time_training(*alone, folder, 128, 2, pairs, threads);
}
