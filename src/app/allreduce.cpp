// SPDX-License-Identifier: BSD-3-Clause
// lockstep allreduce

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "commands.hpp"
#include "header.hpp"
#include "job.hpp"
#include "lockstep/comm/agreement.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/comm/sweep.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/core/statistics.hpp"
#include "lockstep/train/agreement.hpp"

namespace lockstep::app {

using core::median;

namespace {

std::string sweep_head(bool has_link) {
  return fmt::format(
      "{:>12} {:>12} {:>8} {:>6} {:>5} {:>18} {:>12} {:>10} {:>10} {:>7} {:>12} {:>12}{}\n"
      "{:>12} {:>12} {:>8} {:>6} {:>5} {:>18} {:>12} {:>10} {:>10} {:>7} {:>12} {:>12}{}\n",
      "size", "count", "type", "redop", "root", "algorithm", "time", "algbw", "busbw", "#wrong",
      "min", "max", has_link ? "     link" : "", "(B)", "(elements)", "", "", "", "", "(us)",
      "(GB/s)", "(GB/s)", "", "(us)", "(us)", has_link ? "      (%)" : "");
}

/// Formats a bandwidth in GB/s; "-" for one rank, because nothing is communicated.
std::string bandwidth(double bytes_per_second, int ranks) {
  return ranks == 1 ? "-" : fmt::format("{:.3f}", bytes_per_second / 1e9);
}

/// Returns the name of a data type in nccl-tests.
std::string_view type_name(core::DataType type) {
  switch (type) {
    case core::DataType::bfloat16: return "bfloat16";
    case core::DataType::float16: return "half";
    default: return "float";
  }
}

std::string table_row(const comm::SweepRow& row, int ranks, double link_gbit) {
  const double seconds = median(row.seconds);
  const double bus = comm::bus_bandwidth(row.bytes(), seconds, ranks);
  const auto [least, most] = std::ranges::minmax(row.seconds);
  std::string text = fmt::format(
      "{:>12} {:>12} {:>8} {:>6} {:>5} {:>18} {:>12.1f} {:>10} {:>10} {:>7} {:>12.1f} {:>12.1f}",
      row.bytes(), row.elements, type_name(row.type), "sum", -1, row.algorithm, seconds * 1e6,
      bandwidth(comm::algorithm_bandwidth(row.bytes(), seconds), ranks), bandwidth(bus, ranks),
      row.wrong, least * 1e6, most * 1e6);
  if (link_gbit > 0) {
    text += ranks == 1 ? fmt::format(" {:>8}", "-")
                       : fmt::format(" {:>8.1f}", 100 * bus / (link_gbit * 1e9 / 8));
  }
  return text + "\n";
}

/// Returns the mean bus bandwidth over the sizes of each algorithm, in the form of nccl-tests.
std::string average_lines(const std::vector<comm::SweepRow>& rows, int ranks) {
  std::map<std::string, std::vector<double>> bandwidths;
  for (const auto& row : rows) {
    bandwidths[row.algorithm].push_back(
        comm::bus_bandwidth(row.bytes(), median(row.seconds), ranks));
  }
  std::string text = "\n";
  for (const auto& [algorithm, values] : bandwidths) {
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    text += fmt::format("# Avg bus bandwidth    : {:.3f} GB/s ({})\n",
                        sum / static_cast<double>(values.size()) / 1e9, algorithm);
  }
  return text;
}

nlohmann::json row_json(const comm::SweepRow& row, int ranks) {
  const double seconds = median(row.seconds);
  nlohmann::json json = {{"algorithm", row.algorithm},
                         {"bytes", row.bytes()},
                         {"elements", row.elements},
                         {"type", type_name(row.type)},
                         {"median_seconds", seconds},
                         {"seconds", row.seconds},
                         {"algbw_bytes_per_second", nullptr},
                         {"busbw_bytes_per_second", nullptr},
                         {"wrong", row.wrong}};
  if (ranks > 1) {
    json["algbw_bytes_per_second"] = comm::algorithm_bandwidth(row.bytes(), seconds);
    json["busbw_bytes_per_second"] = comm::bus_bandwidth(row.bytes(), seconds, ranks);
  }
  return json;
}

std::vector<record::AllReduceRow> to_record(const std::vector<comm::SweepRow>& rows) {
  std::vector<record::AllReduceRow> records;
  for (const auto& row : rows)
    records.push_back({row.algorithm, row.bytes(), row.seconds, row.wrong});
  return records;
}

}  // namespace

core::ExitStatus allreduce_command(const Invocation& invocation) {
  Job job(invocation);
  comm::SweepOptions sweep = job.options.sweep;
  sweep.communication_type = job.options.training.reducer.gradient_type;
  sweep.progress = job.monitor;
  check_output(job);
  const study::MemoryLimit limit = memory_limit(job);
  train::together(job.communicator, [&] {
    if (sweep.max_bytes <= limit.bytes) return;
    core::fail(core::ExitStatus::out_of_memory,
               fmt::format("--max-bytes: messages of {} exceed the {} per rank of {}; use smaller "
                           "messages or fewer ranks per host",
                           core::format_bytes(double(sweep.max_bytes)),
                           core::format_bytes(double(limit.bytes)), limit.source));
  });
  if (job.options.output.is_dry_run) return end_dry_run(job);
  auto file = open_run_file(job);

  core::begin_activity(job.monitor, core::Activity::all_reduce_sweep);
  const auto transport = comm::make_gradient_transport(
      job.communicator, job.backend->device().queue(), job.options.training.transport);
  const int ranks = job.communicator.size();
  job.console.print(
      fmt::format("All-reduce over {} ({}), {}. Times are medians of {} repeats; the time of a "
                  "repeat is that of its slowest rank.\n\n",
                  plural(ranks, "rank"), job.backend->device().name(), transport->library_version(),
                  sweep.repeats));
  std::vector<comm::SweepRow> rows;
  record_measurement(job, file, [&] {
    rows = transport->sweep(sweep);
    if (file) file->write_allreduce(to_record(rows));
    const double link_gbit = job.options.output.link_gbit;
    job.console.print(sweep_head(link_gbit > 0));
    for (const auto& row : rows) job.console.print(table_row(row, ranks, link_gbit));
    job.console.print(
        ranks > 1 ? average_lines(rows, ranks)
                  : "\nWith one rank nothing is communicated, so there is no bandwidth; start "
                    "several ranks, for example mpirun -n 2 lockstep allreduce.\n");
    return record::RunStatus::complete;
  });
  auto list = nlohmann::json::array();
  for (const auto& row : rows) list.push_back(row_json(row, ranks));
  print_json(job, {{"allreduce", list}});
  std::uint64_t wrong = 0;
  for (const auto& row : rows) wrong += row.wrong;
  if (wrong > 0) {
    comm::fail_together(
        job.communicator, core::ExitStatus::internal,
        fmt::format(
            "{} elements of the sums were wrong; check the network and its library before training",
            wrong));
  }
  return core::ExitStatus::done;
}

}  // namespace lockstep::app
