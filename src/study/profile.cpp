// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/study/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/comm/messages.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/process/system.hpp"
#include "lockstep/core/statistics.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/plan_options.hpp"
#include "profile_rows.hpp"
#include "trace.hpp"

namespace lockstep::study {

namespace {

/// Measures the highest rates of the device and sets the ceilings of `profile`. They are unknown if
/// the plan leaves too little memory for the measurement.
void measure_ceilings(const train::TrainingContext& context, record::Profile& profile) {
  try {
    apply_ceilings(context.backend.ceilings(context.config.plan.precision), profile);
  } catch (const core::Error& error) {
    if (error.status() != core::ExitStatus::out_of_memory) throw;
    profile.ceiling_source = std::string("not measured: ") + error.what();
  }
}

/// Throws `AgreedError` if a rank has received a signal. Collective.
void end_if_signalled(const train::TrainingContext& context) {
  const int signal = train::agreed_signal(context.world);
  if (signal == 0) return;
  train::together(context.world, [&] {
    if (context.world.rank() != 0) return;
    const bool is_saved = !context.config.checkpoint.directory.empty();
    core::fail(is_saved ? core::ExitStatus::interrupted : core::stopped_by(signal),
               fmt::format("stopped by signal {} during the profile, which is not written; the "
                           "training is complete",
                           signal));
  });
}

/// How a step is measured. `profiled`: with a timestamp at the end of each operation. On a GPU,
/// each variant has captures of its own.
enum class Variant { training, profiled };

/// The profile of the steps of one rank.
class RankProfile {
 public:
  RankProfile(const train::TrainingContext& context, const ProfileOptions& options,
              train::ExtraSteps& steps)
      : context_(context), options_(options), steps_(steps), operations_(steps.operations()) {}

  /// Executes the steps. Collective.
  void run();

  const std::vector<double>& with() const { return with_; }
  const std::vector<double>& without() const { return without_; }
  const std::vector<OperationSum>& sums() const { return sums_; }
  const std::vector<TraceEvent>& events() const { return events_; }
  record::ProfiledOperation all_reduce() const;

 private:
  train::ExtraStep run_step(Variant variant);
  void record_step(const train::ExtraStep& step, double begin, std::int64_t number);
  void trace_step(const train::ExtraStep& step, double begin, std::int64_t number);

  const train::TrainingContext& context_;
  const ProfileOptions& options_;
  train::ExtraSteps& steps_;
  train::OperationClock& operations_;
  bool is_stopping_ = false;  ///< a rank has received a signal
  std::vector<OperationSum> sums_;
  double all_reduce_seconds_ = 0;
  std::vector<double> with_, without_;  ///< seconds of each step on this rank
  std::vector<TraceEvent> events_;
};

train::ExtraStep RankProfile::run_step(Variant variant) {
  const bool is_profiled = variant == Variant::profiled;
  if (operations_.is_enabled() != is_profiled) {
    operations_.set_enabled(is_profiled);
    steps_.swap_captured();
  }
  const train::ExtraStep step = steps_.run();
  is_stopping_ = is_stopping_ || step.is_stopping;
  return step;
}

double total(const record::PhaseSeconds& phases) {
  return std::accumulate(phases.begin(), phases.end(), 0.0);
}

void RankProfile::run() {
  operations_.set_enabled(true);
  steps_.swap_captured();
  steps_.capture();
  for (int warm_up = 0; warm_up < steps_.depth(); ++warm_up) run_step(Variant::profiled);
  run_step(Variant::training);
  context_.world.barrier();  // the origin of the traces of all ranks
  const double origin = core::host_seconds();
  for (std::int64_t number = 1; number <= options_.steps && !is_stopping_; ++number) {
    without_.push_back(total(run_step(Variant::training).seconds));
    const double begin = core::host_seconds() - origin;
    record_step(run_step(Variant::profiled), begin, number);
  }
}

/// Adds the profiled step `number`, which began at `begin` of the trace.
void RankProfile::record_step(const train::ExtraStep& step, double begin, std::int64_t number) {
  with_.push_back(total(step.seconds));
  add(operations_.times(), sums_);
  for (const comm::BucketTimes& times : step.buckets) all_reduce_seconds_ += times.call_seconds;
  if (!options_.trace.empty()) trace_step(step, begin, number);
}

void RankProfile::trace_step(const train::ExtraStep& step, double begin, std::int64_t number) {
  events_.push_back({.name = fmt::format("profiled step {}", number),
                     .category = "step",
                     .track = "steps",
                     .begin = begin,
                     .end = begin + total(step.seconds)});
  for (const auto& [key, from, to] : operations_.times()) {
    const bool is_part = key.first == train::no_node;
    std::string name = std::string(key.second);
    if (!is_part) name = context_.graph.node(key.first).name + " " + name;
    events_.push_back({.name = std::move(name),
                       .category = is_part ? "step part" : "operation",
                       .track = "compute",
                       .begin = begin + from,
                       .end = begin + to});
    if (!is_part)
      events_.back().details.emplace_back("operation", context_.graph.describe(key.first));
  }
  const auto sizes = steps_.reducer().bucket_sizes();
  for (std::size_t bucket = 0; bucket < step.buckets.size(); ++bucket) {
    const comm::BucketTimes& times = step.buckets[bucket];
    events_.push_back({.name = fmt::format("all-reduce of bucket {}", bucket),
                       .category = "communication",
                       .track = "communication",
                       .begin = begin + times.start_seconds,
                       .end = begin + times.end_seconds,
                       .details = {{"bytes", fmt::format("{}", sizes[bucket])}}});
  }
}

/// Returns the row of all all-reduces, whose time overlaps with that of other operations.
record::ProfiledOperation RankProfile::all_reduce() const {
  const auto sizes = steps_.reducer().bucket_sizes();
  return {.name = "all-reduce",
          .what = "all-reduce of the gradients",
          .phase = "all-reduce",
          .implementation = std::string(steps_.reducer().choice().algorithm.name()),
          .ceiling = "none",
          .calls = static_cast<double>(sizes.size()),
          .bytes = static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0})),
          .seconds = {all_reduce_seconds_ / static_cast<double>(options_.steps)}};
}

/// Extends the times of the rows to all ranks. The ranks may have chosen different implementations
/// with other phases, so rows are found by their names. Collective.
void gather_seconds(std::vector<record::ProfiledOperation>& rows, comm::Communicator& world) {
  using Row = std::tuple<std::string, std::string, double>;
  std::vector<Row> mine;
  for (const auto& row : rows) mine.emplace_back(row.name, row.phase, row.seconds[0]);
  for (auto& row : rows) row.seconds.clear();
  for (const std::vector<Row>& of_rank : comm::all_gather(world, mine)) {
    for (auto& row : rows) {
      const auto found = std::ranges::find_if(of_rank, [&](const Row& other) {
        return std::get<0>(other) == row.name && std::get<1>(other) == row.phase;
      });
      row.seconds.push_back(found == of_rank.end() ? std::numeric_limits<double>::quiet_NaN()
                                                   : std::get<2>(*found));
    }
  }
}

/// Returns the median over the steps of the time of the slowest rank. Collective.
double median_step(std::vector<double> seconds, comm::Communicator& world) {
  world.maximum(seconds);
  return core::median(std::move(seconds));
}

}  // namespace

ProfileResult run_profile(const train::TrainingContext& context, const ProfileOptions& options,
                          train::ExtraSteps steps) {
  core::begin_activity(context.monitor, core::Activity::profile);
  RankProfile mine(context, options, steps);
  mine.run();
  end_if_signalled(context);
  ProfileResult result;
  record::Profile& profile = result.profile;
  profile.steps = options.steps;
  profile.step_seconds = median_step(mine.with(), context.world);
  profile.step_seconds_without_profile = median_step(mine.without(), context.world);
  const ProfileRows rows(context.graph, steps.plan(),
                         train::training_options(context.config, context.config.batch_per_rank));
  for (const OperationSum& sum : mine.sums())
    profile.operations.push_back(rows.row(sum, profile.steps));
  // All ranks of a host measure at the same time, as they compute at the same time.
  train::together(context.world, [&] { measure_ceilings(context, profile); });
  end_if_signalled(context);
  if (auto all_reduce = mine.all_reduce(); all_reduce.calls > 0)
    profile.operations.push_back(std::move(all_reduce));
  gather_seconds(profile.operations, context.world);
  if (options.trace.empty()) return result;
  const std::string place =
      fmt::format("{}, {}", core::host_name(), context.backend.device().name());
  const auto traces =
      comm::gather(context.world, trace_of_rank(context.world.rank(), place, mine.events()));
  if (context.world.rank() == 0) result.trace = join_traces(traces);
  return result;
}

}  // namespace lockstep::study
