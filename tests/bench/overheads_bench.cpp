// Benchmark of the overheads outside the operations of a training step, each measured alone: the
// data loader, the step clock and the run file.
//
//   overheads_bench [FOLDER]      FOLDER: folder for a temporary run file [current folder]
//
// Prints one line per overhead. docs/performance.md compares them with the time of a step.

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/data/loader.hpp"
#include "lockstep/record/phase.hpp"
#include "lockstep/record/run_file.hpp"
#include "train/step_clock.hpp"

namespace {

using namespace lockstep;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Measures and prints the throughput of one thread that prepares batches of 128 augmented images
/// in the order of the sampler, in images/s.
void time_loader() {
  const data::TrainingData data = data::load({.source = "synthetic:10000"});
  const data::DistributedSampler sampler(data.train->size(), 128, 1, 1, data::LastBatch::drop);
  data::DataLoader loader(*data.train, sampler, {.batch_per_rank = 128, .threads = 0});
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
  header.bucket_bytes.assign(buckets, 1 << 20);
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

}  // namespace

int main(int argc, char** argv) {
  time_loader();
  time_clock();
  time_run_file(argc > 1 ? argv[1] : ".");
}
