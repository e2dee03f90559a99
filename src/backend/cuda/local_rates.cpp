// SPDX-License-Identifier: BSD-3-Clause
#include "local_rates.hpp"

#include <algorithm>
#include <span>

#include "../parameter_ranges.hpp"
#include "launch.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {

namespace {

std::vector<kernels::ParameterSegments> segments_by_parameter(
    std::span<const kernels::Segment> segments, std::size_t parameters) {
  std::vector<kernels::ParameterSegments> table(parameters);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    auto& range = table.at(static_cast<std::size_t>(segments[i].parameter));
    if (range.end == 0) range.first = static_cast<std::int32_t>(i);
    range.end = static_cast<std::int32_t>(i) + 1;
  }
  return table;
}

}  // namespace

LocalRates::LocalRates(const graph::Graph& graph, const Segments& segments)
    : ranges_(parameter_ranges(graph)),
      table_(core::device_buffer(ranges_.size() * sizeof(kernels::ParameterSegments),
                                 "the segments of the parameters")),
      squares_(core::device_buffer(segments.host().size() * sizeof(kernels::SegmentSquares),
                                   "sums of squares")),
      rates_(core::device_buffer(ranges_.size() * sizeof(float), "local learning rates")) {
  const auto table = segments_by_parameter(segments.host(), ranges_.size());
  core::copy_to_device(table_.data(), std::as_bytes(std::span(table)),
                       "copying a table of parameters");
}

LocalRates::Parameters LocalRates::complete(std::size_t first, std::size_t count) const {
  const auto after = [&](std::size_t element) {
    const auto found = std::ranges::upper_bound(ranges_, element, {}, &optim::ParameterRange::end);
    return static_cast<std::size_t>(found - ranges_.begin());
  };
  const std::size_t begin = after(first), end = after(first + count);
  if (begin == end) return {};
  return {.index = begin,
          .count = end - begin,
          .first = ranges_[begin].begin,
          .end = ranges_[end - 1].end};
}

void LocalRates::compute(cudaStream_t stream, const Segments& segments, Parameters parameters,
                         const kernels::UpdateArguments& update) const {
  auto* const squares = reinterpret_cast<kernels::SegmentSquares*>(squares_.data());
  const kernels::Segment* const all = segments.all().segments;
  launch(stream, kernels::SegmentSums{update.table, update.parameters,
                                      squares + (update.table.segments - all)});
  launch(stream,
         kernels::LocalRates{
             reinterpret_cast<const kernels::ParameterSegments*>(table_.data()) + parameters.index,
             static_cast<std::int64_t>(parameters.count), all, squares, update.coefficients,
             update.loss_scale, update.clip_factor, rates_.as<float>().data() + parameters.index});
}

}  // namespace lockstep::backend::cuda
