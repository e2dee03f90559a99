// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/sweep.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>

#include "all_reduce/registry.hpp"
#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/timeline.hpp"
#include "sweep_parts.hpp"

namespace lockstep::comm {

namespace {

std::vector<SweepRow> sweep_one_size(AllReduceResources& resources, std::span<float> values,
                                     const SweepOptions& options) {
  const KnownValues known(resources.ranks().rank(), resources.ranks().size());
  std::vector<SweptSum> sums;
  std::vector<SweepRow> rows;
  for (const AllReduceAlgorithm algorithm :
       available_algorithms(resources, values, options.communication_type)) {
    const std::shared_ptr<AllReduce> sum =
        make_all_reduce(resources, values, options.communication_type, algorithm);
    sums.emplace_back([sum] {
      sum->start();
      sum->finish();
    });
    rows.push_back({.algorithm = std::string(algorithm.name()),
                    .elements = values.size(),
                    .type = supported_type(algorithm, options.communication_type)});
  }
  sums.emplace_back([&] { resources.ranks().sum(values); });
  rows.push_back({.algorithm = "mpi-blocking", .elements = values.size()});
  const SweptArray array{[&](std::size_t repeat) { known.fill(values, repeat); },
                         [&](std::size_t repeat, core::DataType type) {
                           return known.count_wrong(values, repeat, type);
                         }};
  sweep_sums(resources.ranks(), options, array, sums, rows);
  return rows;
}

}  // namespace

double algorithm_bandwidth(std::size_t bytes, double seconds) {
  return static_cast<double>(bytes) / seconds;
}

double bus_bandwidth(std::size_t bytes, double seconds, int ranks) {
  return algorithm_bandwidth(bytes, seconds) * 2.0 * (ranks - 1) / ranks;
}

void sweep_sums(Communicator& communicator, const SweepOptions& options, const SweptArray& array,
                std::span<const SweptSum> sums, std::span<SweepRow> rows) {
  for (int repeat = -options.warmup; repeat < options.repeats; ++repeat) {
    const auto shift = static_cast<std::size_t>(repeat + options.warmup);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      array.fill(shift);
      communicator.barrier();
      const double begin = core::host_seconds();
      sums[i]();
      const double seconds = core::host_seconds() - begin;
      rows[i].wrong += array.count_wrong(shift, rows[i].type);
      if (repeat >= 0) rows[i].seconds.push_back(seconds);
      core::report_progress(options.progress);
    }
  }
  for (SweepRow& row : rows) {
    communicator.maximum(row.seconds);
    auto wrong = static_cast<double>(row.wrong);
    communicator.sum(std::span<double>(&wrong, 1));
    row.wrong = static_cast<std::uint64_t>(wrong);
  }
}

std::vector<std::size_t> sweep_sizes(const SweepOptions& options) {
  if (options.min_bytes < sizeof(float) || options.max_bytes < options.min_bytes ||
      options.factor < 2 || options.repeats < 1 || options.warmup < 0) {
    core::fail(core::ExitStatus::usage,
               "the sweep's sizes or counts make no sense; give 4 <= min bytes <= max bytes, a "
               "factor of at least 2 and at least 1 repeat");
  }
  std::vector<std::size_t> sizes{options.min_bytes};
  const auto factor = static_cast<std::size_t>(options.factor);
  while (sizes.back() <= options.max_bytes / factor) sizes.push_back(sizes.back() * factor);
  return sizes;
}

std::vector<SweepRow> sweep_all_reduce(AllReduceResources& resources, const SweepOptions& options) {
  std::vector<std::size_t> sizes;
  together(resources.ranks(), [&] { sizes = sweep_sizes(options); });
  const core::Buffer buffer = resources.allocate(options.max_bytes);
  std::vector<SweepRow> rows;
  for (const std::size_t bytes : sizes) {
    const std::span<float> values = buffer.as<float>().first(bytes / sizeof(float));
    std::ranges::move(sweep_one_size(resources, values, options), std::back_inserter(rows));
  }
  return rows;
}

}  // namespace lockstep::comm
