// SPDX-License-Identifier: BSD-3-Clause
#include "fused_statistics.hpp"

#include <algorithm>

namespace lockstep::backend::cpu {

std::vector<FusedStatistics> fused_statistics(const std::vector<Step>& steps) {
  std::vector<FusedStatistics> entries;
  for (const Step& step : steps) {
    if (!step.operation.is<graph::BatchNorm>()) continue;
    const Step& from = steps[static_cast<std::size_t>(step.inputs[0])];
    if (!from.operation.is<graph::Convolution>()) continue;
    // The convolution computes the statistics for one batch norm; others compute their own.
    if (std::ranges::count(entries, from.node, &FusedStatistics::convolution) > 0) continue;
    const auto channels = static_cast<std::size_t>(step.output.channels);
    entries.push_back({.convolution = from.node,
                       .batch_norm = step.node,
                       .sum = std::vector<double>(channels),
                       .square = std::vector<double>(channels)});
  }
  return entries;
}

void PartialSums::add(const std::array<float, channels>& values) {
  if (count++ == 0) {
    shift = values;
    sum = square = {};
  }
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const float difference = values[channel] - shift[channel];
    sum[channel] += difference;
    square[channel] += difference * difference;
  }
}

StatisticsAccumulator::StatisticsAccumulator(FusedStatistics& result, std::int64_t channels,
                                             int threads)
    : result_(result),
      channels_(static_cast<std::size_t>(channels)),
      threads_(threads),
      sums_(2 * static_cast<std::size_t>(threads) * channels_) {}

void StatisticsAccumulator::begin() { std::ranges::fill(sums_, 0.0); }

void StatisticsAccumulator::add(int thread, std::int64_t channel, std::int64_t count,
                                const PartialSums& part) {
  double* const sums = sums_of(thread) + channel;
  double* const squares = sums + channels_;
  const auto values = static_cast<double>(part.count);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const double shift = part.shift[i], sum = part.sum[i];
    sums[i] += sum + values * shift;
    squares[i] += part.square[i] + shift * (2 * sum + values * shift);
  }
}

void StatisticsAccumulator::finish() {
  std::ranges::fill(result_.sum, 0.0);
  std::ranges::fill(result_.square, 0.0);
  for (int thread = 0; thread < threads_; ++thread) {
    const double* const sum = sums_of(thread);
    const double* const square = sum + channels_;
    for (std::size_t c = 0; c < result_.sum.size(); ++c) {
      result_.sum[c] += sum[c];
      result_.square[c] += square[c];
    }
  }
}

}  // namespace lockstep::backend::cpu
