// lockstep allreduce

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "console.hpp"
#include "header.hpp"
#include "job.hpp"
#include "json_output.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/comm/sweep.hpp"
#include "lockstep/train/agreement.hpp"

namespace lockstep::app {

namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::string table_head(bool has_link) {
  return fmt::format(
      "{:>12} {:>12} {:>8} {:>6} {:>5} {:>12} {:>12} {:>10} {:>10} {:>7}{}\n"
      "{:>12} {:>12} {:>8} {:>6} {:>5} {:>12} {:>12} {:>10} {:>10} {:>7}{}\n",
      "size", "count", "type", "redop", "root", "way", "time", "algbw", "busbw", "#wrong",
      has_link ? "     link" : "", "(B)", "(elements)", "", "", "", "", "(us)", "(GB/s)", "(GB/s)",
      "", has_link ? "      (%)" : "");
}

/// Share of a link of `link` bytes per second that the least traffic of the sum takes, as what
/// travels.
double link_share(const comm::SweepRow& row, int ranks, core::DataType wire, double link) {
  const bool travels_whole = row.way.starts_with("mpi") || row.way == "ring" || row.way == "staged";
  const double scale =
      travels_whole ? 1.0 : static_cast<double>(core::size_of(wire)) / sizeof(float);
  return comm::bus_bandwidth(row.bytes, median(row.seconds), ranks) * scale / link;
}

std::string table_row(const comm::SweepRow& row, int ranks, const train::Config& config) {
  const double seconds = median(row.seconds);
  std::string text =
      fmt::format("{:>12} {:>12} {:>8} {:>6} {:>5} {:>12} {:>12.1f} {:>10.3f} {:>10.3f} {:>7}",
                  row.bytes, row.bytes / sizeof(float), "float", "sum", -1, row.way, seconds * 1e6,
                  comm::algorithm_bandwidth(row.bytes, seconds) / 1e9,
                  comm::bus_bandwidth(row.bytes, seconds, ranks) / 1e9, row.wrong);
  if (config.link_gbit > 0) {
    text += fmt::format(" {:>8.1f}", 100 * link_share(row, ranks, config.gradient_type,
                                                      config.link_gbit * 1e9 / 8));
  }
  return text + "\n";
}

nlohmann::json to_json(const comm::SweepRow& row, int ranks) {
  const double seconds = median(row.seconds);
  return {{"way", row.way},
          {"bytes", row.bytes},
          {"median_seconds", seconds},
          {"seconds", row.seconds},
          {"algbw_bytes_per_second", comm::algorithm_bandwidth(row.bytes, seconds)},
          {"busbw_bytes_per_second", comm::bus_bandwidth(row.bytes, seconds, ranks)},
          {"wrong", row.wrong}};
}

std::vector<record::AllReduceRow> to_record(const std::vector<comm::SweepRow>& rows) {
  std::vector<record::AllReduceRow> records;
  for (const auto& row : rows) records.push_back({row.way, row.bytes, row.seconds, row.wrong});
  return records;
}

}  // namespace

core::ExitStatus allreduce_command(const Invocation& invocation) {
  comm::Communicator& communicator = invocation.communicator;
  const bool is_first = communicator.rank() == 0;
  const Job job = prepare_job(invocation);
  const train::Config& config = job.config;
  Console console(voice_of(job.config, communicator));
  check_output(config, communicator);
  if (config.dry_run) return end_dry_run(job, console, communicator);
  std::optional<record::RunFile> file;
  train::together(communicator, [&] {
    if (!is_first || config.output.empty()) return;
    file.emplace(config.output,
                 config.overwrite ? record::Existing::replace : record::Existing::refuse,
                 run_header(job, invocation, {}));
  });

  const auto transport = comm::make_gradient_transport(
      communicator, job.backend->queue(),
      {.kind = config.transport, .allow_sharing = config.allow_gpu_sharing});
  console.print(
      fmt::format("Sums over {} ({}), {}; medians of {} repeats, the slowest rank of each.\n\n",
                  plural(communicator.size(), "rank"), job.backend->device_name(),
                  transport->library_version(), config.repeats));
  const auto rows = transport->sweep({.min_bytes = config.min_bytes,
                                      .max_bytes = config.max_bytes,
                                      .factor = 4,
                                      .repeats = config.repeats,
                                      .warmup = 5,
                                      .wire = config.gradient_type});
  console.print(table_head(config.link_gbit > 0));
  std::uint64_t wrong = 0;
  for (const auto& row : rows) {
    console.print(table_row(row, communicator.size(), config));
    wrong += row.wrong;
  }
  if (file) {
    file->write_allreduce(to_record(rows));
    file->finish(record::RunStatus::complete);
  }
  if (is_first && config.json) {
    auto json = describe_job(job);
    for (const auto& row : rows) json["allreduce"].push_back(to_json(row, communicator.size()));
    print_json(json);
  }
  if (wrong > 0) {
    throw train::AgreedError(
        core::ExitStatus::internal,
        fmt::format(
            "{} sums were wrong; suspect the network or its library, and do not train on it",
            wrong),
        0, communicator.rank());
  }
  return core::ExitStatus::done;
}

}  // namespace lockstep::app
