// lockstep ladder

#include "lockstep/train/ladder.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "console.hpp"
#include "header.hpp"
#include "job.hpp"
#include "json_output.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/train/agreement.hpp"

namespace lockstep::app {

namespace {

constexpr std::string_view table_head =
    "batch per rank   epoch        without data   img/s      memory planned   used at most\n";

std::string table_row(const train::LadderPoint& point) {
  const auto& row = point.row;
  const std::string planned = core::format_bytes(double(row.predicted_bytes));
  if (!point.has_memory) {
    return fmt::format("{:<16} {:<39} {:<16} -\n", row.batch_per_rank, "out of memory", planned);
  }
  const std::string mark =
      point.is_extrapolated ? fmt::format("  * from {} step(s)", point.steps) : "";
  return fmt::format("{:<16} {:<12} {:<14} {:<10.1f} {:<16} {}{}\n", row.batch_per_rank,
                     core::format_seconds(row.epoch_seconds),
                     core::format_seconds(point.training_seconds), row.images_per_second, planned,
                     core::format_bytes(double(row.peak_bytes)), mark);
}

std::string describe_end(const train::LadderResult& result, std::uint64_t limit) {
  std::int64_t largest = 0;
  for (const auto& point : result.points) {
    if (point.has_memory) largest = point.row.batch_per_rank;
  }
  const std::string fits = largest == 0 ? "No batch of the ladder fits"
                                        : fmt::format("A batch of {} per rank fits", largest);
  switch (result.end) {
    case train::LadderEnd::out_of_memory:
      return fmt::format("{} into {}; the next does not.\n", fits,
                         core::format_bytes(double(limit)));
    case train::LadderEnd::out_of_data:
      return fits + "; the next is larger than the training set, so memory was not filled.\n";
    case train::LadderEnd::stopped: return fits + "; a signal stopped the ladder.\n";
  }
  return "";
}

nlohmann::json to_json(const train::LadderPoint& point) {
  return {{"batch_per_rank", point.row.batch_per_rank},
          {"status", point.row.status},
          {"epoch_seconds", point.row.epoch_seconds},
          {"training_seconds", point.training_seconds},
          {"images_per_second", point.row.images_per_second},
          {"steps", point.steps},
          {"extrapolated", point.is_extrapolated},
          {"predicted_bytes", point.row.predicted_bytes},
          {"peak_bytes", point.row.peak_bytes}};
}

void write_file(record::RunFile& file, const train::LadderResult& result) {
  std::vector<record::LadderRow> rows;
  for (const auto& point : result.points) rows.push_back(point.row);
  if (!rows.empty()) file.write_ladder(rows);
  file.finish(result.end == train::LadderEnd::stopped ? record::RunStatus::preempted
                                                      : record::RunStatus::complete);
}

}  // namespace

core::ExitStatus ladder_command(const Invocation& invocation) {
  comm::Communicator& communicator = invocation.communicator;
  const bool is_first = communicator.rank() == 0;
  const Job job = prepare_job(invocation);
  const train::Config& config = job.config;
  Console console(voice_of(job.config, communicator));
  const std::uint64_t limit = memory_limit(job, communicator);
  console.print(describe_place(job, communicator) + fmt::format("  {:<14} {} per rank\n\n",
                                                                "memory limit",
                                                                core::format_bytes(double(limit))));
  check_output(config, communicator);
  const data::TrainingData data = load_data(job, communicator);
  if (config.dry_run) return end_dry_run(job, console, communicator);
  std::optional<record::RunFile> file;
  train::together(communicator, [&] {
    if (!is_first || config.output.empty()) return;
    file.emplace(config.output,
                 config.overwrite ? record::Existing::replace : record::Existing::refuse,
                 run_header(job, invocation, {}));
  });

  console.print(std::string(table_head));
  const auto result = train::run_ladder(
      {config, job.graph, data, *job.backend, communicator}, job.sizes, job.process_bytes, limit,
      [&](const train::LadderPoint& point) { console.print(table_row(point)); });
  if (file) write_file(*file, result);
  console.print("\n" + describe_end(result, limit));
  if (is_first && config.json) {
    auto json = describe_job(job);
    json["memory_limit_bytes"] = limit;
    for (const auto& point : result.points) json["ladder"].push_back(to_json(point));
    print_json(json);
  }
  return result.end == train::LadderEnd::stopped ? core::ExitStatus::interrupted
                                                 : core::ExitStatus::done;
}

}  // namespace lockstep::app
