// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/study/ladder.hpp"

#include <algorithm>
#include <limits>

#include "lockstep/comm/messages.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/process/stop_signal.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/trainer.hpp"

namespace lockstep::study {

namespace {

/// Returns the configuration of one point: training steps only, without evaluation and checkpoints.
train::Config point_config(const train::Config& ladder, std::int64_t batch, int ranks) {
  train::Config config = ladder;
  config.batch_per_rank = batch;
  config.global_batch = batch * ranks;
  if (config.steps > 0) {
    config.steps += 1;  // the first step is not counted
    config.epochs = 0;
  }
  config.evaluate_every = -1;
  config.telemetry_hertz = 0;  // the points of a ladder have no samples in the run file
  config.checkpoint.directory.clear();
  config.checkpoint.resume = "none";
  return config;
}

/// Sums the durations of the counted steps: those of the last epoch, or all but the first step.
class PointTimer final : public train::TrainingListener {
 public:
  PointTimer(std::size_t ranks, std::size_t skipped) : ranks_(ranks), skipped_(skipped) {}

  void epoch_end(record::EpochRecord& epoch) override {
    if (skipped_ == 0) seconds_ = training_seconds_ = images_ = steps_ = 0;
    for (std::size_t step = 0; step < epoch.images.size(); ++step) {
      if (skipped_ > 0 && seen_++ < skipped_) continue;
      add(epoch, step);
    }
  }

  /// Writes the results to `row`; the times are scaled from the counted steps to
  /// `steps_per_epoch`.
  void write(record::LadderRow& row, std::int64_t steps_per_epoch) const {
    const double scale = static_cast<double>(steps_per_epoch) / steps_;
    row.epoch_seconds = seconds_ * scale;
    row.images_per_second = images_ / seconds_;
    row.training_seconds = training_seconds_ * scale;
    row.steps = static_cast<std::int64_t>(steps_);
    row.is_extrapolated = row.steps != steps_per_epoch;
  }
  bool has_steps() const { return steps_ > 0; }

 private:
  void add(const record::EpochRecord& epoch, std::size_t step) {
    double slowest = 0, slowest_training = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const double* phases =
          epoch.phase_seconds.data() + (step * ranks_ + rank) * record::phase_count;
      double training = 0;  // without the wait for data, which is the first phase
      for (std::size_t phase = 1; phase < record::phase_count; ++phase) training += phases[phase];
      slowest_training = std::max(slowest_training, training);
      slowest = std::max(slowest, training + phases[0]);
    }
    seconds_ += slowest;
    training_seconds_ += slowest_training;
    images_ += static_cast<double>(epoch.images[step]);
    steps_ += 1;
  }

  std::size_t ranks_;
  std::size_t skipped_, seen_ = 0;
  double seconds_ = 0, training_seconds_ = 0, images_ = 0, steps_ = 0;
};

/// Trains one point and writes its results to `row`; returns false if a signal stopped it.
bool train_point(const train::TrainingContext& ladder, const train::Config& config,
                 record::LadderRow& row) {
  const train::TrainingContext context{config,         ladder.graph, ladder.data,
                                       ladder.backend, ladder.world, ladder.data_parallel,
                                       ladder.monitor};
  PointTimer timer(static_cast<std::size_t>(context.world.size()), config.steps > 0 ? 1 : 0);
  const auto free_before = context.backend.device().available_memory();
  train::Trainer trainer(context, timer);
  const train::RunSummary summary = trainer.run();
  row.peak_bytes = summary.peak_memory_bytes;
  if (free_before) {
    const std::uint64_t free_now = *context.backend.device().available_memory();
    row.peak_bytes = *free_before > free_now ? *free_before - free_now : 0;
  }
  if (summary.status == record::RunStatus::preempted) return false;
  if (timer.has_steps()) timer.write(row, trainer.description().steps_per_epoch);
  return true;
}

}  // namespace

LadderResult run_ladder(const train::TrainingContext& context, const LadderOptions& options,
                        const data::DataSizes& sizes, std::uint64_t process_bytes,
                        const MemoryLimit& limit,
                        const std::function<void(const record::LadderRow&)>& point_done) {
  comm::Communicator& communicator = context.world;
  const int ranks = communicator.size();
  // All ranks must agree on whether a point is trained, because training is collective.
  const std::uint64_t limit_bytes = comm::minimum(communicator, limit.bytes);
  // A signal between two points, or in the last step of a point, must stop the ladder as well.
  const core::StopSignal stop;
  LadderResult result;
  for (std::int64_t batch = options.start;; batch *= 4) {
    result.stop_signal = train::agreed_signal(communicator);
    if (result.stop_signal != 0) {
      result.end = LadderEnd::stopped;
      return result;
    }
    if (static_cast<std::size_t>(batch * ranks) > context.data.train->size()) {
      result.end = LadderEnd::out_of_data;
      return result;
    }
    const train::Config config = point_config(context.config, batch, ranks);
    core::begin_activity(context.monitor, core::Activity::estimating_memory);
    record::LadderRow row;
    bool has_memory = true;
    row.batch_per_rank = batch;
    row.epoch_seconds = row.training_seconds = row.images_per_second =
        std::numeric_limits<double>::quiet_NaN();
    const auto estimate = [&](MemoryDetail detail) {
      std::uint64_t bytes = 0;
      train::together(communicator, [&] {
        bytes = estimate_memory(config, context.graph, context.backend, sizes,
                                {ranks, communicator.local_size()}, process_bytes, detail)
                    .limited();
      });
      return comm::maximum(communicator, bytes);
    };
    const bool has_device = context.backend.device().available_memory().has_value();
    // First from the shapes: engines for a batch that cannot fit must not be timed.
    if (has_device) {
      row.predicted_bytes = estimate(MemoryDetail::least);
      has_memory = row.predicted_bytes <= limit_bytes;
    }
    if (has_memory) {
      row.predicted_bytes = estimate(MemoryDetail::planned);
      // A device with separate memory reports by itself whether a batch fits, and remains usable
      // if it does not: then the estimate need not be below the limit.
      const bool can_try = has_device && !limit.is_given;
      has_memory = row.predicted_bytes <= limit_bytes || can_try;
    }
    try {
      // A stopped point is not recorded; the next iteration of the loop then detects the signal.
      if (has_memory && !train_point(context, config, row)) continue;
    } catch (const train::AgreedError& error) {
      if (error.status() != core::ExitStatus::out_of_memory) throw;
      has_memory = false;
    }
    row.status = has_memory ? "complete" : "out_of_memory";
    if (has_memory) row.peak_bytes = comm::maximum(communicator, row.peak_bytes);
    result.points.push_back(row);
    point_done(row);
    if (!has_memory) return result;
  }
}

}  // namespace lockstep::study
