// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Local learning rates of LARS, as `optim::local_rate`, in two passes: sums of squares of each
// segment, then the rate of each parameter. The order of the additions is fixed, so that replicas
// with equal gradients stay equal. Memory traffic: parameters and gradients are read once.

#include <cmath>

#include "update.hpp"

namespace lockstep::backend::cuda::kernels {

/// Sums of the squares of the elements of a segment.
struct SegmentSquares {
  double parameters = 0;
  double gradients = 0;
};

/// A parameter in a table of segments: the segments [first, end).
struct ParameterSegments {
  std::int32_t first = 0;
  std::int32_t end = 0;
};

/// Computes the sums of squares of the segments of `table`.
/// Memory traffic: reads parameters, gradients; writes squares; from caches: segments.
struct SegmentSums {
  static constexpr int team = 256;
  static constexpr int resident_blocks = 4;

  SegmentTable table;
  const float* parameters;  ///< flat buffer
  SegmentSquares* squares;  ///< of the segments of `table`

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return table.size; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t segment) const {
    static_assert(team == segment_groups);
    const auto sum = [&](auto read) {
      return team_sum<team, double>(team, [&](std::int64_t thread) {
        const Group group = table.group(segment * segment_groups + thread);
        double squares_of_group = 0;
        if (group.count <= 0) return squares_of_group;
        float values[group_elements];
        read(group, values);
        for (const float value : values)
          squares_of_group += static_cast<double>(value) * static_cast<double>(value);
        return squares_of_group;
      });
    };
    const double of_parameters = sum([&](const Group& group, float(&values)[group_elements]) {
      load_elements(parameters, group.segment->flat + group.element, group.count, values);
    });
    const double of_gradients = sum([&](const Group& group, float(&values)[group_elements]) {
      load_group(group.segment->gradient, group, values);
    });
    if (team_lane<team>() == 0) squares[segment] = {of_parameters, of_gradients};
  }
};

/// Computes the local rates of parameters from the sums of squares of their segments. Parameters
/// that do not decay have rate 1.
/// Memory traffic: reads squares, ranges; writes local_rates; from caches: segments, coefficients,
/// loss_scale, clip_factor.
struct LocalRates {
  static constexpr int team = 32;

  const ParameterSegments* ranges;  ///< of the parameters
  std::int64_t parameters;          ///< number
  const Segment* segments;          ///< all segments
  const SegmentSquares* squares;    ///< of all segments
  const UpdateCoefficients* coefficients;
  const LossScale* loss_scale;         ///< null: scale 1
  const float* clip_factor = nullptr;  ///< null: 1
  float* local_rates = nullptr;        ///< of the parameters

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return parameters; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t parameter) const {
    const ParameterSegments range = ranges[parameter];
    const auto norm = [&](double SegmentSquares::*squares_of) {
      return std::sqrt(team_sum<team, double>(range.end - range.first, [&](std::int64_t i) {
        return squares[range.first + i].*squares_of;
      }));
    };
    const double weight = norm(&SegmentSquares::parameters);
    const auto scale = scaled(coefficients->gradient_scale, loss_scale, clip_factor);
    const double gradient = static_cast<double>(scale) * norm(&SegmentSquares::gradients);
    if (team_lane<team>() != 0) return;
    const bool is_adapted = segments[range.first].decay != 0 && weight != 0 && gradient != 0;
    const auto decay = static_cast<double>(coefficients->weight_decay);
    const double rate =
        static_cast<double>(coefficients->trust) * weight / (gradient + decay * weight);
    local_rates[parameter] = is_adapted ? static_cast<float>(rate) : 1.0f;
  }
};

}  // namespace lockstep::backend::cuda::kernels
