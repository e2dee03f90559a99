// SPDX-License-Identifier: BSD-3-Clause
// lockstep ladder

#include "lockstep/study/ladder.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "commands.hpp"
#include "header.hpp"
#include "load_data.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/core/process/stop_signal.hpp"
#include "lockstep/record/run_file.hpp"

namespace lockstep::app {

namespace {

constexpr std::string_view ladder_head =
    "batch per rank   epoch        without data   img/s      estimated memory peak memory\n";

bool has_memory(const record::LadderRow& row) { return row.status != "out_of_memory"; }

std::string table_row(const record::LadderRow& row) {
  const std::string planned = core::format_bytes(double(row.predicted_bytes));
  if (!has_memory(row)) {
    return fmt::format("{:<16} {:<39} {:<16} -\n", row.batch_per_rank, "out of memory", planned);
  }
  const std::string mark =
      row.is_extrapolated ? fmt::format("  * scaled from {}", plural(row.steps, "step")) : "";
  return fmt::format("{:<16} {:<12} {:<14} {:<10.1f} {:<16} {}{}\n", row.batch_per_rank,
                     core::format_seconds(row.epoch_seconds),
                     core::format_seconds(row.training_seconds), row.images_per_second, planned,
                     core::format_bytes(double(row.peak_bytes)), mark);
}

std::string describe_end(const study::LadderResult& result, std::uint64_t limit) {
  std::int64_t largest = 0, failed = 0;
  for (const auto& row : result.points) (has_memory(row) ? largest : failed) = row.batch_per_rank;
  const std::string memory = core::format_bytes(double(limit));
  const std::string fits =
      largest == 0 ? ""
                   : fmt::format("The largest measured batch is {} images per rank. ", largest);
  switch (result.end) {
    case study::LadderEnd::out_of_memory:
      return largest == 0 ? fmt::format(
                                "Even the smallest batch, {} images per rank, needs more "
                                "memory than the limit of {} per rank; use a smaller "
                                "--ladder-start or a larger --memory-limit.\n",
                                failed, memory)
                          : fmt::format(
                                "{}The next, {}, needs more memory than the limit of {} "
                                "per rank.\n",
                                fits, failed, memory);
    case study::LadderEnd::out_of_data:
      return fits +
             "The next batch has more images than the training set, so the memory limit "
             "was not reached.\n";
    case study::LadderEnd::stopped:
      return fits + "The ladder was stopped by a signal before it was complete.\n";
  }
  return "";
}

nlohmann::json row_json(const record::LadderRow& row) {
  return {{"batch_per_rank", row.batch_per_rank},
          {"status", row.status},
          {"epoch_seconds", row.epoch_seconds},
          {"training_seconds", row.training_seconds},
          {"images_per_second", row.images_per_second},
          {"steps", row.steps},
          {"extrapolated", row.is_extrapolated},
          {"predicted_bytes", row.predicted_bytes},
          {"peak_bytes", row.peak_bytes}};
}

/// Runs the ladder. Each point is printed and written to the run file when it is finished.
study::LadderResult run(Job& job, const data::TrainingData& data, const study::MemoryLimit& limit,
                        std::optional<record::RunFile>& file) {
  const auto report = [&](const record::LadderRow& row) {
    job.console.print(table_row(row));
    if (file) file->append(row);
  };
  study::LadderResult result;
  record_measurement(job, file, [&] {
    result = study::run_ladder({job.options.training, job.graph, data, *job.backend,
                                job.communicator, job.communicator, job.monitor},
                               job.options.ladder, job.sizes, job.process_bytes, limit, report);
    return result.end == study::LadderEnd::stopped ? record::RunStatus::preempted
                                                   : record::RunStatus::complete;
  });
  return result;
}

}  // namespace

core::ExitStatus ladder_command(const Invocation& invocation) {
  // Created when the results are complete: from then on, signals have no effect
  // (Watchdog::limit_stop). Declared first, because it outlives the other objects.
  std::optional<core::StopSignal> ignored_signals;
  Job job(invocation);
  const study::MemoryLimit limit = memory_limit(job);
  job.console.print(describe_place(job) + fmt::format("  {:<14} {} per rank\n\n", "memory limit",
                                                      core::format_bytes(double(limit.bytes))));
  check_output(job);
  const data::TrainingData data = load_data(job);
  if (job.options.output.is_dry_run) return end_dry_run(job);
  auto file = open_run_file(job);

  job.console.print(std::string(ladder_head));
  const auto result = run(job, data, limit, file);
  ignored_signals.emplace();
  job.console.print("\n" + describe_end(result, limit.bytes));
  auto points = nlohmann::json::array();
  for (const auto& point : result.points) points.push_back(row_json(point));
  print_json(job, {{"memory_limit_bytes", limit.bytes}, {"ladder", points}});
  return result.end == study::LadderEnd::stopped ? core::stopped_by(result.stop_signal)
                                                 : core::ExitStatus::done;
}

}  // namespace lockstep::app
