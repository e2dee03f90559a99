// SPDX-License-Identifier: BSD-3-Clause
#include "host_sweep.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <string>

#include "all_reduce/registry.hpp"
#include "known_values.hpp"
#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/buffer.hpp"
#include "swept_array.hpp"

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
